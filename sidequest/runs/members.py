"""Members of a population on the local devices: a function of one becomes one of all."""

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int

from sidequest.runs.checkpoint import is_key

MEMBERS = "members"  # the axis that local devices share


def devices_for(members: int) -> Mesh:
    """The local devices that share the population: as many as divide it evenly."""
    devices = jax.local_devices()
    used = max(n for n in range(1, len(devices) + 1) if members % n == 0)
    return Mesh(np.array(devices[:used]), (MEMBERS,))


def rows_of(mesh: Mesh, stacked) -> list:
    """Cuts a tree of all members into what is computed at a time.

    An accelerator takes all of its members together. A CPU takes one member a core: batches
    of small matrix products are no quicker there, and so a member's program, and with it
    every bit of its numbers, is the same whatever other members there are.

        members 0 1 2 3 4 5    two cores: [0 1] [2 3] [4 5]    one GPU: [0 1 2 3 4 5]
    """
    count = len(jax.tree.leaves(stacked)[0])
    size = mesh.size if on_cpu(mesh) else count
    return [
        jax.tree.map(lambda leaf, i=i: leaf[i : i + size], stacked)
        for i in range(0, count, size)
    ]


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


def gathered(rows: Sequence):
    """All members of the rows, on the host."""
    rows = [jax.device_get(row) for row in rows]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *rows)


def strong(leaf: Array) -> Array:
    """The same array, of a type that is not weak."""
    return leaf if is_key(leaf) else jax.lax.convert_element_type(leaf, leaf.dtype)


def member_of(stacked, member: int | Int[Array, ""]):
    """One member's part of a tree of all."""
    return jax.tree.map(lambda leaf: leaf[member], stacked)
