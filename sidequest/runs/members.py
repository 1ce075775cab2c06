"""Members of a population on the local devices: a function of one becomes one of all."""

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int

MEMBERS = "members"  # the axis that local devices share


def devices_for(members: int, company: bool | None = None) -> Mesh:
    """The local devices that share the population.

    Of accelerators as many as divide it evenly. A CPU's cores take a member each, and a
    member that is alone has them all. A program for one core is not, to the last bit, that
    for several; so a run that has begun in company, or alone, can ask to go on like that.
    """
    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        company = members > 1 if company is None else company
        used = min(len(devices), max(2, members)) if company else 1
    else:
        used = max(n for n in range(1, len(devices) + 1) if members % n == 0)
    return Mesh(np.array(devices[:used]), (MEMBERS,))


def rows_of(mesh: Mesh, stacked) -> list:
    """Cuts a tree of all members into what is computed at a time.

    An accelerator takes all of its members together. A CPU takes one member a core: batches
    of small matrix products are no quicker there, and so a member's program, and with it
    every bit of its numbers, is the same whatever other members there are. The last row is
    filled up with its last member.

        members 0 1 2 3 4    two cores: [0 1] [2 3] [4 4]    one GPU: [0 1 2 3 4]
    """
    count = len(jax.tree.leaves(stacked)[0])
    size = mesh.size if on_cpu(mesh) else count
    rows = [np.minimum(np.arange(i, i + size), count - 1) for i in range(0, count, size)]
    return [jax.tree.map(lambda leaf, row=row: leaf[row], stacked) for row in rows]


def on_all(mesh: Mesh, function: Callable, *, shared: int = 0) -> Callable:
    """Applies a function of one member to a row of them, each device to its own.

    The last `shared` arguments are the same for all.
    """

    def apply(*arguments):
        first_shared = len(arguments) - shared
        axes = [0] * first_shared + [None] * shared
        specs = tuple(PartitionSpec(*[MEMBERS] * (axis == 0)) for axis in axes)

        def alone(*arguments):
            own = member_of(arguments[:first_shared], 0)
            result = function(*own, *arguments[first_shared:])
            return jax.tree.map(lambda leaf: leaf[None], result)

        return jax.shard_map(
            alone if on_cpu(mesh) else jax.vmap(function, in_axes=axes),
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec(MEMBERS),
            check_vma=False,  # members never exchange anything, so nothing is to check
        )(*arguments)

    return apply


def on_cpu(mesh: Mesh) -> bool:
    return mesh.devices.flat[0].platform == "cpu"


def gathered(rows: Sequence, members: int):
    """So many members of the rows, on the host."""
    rows = [jax.device_get(row) for row in rows]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:members], *rows)


def member_of(stacked, member: int | Int[Array, ""]):
    """One member's part of a tree of all."""
    return jax.tree.map(lambda leaf: leaf[member], stacked)
