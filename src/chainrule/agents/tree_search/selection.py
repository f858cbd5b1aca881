"""Rules that say which move a search looks at next: functions of the statistics of a node, for batches of trees."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.agents.tree_search.engine import Select, Statistics
from chainrule.agents.tree_search.reference import TIE
from chainrule.core.types import Array, Float, Int


def puct(c: Float[Array, ""] | float, *, rescaled: bool = False) -> Select:
    """Q + c P sqrt(1 + sum N) / (1 + N), the first of equal maxima, as in the readable search.

    With `rescaled`, values lie in [0, 1] between the smallest and largest of a node's moves: for rewards of any size.
    """

    def select(known: Statistics) -> Array:
        q = _between(known.q, known.visits > 0, known.value) if rescaled else known.q
        root = jnp.sqrt(1.0 + known.visits.sum(-1, keepdims=True))
        return first_best(q + c * known.prior * root / (1 + known.visits), known.prior > 0)

    return select


def first_best(
    scores: Float[Array, "batch actions"], allowed: Bool[Array, "batch actions"]
) -> Int[Array, " batch"]:
    """The first of those that are best, but for differences that rounding makes."""
    scores = jnp.where(allowed, scores, -jnp.inf)
    return jnp.argmax(scores >= scores.max(-1, keepdims=True) - TIE, axis=-1).astype(jnp.int32)


def _between(
    q: Float[Array, "batch actions"], seen: Bool[Array, "batch actions"], value: Float[Array, " batch"]
) -> Float[Array, "batch actions"]:
    """Values of the seen moves between 0 and 1; 0 for the others."""
    own = value[:, None]
    low = jnp.minimum(jnp.where(seen, q, own).min(-1, keepdims=True), own)
    high = jnp.maximum(jnp.where(seen, q, own).max(-1, keepdims=True), own)
    return jnp.where(seen, (q - low) / jnp.maximum(high - low, 1e-8), 0)


def completed_q(known: Statistics, scale: float = 0.1, offset: float = 50.0) -> Float[Array, "batch actions"]:
    """Values of all moves in units of logits; moves not looked at get what the node as a whole is worth.

    What the node is worth mixes its evaluation with the values seen, weighted by the prior (Danihelka et al., 2022).
    """
    seen = known.visits > 0
    weights = jnp.where(seen, jnp.maximum(known.prior, jnp.finfo(known.prior.dtype).tiny), 0)
    mean = (weights * known.q).sum(-1) / jnp.where(seen.any(-1), weights.sum(-1), 1)
    total = known.visits.sum(-1)
    mixed = (known.value + total * mean) / (1 + total)
    q = jnp.where(seen, known.q, mixed[:, None])
    low, high = q.min(-1, keepdims=True), q.max(-1, keepdims=True)
    q = (q - low) / jnp.maximum(high - low, 1e-8)
    return (offset + known.visits.max(-1, keepdims=True)) * scale * q


def improved_logits(known: Statistics) -> Float[Array, "batch actions"]:
    """Logits of the prior plus completed values: their softmax is never worse than the prior, in expectation."""
    logits = jnp.log(jnp.maximum(known.prior, jnp.finfo(known.prior.dtype).tiny))
    return jnp.where(known.prior > 0, logits + completed_q(known), -jnp.inf)


def improved(known: Statistics) -> Array:
    """The move that brings the visits nearest to the improved policy."""
    policy = jax.nn.softmax(improved_logits(known), axis=-1)
    visits = known.visits
    return first_best(policy - visits / (1 + visits.sum(-1, keepdims=True)), known.prior > 0)


def halving(gumbel: Float[Array, "batch actions"], considered: int, simulations: int) -> Select:
    """Sequential halving at a root: the best few by prior and chance, the better half of them twice as often, ..."""
    schedule = jnp.array([_schedule(k, simulations) for k in range(considered + 1)])

    def select(known: Statistics) -> Array:
        legal = known.prior > 0
        among = jnp.minimum(legal.sum(-1), considered)
        due = schedule[among, known.visits.sum(-1)]
        return halving_best(known, gumbel, due)

    return select


def halving_best(
    known: Statistics, gumbel: Float[Array, "batch actions"], visits: Int[Array, " batch"]
) -> Int[Array, " batch"]:
    """The best of those that have been visited so often."""
    return first_best(gumbel + improved_logits(known), (known.prior > 0) & (known.visits == visits[:, None]))


@functools.cache
def _schedule(considered: int, simulations: int) -> tuple[int, ...]:
    """How often a move must have been visited to be due, for every simulation."""
    if considered <= 1:
        return tuple(range(simulations))
    rounds = int(np.ceil(np.log2(considered)))
    due: list[int] = []
    visits, left = [0] * considered, considered
    while len(due) < simulations:
        for _ in range(max(1, simulations // (rounds * left))):
            due += visits[:left]
            visits[:left] = [count + 1 for count in visits[:left]]
        left = max(2, left // 2)
    return tuple(due[:simulations])


__all__ = ["completed_q", "first_best", "halving", "halving_best", "improved", "improved_logits", "puct"]
