"""The engine of compiled tree search: many trees grow side by side, one node each at a time.

What a node is and what follows a move is said by a function (`Advance`), which move is looked at next by two others, so
that games, environments and ways of selecting share one engine. It is written anew beside mctx, whose visits it
reproduces (tests compare), for two reasons. Values go back by one scatter along the path that was walked, where mctx
loops over parents inside `jax.vmap`, which copies whole trees at every step: on CPUs the difference is a factor of ten
and more (`python -m benchmarks agents-search`). And sums of values are kept, not running means, so that counts equal
those of the readable search and trees can be gone on with (`reuse`). Ended games are leaves and take no further nodes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Int, Key


@final
class Expansion(NamedTuple):
    """What follows a move, for a batch: the new states, and what is thought of them."""

    state: Any
    reward: Float[Array, " batch"]
    """To who made the move."""
    discount: Float[Array, " batch"]
    """What the value of the new state counts for who made the move: -1 where the other is to move, 0 at an end."""
    over: Bool[Array, " batch"]
    """Whether nothing can follow."""
    prior: Float[Array, "batch actions"]
    """Over legal moves, normalised."""
    value: Float[Array, " batch"]
    """For who is to move."""


@final
class Trees(NamedTuple):
    """A batch of trees; node 0 is the root, and a child is numbered after its parent."""

    states: Any
    prior: Float[Array, "batch nodes actions"]
    visits: Int[Array, "batch nodes actions"]
    totals: Float[Array, "batch nodes actions"]
    """Sums of the values seen behind each move, for who makes it."""
    children: Int[Array, "batch nodes actions"]
    """Numbers of nodes; 0 where a move leads to none yet, because the root is nobody's child."""
    parents: Int[Array, "batch nodes"]
    values: Float[Array, "batch nodes"]
    """As evaluated, for who is to move."""
    rewards: Float[Array, "batch nodes"]
    discounts: Float[Array, "batch nodes"]
    over: Bool[Array, "batch nodes"]
    size: Int[Array, " batch"]
    """Nodes in use."""


@final
class Statistics(NamedTuple):
    """What is known of the moves of one node of every tree."""

    prior: Float[Array, "batch actions"]
    visits: Int[Array, "batch actions"]
    totals: Float[Array, "batch actions"]
    value: Float[Array, " batch"]
    """As evaluated."""

    @property
    def q(self) -> Float[Array, "batch actions"]:
        """Mean value behind each move, 0 where it has not been visited."""
        return self.totals / jnp.maximum(self.visits, 1)


Advance: TypeAlias = Callable[[Key, Any, Array], Expansion]
"""From a key, a batch of states and a move of each to what follows."""
Select: TypeAlias = Callable[[Statistics], Array]
"""From the statistics of a node of each tree to the moves to look at next."""


def plant(root: Expansion, nodes: int) -> Trees:
    """Trees of a root each, with room for so many nodes."""
    batch, actions = root.prior.shape

    def room(x: Array) -> Array:
        return jnp.zeros((batch, nodes, *x.shape[1:]), x.dtype).at[:, 0].set(x)

    edges = jnp.zeros((batch, nodes, actions), jnp.int32)
    return Trees(
        states=jax.tree.map(room, root.state),
        prior=room(root.prior),
        visits=edges,
        totals=edges.astype(root.value.dtype),
        children=edges,
        parents=jnp.zeros((batch, nodes), jnp.int32),
        values=room(root.value),
        rewards=room(root.reward),
        discounts=room(root.discount),
        over=room(root.over),
        size=jnp.ones(batch, jnp.int32),
    )


def statistics(trees: Trees, node: Int[Array, " batch"]) -> Statistics:
    """What is known of one node of every tree."""
    rows = jnp.arange(node.size)
    return Statistics(
        trees.prior[rows, node], trees.visits[rows, node], trees.totals[rows, node], trees.values[rows, node]
    )


def grow(
    key: Key,
    trees: Trees,
    advance: Advance,
    select_root: Select,
    select: Select,
    simulations: int,
    depth: int,
) -> Trees:
    """The trees after so many simulations, none of them longer than `depth` moves."""

    def simulate(i: Array, trees: Trees) -> Trees:
        path = _descend(trees, select_root, select, depth)
        trees, leaf = _expand(jax.random.fold_in(key, i), trees, path, advance)
        return _back_up(trees, path, leaf)

    return jax.lax.fori_loop(0, simulations, simulate, trees)


