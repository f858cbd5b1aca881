"""Going on with a tree: after a move, the part of the tree behind it is what the next search begins with."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.agents.tree_search.engine import Trees
from chainrule.core.types import Array, Int


def reroot(
    trees: Trees,
    actions: Int[Array, " batch"],
    *,
    room: int,
    fresh: Bool[Array, " batch"] | None = None,
) -> Trees:
    """The subtrees behind the moves that were played, with their statistics, and room for so many more nodes.

    The number of nodes stays: of a subtree that leaves too little room, the nodes found last are dropped; what was
    counted on the way to them stays, and a walk that comes by finds them anew. Where `fresh` is true, nothing is kept:
    a new game has begun.
    """
    batch, nodes = trees.parents.shape
    rows = jnp.arange(batch)
    child = trees.children[rows, 0, actions]
    if fresh is not None:
        child = jnp.where(fresh, 0, child)
    number = jnp.arange(nodes)[None]
    below = _below(trees.parents, child) & (number < trees.size[:, None]) & (child > 0)[:, None]
    # Children come after their parents, so that a subtree in its order begins with its root and keeps this property.
    renumbered = jnp.cumsum(below, axis=1) - 1
    kept = below & (renumbered < nodes - room)
    order = jnp.argsort(~kept, axis=1, stable=True)
    size = kept.sum(1)
    used = number < size[:, None]
    renumbered = jnp.where(kept, renumbered, 0)

    def moved(x: Array) -> Array:
        mask = used.reshape(*used.shape, *(1,) * (x.ndim - 2))
        return jnp.where(mask, x[rows[:, None], order], 0).astype(x.dtype)

    result: Trees = jax.tree.map(
        moved, trees._replace(size=used)
    )  # an entry per node like all others; not read
    return result._replace(
        size=size,
        children=renumbered[rows[:, None, None], result.children],
        parents=renumbered[rows[:, None], result.parents],
    )


def _below(parents: Int[Array, "batch nodes"], child: Int[Array, " batch"]) -> Bool[Array, "batch nodes"]:
    """Which nodes have `child` among their ancestors, or are it: every node jumps to twice as far an ancestor."""
    batch, nodes = parents.shape
    rows = jnp.arange(batch)[:, None]
    ancestors = parents.at[jnp.arange(batch), child].set(child)
    for _ in range(int(np.ceil(np.log2(max(nodes, 2))))):
        ancestors = ancestors[rows, ancestors]
    return ancestors == child[:, None]


__all__ = ["reroot"]
