"""Finite Markov chains over time: the distribution after n steps, paths, their probability, reversal, fit by counts.

`transition[i, j]` is the probability of going from state i to state j, so distributions are rows: after one step
`start @ transition`. Transitions that change with time are an array (steps, states, states), taken one after the other.

Reference: Norris, Markov Chains, Cambridge University Press, 1997.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Integer

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.markov.checks import distribution, exactly, is_traced, transition_matrices


def distributions(
    start: Any, transition: Any, steps: int | None = None
) -> Float[Array | np.ndarray, "times states"]:
    """The distribution at times 0 to `steps`, one a row; `steps` defaults to the number of matrices given.

    >>> distributions(0, [[0.5, 0.5], [0.0, 1.0]], 3)[:, 0].tolist()
    [1.0, 0.5, 0.25, 0.125]
    """
    start, moves, count = _chain("distributions", start, transition, steps)

    def compute(start: Array, moves: Array) -> Array:
        start = start.astype(jnp.result_type(start, moves))

        def step(now: Array, move: Array | None) -> tuple[Array, Array]:
            then = now @ (moves if move is None else move)
            return then, then

        later = None if moves.ndim == 2 else moves[:count]
        return jnp.concatenate([start[None], jax.lax.scan(step, start, later, length=count)[1]])

    found: Array = exactly(compute, start, moves)
    return found


def sample(
    key: Key, start: Any, transition: Any, steps: int | None = None, shape: tuple[int, ...] = ()
) -> Integer[Array, "*shape times"]:
    """Paths of `steps` moves, the start included: states of shape (*shape, steps + 1).

    >>> sample(jax.random.key(0), 0, [[0.0, 1.0], [1.0, 0.0]], 3).tolist()
    [0, 1, 0, 1]
    """
    start, moves, count = _chain("sample", start, transition, steps)
    keys = jax.random.split(key, count + 1)
    moves = jnp.asarray(moves, jnp.result_type(float))
    with np.errstate(divide="ignore"):
        log_start, log_moves = jnp.log(jnp.asarray(start, moves.dtype)), jnp.log(moves)
    first = jax.random.categorical(keys[0], log_start, shape=shape)

    def step(now: Array, given: tuple[Array, Array | None]) -> tuple[Array, Array]:
        draw, move = given
        then = jax.random.categorical(draw, (log_moves if move is None else move)[now], axis=-1)
        return then, then

    later = None if moves.ndim == 2 else log_moves[:count]
    _, path = jax.lax.scan(step, first, (keys[1:], later))
    return jnp.moveaxis(jnp.concatenate([first[None], path]), 0, -1)


def log_prob(path: Any, start: Any, transition: Any) -> Float[Array | np.ndarray, "*shape"]:
    """The log-probability of paths, times along the last axis.

    >>> round(float(np.exp(log_prob([0, 1, 1], [0.5, 0.5], [[0.2, 0.8], [0.3, 0.7]]))), 3)
    0.28
    """
    states = path if is_traced(path) else np.asarray(path)
    start, moves, _ = _chain("log_prob", start, transition, states.shape[-1] - 1)
    _check_states("log_prob", states, len(start))

    def compute(states: Array, start: Array, moves: Array) -> Array:
        now, then = states[..., :-1], states[..., 1:]
        taken = moves[now, then] if moves.ndim == 2 else moves[jnp.arange(now.shape[-1]), now, then]
        total: Array = jnp.log(start[states[..., 0]]) + jnp.log(taken).sum(axis=-1)
        return total

    found: Array = exactly(compute, states, start, moves)
    return found


class Reversal(NamedTuple):
    """A chain run backwards in time."""

    transition: np.ndarray
    """`transition[t, j, i]` is the probability of having been in i at time t, given j at time t + 1."""
    possible: Bool[np.ndarray, "steps states"]
    """Whether state j has any probability at time t + 1; where not, its row is zero and no distribution."""


def reverse(start: Any, transition: Any, steps: int | None = None) -> Reversal:
    """The transitions of the same chain run backwards, by Bayes' rule at each step.

    The reversed chain starts in the last row of `distributions` and gives every path its former probability. It depends
    on the start and, unless that is stationary, on time.

    >>> back = reverse([0.5, 0.5], [[0.5, 0.5], [0.0, 1.0]], 1)
    >>> back.transition[0].round(4).tolist()
    [[1.0, 0.0], [0.3333, 0.6667]]
    """
    start, moves, count = _chain("reverse", start, transition, steps)
    if is_traced(start, moves):
        raise ArgumentError("reverse(transition): needs numbers, not values inside a compiled function")
    before = np.asarray(distributions(start, moves, count))
    each = np.broadcast_to(moves, (count, *moves.shape[-2:]))
    joint = np.swapaxes(before[:-1, :, None] * each, 1, 2)
    mass = joint.sum(axis=2, keepdims=True)
    possible = mass[..., 0] > 0
    return Reversal(np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0), possible)


class FittedChain(NamedTuple):
    """Start distribution and transitions that suit paths best."""

    start: np.ndarray
    transition: np.ndarray
    counts: np.ndarray
    """How often each move was seen."""


def fit(paths: Any, states: int | None = None, pseudo_count: float = 0.0) -> FittedChain:
    """Maximum likelihood by counting moves; `pseudo_count` is added to every one of them, seen or not.

    `paths` is one path, an array with a path in each row, or a list of paths of different lengths.

    >>> fit([0, 1, 0, 0, 1], pseudo_count=1).transition.round(4).tolist()
    [[0.4, 0.6], [0.6667, 0.3333]]
    """
    rows = _paths(paths)
    size = 1 + max(int(row.max()) for row in rows) if states is None else whole("fit", "states", states)
    if not pseudo_count >= 0 or not np.isfinite(pseudo_count):
        raise ArgumentError(f"fit(pseudo_count={pseudo_count}): must be a number of at least 0")
    counts, first = np.zeros((size, size)), np.full(size, float(pseudo_count))
    for row in rows:
        _check_states("fit", row, size)
        np.add.at(counts, (row[:-1], row[1:]), 1.0)
        first[row[0]] += 1
    weights = counts + pseudo_count
    unseen = np.flatnonzero(weights.sum(axis=1) == 0)
    if len(unseen):
        raise ArgumentError(
            f"fit(paths): no move out of state {unseen[0]} was seen, so its row has no estimate",
            remedy="pass pseudo_count=1, or longer paths",
        )
    return FittedChain(first / first.sum(), weights / weights.sum(axis=1, keepdims=True), counts)


def _chain(where: str, start: Any, transition: Any, steps: int | None) -> tuple[Any, Any, int]:
    moves = transition_matrices(where, transition)
    start = distribution(where, "start", start, moves.shape[-1])
    if steps is None:
        if moves.ndim == 2:
            raise ArgumentError(f"{where}(steps): how many steps?", remedy="pass steps=10, for example")
        return start, moves, len(moves)
    count = whole(where, "steps", steps, least=0)
    if moves.ndim == 3 and count > len(moves):
        raise ArgumentError(
            f"{where}(steps={count}): there are only {len(moves)} transition matrices",
            remedy=f"use steps of at most {len(moves)}",
        )
    return start, moves, count


def _paths(paths: Any) -> list[np.ndarray]:
    ragged = isinstance(paths, list | tuple) and len({np.size(one) for one in paths}) > 1
    rows = [np.asarray(one) for one in paths] if ragged else list(np.atleast_2d(np.asarray(paths)))
    if not rows or any(row.ndim != 1 or not row.size for row in rows):
        raise ArgumentError(
            "fit(paths): needs at least one path of at least one state",
            remedy="a path is a sequence of numbers of states; several are rows or a list",
        )
    return rows


def _check_states(where: str, found: Any, states: int) -> None:
    if isinstance(found, jax.core.Tracer):
        return
    if not np.issubdtype(found.dtype, np.integer):
        raise ArgumentError(f"{where}: states are whole numbers, not {found.dtype}")
    if found.size and (found.min() < 0 or found.max() >= states):
        worst = found.min() if found.min() < 0 else found.max()
        raise ArgumentError(f"{where}: there is no state {worst}; the {states} states are numbered from 0")


__all__ = ["FittedChain", "Reversal", "distributions", "fit", "log_prob", "reverse", "sample"]
