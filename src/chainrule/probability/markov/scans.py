"""Recursions over the time of a hidden chain, in blocks of time that are worked through side by side.

Forward, backward and Viterbi recursions are products of a matrix per step, with (+, ×) or (max, ×). A long sequence is
cut into blocks: the product of each block is computed for all blocks at once, then the vectors at their borders one
after the other, then all vectors inside, again for all blocks at once. A sequence of 10^5 steps thereby takes three
loops of a few hundred steps. Vectors are scaled to a largest entry of one at every step, so that precision does not
depend on length.

Reference: Särkkä and García-Fernández, Temporal parallelization of Bayesian smoothers, IEEE TAC 66, 2021.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Integer

from chainrule.core.types import Array, Float

POSITIVE = 1e-30
"""Above it, transition probabilities never let a sum underflow that is taken relative to its largest term."""

_SHORTEST, _LARGEST = 256, 32
"""Sequences are cut if they are at least so long, and states at most so many: products of blocks cost states³."""


class Rule(NamedTuple):
    """How paths are put together, and whether vectors are held as logarithms or as scaled probabilities."""

    prepare: Callable[[Array], Array]
    """What `step` takes of the transition probabilities."""
    step: Callable[[Array, Array], Array]
    """Vectors times the prepared matrix."""
    join: Callable[[Array, Array], Array]
    """Logarithms of vectors times logarithms of matrices."""
    enter: Callable[[Array], Array]
    """From logarithms."""
    leave: Callable[[Array], Array]
    """To logarithms."""
    likelihood: Callable[[Array], tuple[Array, Array]]
    """Log-likelihoods as `observe` takes them, and the logarithm of what they are divided by at each time."""
    observe: Callable[[Array, Array], Array]
    """Vectors with the likelihood of an observation."""
    rescale: Callable[[Array], tuple[Array, Array]]
    """Vectors with the largest entry one, and the logarithm of what they were divided by."""


class Recursion(NamedTuple):
    """The vectors of a recursion, each up to a constant of its own."""

    predicted: Float[Array, "batch time states"]
    """Before the observation of their time."""
    vectors: Float[Array, "batch time states"]
    """With it; the largest entry is zero."""
    last: Float[Array, "batch states"]
    log_scale: Float[Array, " batch"]
    """What `last` lacks: the sum of all constants."""


def safe_log(p: Array) -> Array:
    """The logarithm, -inf at zero, where its derivative is zero: what cannot happen stays impossible."""
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1.0)), -jnp.inf)


def log_sum(x: Array, axis: int) -> Array:
    """`log sum exp`, whose derivative is zero where all terms are."""
    top = _top(x, axis)
    return safe_log(jnp.exp(x - top).sum(axis=axis)) + jnp.squeeze(top, axis)


def _top(x: Array, axis: int) -> Array:
    """The largest entry, which changes no derivative; zero where there is none above -inf."""
    top = jax.lax.stop_gradient(x.max(axis=axis, keepdims=True))
    return jnp.where(jnp.isfinite(top), top, 0.0)


def _summed(v: Array, log_matrix: Array) -> Array:
    return log_sum(_pairs(v, log_matrix), axis=-2)


def _largest(v: Array, log_matrix: Array) -> Array:
    return _pairs(v, log_matrix).max(axis=-2)


def _pairs(v: Array, log_matrix: Array) -> Array:
    lead = (1,) * (v.ndim + 1 - log_matrix.ndim)
    return v[..., :, None] + log_matrix.reshape(lead + log_matrix.shape)


def _same(x: Array) -> Array:
    return x


def _subtracted(x: Array) -> tuple[Array, Array]:
    top = _top(x, -1)
    return x - top, top


def _divided(x: Array) -> tuple[Array, Array]:
    top = x.max(axis=-1, keepdims=True)
    top = jnp.where(top > 0, top, 1.0)
    return x / top, jnp.log(top)


def _relative(log_likelihood: Array) -> tuple[Array, Array]:
    top = _top(log_likelihood, -1)
    return jnp.exp(log_likelihood - top), top[..., 0]


def _as_given(log_likelihood: Array) -> tuple[Array, Array]:
    return log_likelihood, jnp.zeros_like(log_likelihood[..., 0])


ALL_POSSIBLE = Rule(_same, jnp.matmul, _summed, jnp.exp, safe_log, _relative, jnp.multiply, _divided)
"""Sums over paths where every transition is possible: products of scaled probabilities lose nothing."""
ANY = Rule(safe_log, _summed, _summed, _same, _same, _as_given, jnp.add, _subtracted)
"""Sums over paths in logarithms throughout: exact even where all that is left was far less likely than other paths."""
BEST = Rule(safe_log, _largest, _largest, _same, _same, _as_given, jnp.add, _subtracted)
"""The most likely path, in logarithms."""


def block_count(time: int, states: int) -> int:
    """Into how many blocks a sequence is cut."""
    return math.isqrt(time) if time >= _SHORTEST and states <= _LARGEST else 1


def recursion(
    rule: Rule,
    start: Float[Array, "batch states"],
    transition: Float[Array, "states states"],
    log_likelihood: Float[Array, "batch time states"],
    moves: Bool[Array, "batch time"],
) -> Recursion:
    """From logarithms `start`, at each time a move (where `moves`) and then the log-likelihood of its observation."""
    batch, time, states = log_likelihood.shape
    blocks = block_count(time, states)
    length = -(-time // blocks)
    rest = ((0, 0), (0, blocks * length - time))
    seen = jnp.pad(log_likelihood, (*rest, (0, 0))).reshape(batch, blocks, length, states)
    moved = jnp.pad(moves, rest).reshape(batch, blocks, length)
    likelihood, scale = rule.likelihood(seen)
    by_time = (jnp.moveaxis(likelihood, 2, 0), jnp.moveaxis(moved, 2, 0))
    prepared = rule.prepare(transition)

    def product(carry: tuple[Array, Array], given: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
        matrix, offset = carry
        observed, move = given
        ahead = jnp.where(move[..., None, None], rule.step(matrix, prepared), matrix)
        then, top = rule.rescale(rule.observe(ahead, observed[..., None, :]))
        return (then, offset + top), None

    def border(v: Array, matrix: Array) -> tuple[Array, Array]:
        then = rule.join(v, matrix)
        return then - _top(then, -1), v

    def step(v: Array, given: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array, Array]]:
        observed, move = given
        ahead = jnp.where(move[..., None], rule.step(v, prepared), v)
        then, top = rule.rescale(rule.observe(ahead, observed))
        return then, (ahead, then, top[..., 0])

    if blocks == 1:
        starts = start[:, None]
    else:
        nothing = rule.enter(safe_log(jnp.eye(states, dtype=log_likelihood.dtype)))
        matrix = jnp.broadcast_to(nothing, (batch, blocks, states, states))
        (matrix, offset), _ = jax.lax.scan(product, (matrix, jnp.zeros_like(matrix[..., :1])), by_time)
        _, borders = jax.lax.scan(border, start, jnp.moveaxis(rule.leave(matrix) + offset, 1, 0))
        starts = jnp.moveaxis(borders, 0, 1)
    last, (ahead, vectors, tops) = jax.lax.scan(step, rule.enter(starts), by_time)

    def in_order(parts: Array) -> Array:
        return rule.leave(jnp.moveaxis(parts, 0, 2).reshape(batch, blocks * length, states)[:, :time])

    total = (tops.sum(axis=0) + scale.sum(axis=2)).sum(axis=1)
    return Recursion(in_order(ahead), in_order(vectors), rule.leave(last[:, -1]), total)


class Filtered(NamedTuple):
    """What the past says of the hidden states."""

    log_prob: Float[Array, " batch"]
    states: Float[Array, "batch time states"]
    """Probability of each state at each time, given the observations up to it; after its end the last ones stay."""


class BestPath(NamedTuple):
    """The most likely path of hidden states."""

    log_prob: Float[Array, " batch"]
    """Of the path and the sequence together."""
    states: Integer[Array, "batch time"]
    """After the end of a sequence the last state stays."""


class Smoothed(NamedTuple):
    """What a sequence says of the hidden states."""

    log_prob: Float[Array, " batch"]
    states: Float[Array, "batch time states"]
    """Probability of each state at each time, given the whole sequence; zero after its end."""
    moves: Float[Array, "states states"]
    """Expected number of moves from state to state, over all sequences."""


@functools.partial(jax.jit, static_argnames=("rule",))
def log_probability(
    rule: Rule, start: Array, transition: Array, log_likelihood: Array, lengths: Array
) -> Float[Array, " batch"]:
    """The forward recursion: the log-probability of each sequence."""
    seen, moves = _masked(log_likelihood, lengths)
    found = recursion(rule, _rows(safe_log(start), seen), transition, seen, moves)
    return found.log_scale + log_sum(found.last, -1)


@functools.partial(jax.jit, static_argnames=("rule",))
def filtered(rule: Rule, start: Array, transition: Array, log_likelihood: Array, lengths: Array) -> Filtered:
    """The forward recursion with all its vectors."""
    seen, moves = _masked(log_likelihood, lengths)
    found = recursion(rule, _rows(safe_log(start), seen), transition, seen, moves)
    return Filtered(found.log_scale + log_sum(found.last, -1), jax.nn.softmax(found.vectors))


@functools.partial(jax.jit, static_argnames=("rule",))
def smoothed(rule: Rule, start: Array, transition: Array, log_likelihood: Array, lengths: Array) -> Smoothed:
    """Forward and backward recursion: the same one, in both directions of time."""
    seen, moves = _masked(log_likelihood, lengths)
    there = recursion(rule, _rows(safe_log(start), seen), transition, seen, moves)
    back = recursion(rule, jnp.zeros_like(there.last), transition.T, _turned(seen, lengths), moves)
    after, onwards = (_turned(one, lengths) for one in (back.predicted, back.vectors))
    # Above its maximum -inf, softmax has nothing to divide by: such a sequence cannot happen, and callers ask for that.
    states = jax.nn.softmax(there.vectors + after) * _within(lengths, seen.shape[1])[..., None]
    counts = _move_counts(rule, there.vectors[:, :-1], transition, onwards[:, 1:], moves[:, 1:])
    return Smoothed(there.log_scale + log_sum(there.last, -1), states, counts)


def _move_counts(rule: Rule, before: Array, transition: Array, onwards: Array, moves: Array) -> Array:
    states = before.shape[-1]
    before, onwards, weight = before.reshape(-1, states), onwards.reshape(-1, states), moves.reshape(-1)
    if rule is ALL_POSSIBLE:
        left, right = jnp.exp(before), jnp.exp(onwards)
        total = ((left @ transition) * right).sum(axis=-1, keepdims=True)
        return transition * ((left * weight[:, None] / total).T @ right)
    size = 256  # a few at a time: all moves of a long sequence with many states would fill the memory
    rest = -len(before) % size
    log_transition = safe_log(transition)

    def add(counts: Array, given: tuple[Array, ...]) -> tuple[Array, None]:
        first, second, counted = given
        joint = first[:, :, None] + log_transition[None] + second[:, None, :]
        chance = jax.nn.softmax(joint.reshape(size, -1)).reshape(joint.shape)
        return counts + jnp.where(counted[:, None, None], chance, 0.0).sum(axis=0), None

    pieces = (
        jnp.pad(one, ((0, rest), *((0, 0),) * (one.ndim - 1))).reshape(-1, size, *one.shape[1:])
        for one in (before, onwards, weight)
    )
    counts, _ = jax.lax.scan(add, jnp.zeros_like(transition), tuple(pieces))
    return counts


@functools.partial(jax.jit, static_argnames=("rule",))
def decoded(rule: Rule, start: Array, transition: Array, log_likelihood: Array, lengths: Array) -> BestPath:
    """The path of states that is most likely given the sequence (Viterbi), whatever the rule of sums."""
    del rule
    seen, moves = _masked(log_likelihood, lengths)
    found = recursion(BEST, _rows(safe_log(start), seen), transition, seen, moves)
    batch, time, states = seen.shape
    came_from = _pairs(found.vectors[:, :-1], safe_log(transition)).argmax(axis=-2)
    stayed = jnp.arange(states, dtype=came_from.dtype)
    came_from = jnp.where(moves[:, 1:, None], came_from, stayed[None, None])
    # Back from the end: first where each block leads from every state at its end, then the path itself.
    blocks = block_count(time, states)
    length = -(-(time - 1) // blocks)
    rest = blocks * length - (time - 1)
    stays = jnp.broadcast_to(stayed, (batch, rest, states))
    maps = jnp.concatenate([came_from, stays], axis=1).reshape(batch, blocks, length, states)
    maps = jnp.moveaxis(maps, 2, 0)

    def back(now: Array, came: Array) -> tuple[Array, None]:
        return jnp.take_along_axis(came, now, axis=-1), None

    def border(now: Array, came: Array) -> tuple[Array, Array]:
        return jnp.take_along_axis(came, now[:, None], axis=-1)[:, 0], now

    def path(now: Array, came: Array) -> tuple[Array, Array]:
        return jnp.take_along_axis(came, now[..., None], axis=-1)[..., 0], now

    ends = jnp.broadcast_to(stayed, (batch, blocks, states))
    leads, _ = jax.lax.scan(back, ends, maps, reverse=True)
    last = found.last.argmax(axis=-1).astype(came_from.dtype)
    first, at_ends = jax.lax.scan(border, last, jnp.moveaxis(leads, 1, 0), reverse=True)
    _, inside = jax.lax.scan(path, jnp.moveaxis(at_ends, 0, 1), maps, reverse=True)
    later = jnp.moveaxis(inside, 0, 2).reshape(batch, -1)[:, : time - 1]
    return BestPath(
        found.log_scale + found.last.max(axis=-1), jnp.concatenate([first[:, None], later], axis=1)
    )


def _rows(start: Array, like: Array) -> Array:
    return jnp.broadcast_to(start, (like.shape[0], start.shape[-1]))


def _within(lengths: Array, time: int) -> Array:
    return jnp.arange(time)[None, :] < lengths[:, None]


def _masked(log_likelihood: Array, lengths: Array) -> tuple[Array, Array]:
    """Log-likelihoods that are zero after the end, and where the chain moves: not at first, and not after the end."""
    within = _within(lengths, log_likelihood.shape[1])
    moves = within & (jnp.arange(log_likelihood.shape[1]) > 0)[None, :]
    return jnp.where(within[..., None], log_likelihood, 0.0), moves


def _turned(x: Array, lengths: Array) -> Array:
    """Every sequence backwards, from its own end to its beginning."""
    time = jnp.arange(x.shape[1])[None, :]
    index = jnp.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
    return jnp.take_along_axis(x, index[..., None], axis=1)


__all__ = [
    "ALL_POSSIBLE",
    "ANY",
    "BEST",
    "POSITIVE",
    "BestPath",
    "Filtered",
    "Recursion",
    "Rule",
    "Smoothed",
    "block_count",
    "decoded",
    "filtered",
    "log_probability",
    "log_sum",
    "recursion",
    "safe_log",
    "smoothed",
]
