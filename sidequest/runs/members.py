"""Members of a population on the local devices: a function of one becomes one of all."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int

from sidequest.runs.checkpoint import is_key, portable, revive

MEMBERS = "members"  # the axis that local devices share


def devices_for(members: int) -> Mesh:
    """The local devices that share the population: as many as divide it evenly."""
    devices = jax.local_devices()
    used = max(n for n in range(1, len(devices) + 1) if members % n == 0)
    return Mesh(np.array(devices[:used]), (MEMBERS,))


def on_all(mesh: Mesh, function: Callable, *, shared: int = 0) -> Callable:
    """Applies a function of one member to all, each device working on its own members.

    The last `shared` arguments are the same for all. An accelerator works on its members
    at a time (`vmap`). A CPU core takes them one after the other: batches of small matrix
    products are no quicker there, and so a member's numbers are, bit by bit, those that it
    would have alone.
    """
    one_by_one = mesh.devices.flat[0].platform == "cpu"

    def apply(*arguments):
        first_shared = len(arguments) - shared
        axes = [0] * first_shared + [None] * shared
        specs = tuple(PartitionSpec(*[MEMBERS] * (axis == 0)) for axis in axes)

        def in_turn(*arguments):
            own, common = arguments[:first_shared], arguments[first_shared:]
            return one_after_the_other(lambda member: function(*member, *common), own)

        return jax.shard_map(
            in_turn if one_by_one else jax.vmap(function, in_axes=axes),
            mesh=mesh,
            in_specs=specs,
            out_specs=PartitionSpec(MEMBERS),
            check_vma=False,  # members never exchange anything, so nothing is to check
        )(*arguments)

    return apply


def one_after_the_other(function: Callable, members):
    """Like `lax.map`, but with the same program for one member as for many.

    A compiler that knows that there is one inlines the loop, and fuses what is in it
    otherwise: the member would differ in its last bits from the same among others. So it
    is told neither the length of the loop nor that there is only one row.
    """
    count = len(jax.tree.leaves(members)[0])
    rows = max(count, 2)
    if count < rows:
        members = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), members)
    like = jax.eval_shape(function, member_of(members, 0))
    blank = jax.tree.map(
        lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype),
        jax.eval_shape(portable, like),
    )

    def step(i: Int[Array, ""], results):
        result = portable(function(member_of(members, i)))
        return jax.tree.map(lambda all_, own: all_.at[i].set(own), results, result)

    length = jax.lax.optimization_barrier(jnp.int32(count))
    results = jax.lax.fori_loop(0, length, step, blank)
    results = jax.tree.map(lambda leaf: leaf[:count], results)
    return jax.tree.map(revive, like, results)


def strong(leaf: Array) -> Array:
    """The same array, of a type that is not weak."""
    return leaf if is_key(leaf) else jax.lax.convert_element_type(leaf, leaf.dtype)


def member_of(stacked, member: int | Int[Array, ""]):
    """One member's part of a tree of all."""
    return jax.tree.map(lambda leaf: leaf[member], stacked)