@final
class _Path(NamedTuple):
    nodes: Int[Array, "depth batch"]
    actions: Int[Array, "depth batch"]
    length: Int[Array, " batch"]
    """How many moves the walk of each tree has; entries behind them mean nothing."""


def _descend(trees: Trees, select_root: Select, select: Select, depth: int) -> _Path:
    """Walks down all trees until each is at a move without a node, or at an end."""
    batch = trees.size.size
    rows = jnp.arange(batch)

    def walk(carry: tuple[Array, Array, Array, _Path]) -> tuple[Array, Array, Array, _Path]:
        t, node, active, path = carry
        action = select(statistics(trees, node))
        return follow(t, node, active, path, action)

    def follow(
        t: Array, node: Array, active: Array, path: _Path, action: Array
    ) -> tuple[Array, Array, Array, _Path]:
        path = _Path(
            path.nodes.at[t].set(node), path.actions.at[t].set(action), path.length + active.astype(jnp.int32)
        )
        child = trees.children[rows, node, action]
        active = active & (child > 0) & ~trees.over[rows, child]
        return t + 1, jnp.where(active, child, node), active, path

    blank = jnp.zeros((depth, batch), jnp.int32)
    start = _Path(blank, blank, jnp.zeros(batch, jnp.int32))
    root = jnp.zeros(batch, jnp.int32)
    action = select_root(statistics(trees, root))
    first = follow(jnp.zeros((), jnp.int32), root, jnp.ones(batch, bool), start, action)
    return jax.lax.while_loop(lambda carry: carry[2].any() & (carry[0] < depth), walk, first)[3]


def _expand(key: Key, trees: Trees, path: _Path, advance: Advance) -> tuple[Trees, Expansion]:
    """Evaluates what the last moves of the walks lead to; an end met before is written again as it was."""
    rows = jnp.arange(trees.size.size)
    node, action = path.nodes[path.length - 1, rows], path.actions[path.length - 1, rows]
    leaf = advance(key, jax.tree.map(lambda x: x[rows, node], trees.states), action)
    child = trees.children[rows, node, action]
    index = jnp.where(child > 0, child, trees.size)

    def put(into: Array, what: Array) -> Array:
        return into.at[rows, index].set(what)

    return trees._replace(
        states=jax.tree.map(put, trees.states, leaf.state),
        prior=put(trees.prior, leaf.prior),
        children=trees.children.at[rows, node, action].set(index),
        parents=put(trees.parents, node),
        values=put(trees.values, leaf.value),
        rewards=put(trees.rewards, leaf.reward),
        discounts=put(trees.discounts, leaf.discount),
        over=put(trees.over, leaf.over),
        size=jnp.maximum(trees.size, index + 1),
    ), leaf


def _back_up(trees: Trees, path: _Path, leaf: Expansion) -> Trees:
    """Adds the values of the leaves to all moves that led to them, each as who made it sees it."""
    depth, batch = path.nodes.shape
    rows = jnp.arange(batch)
    steps = jnp.arange(depth)[:, None]
    on_path = steps < path.length[None]
    # The move at step t leads to the node at step t + 1; the last one leads to the leaf.
    following = jnp.roll(path.nodes, -1, axis=0)
    last = steps == path.length[None] - 1
    reward = jnp.where(last, leaf.reward[None], trees.rewards[rows[None], following])
    discount = jnp.where(last, leaf.discount[None], trees.discounts[rows[None], following])

    def back(value: Array, edge: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        on, reward, discount = edge
        value = jnp.where(on, reward + discount * value, value)
        return value, value

    _, values = jax.lax.scan(back, leaf.value, (on_path, reward, discount), reverse=True)
    at = (jnp.broadcast_to(rows[None], (depth, batch)), path.nodes, path.actions)
    return trees._replace(
        visits=trees.visits.at[at].add(on_path.astype(jnp.int32)),
        totals=trees.totals.at[at].add(jnp.where(on_path, values, 0)),
    )


__all__ = ["Advance", "Expansion", "Select", "Statistics", "Trees", "grow", "plant", "statistics"]
