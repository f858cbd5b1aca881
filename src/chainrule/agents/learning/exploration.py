"""Exploration: how often to do something else than what looks best, and what.

Rules come as probabilities of actions, which exact methods and expected targets need, and as draws from them, for loops
over steps. Everything is a pure function of arrays, so that rates and temperatures may differ between runs side by
side (Sutton and Barto, Reinforcement Learning, 2018, sections 2.2 to 2.8).
"""

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, ArrayLike, Float, Int, Key


def greedy_probabilities(
    values: Float[Array, "... actions"], legal: Array | None = None
) -> Float[Array, "... actions"]:
    """All on the best action; several that are equally good share it.

    >>> greedy_probabilities(jnp.array([1.0, 3.0, 3.0])).tolist()
    [0.0, 0.5, 0.5]
    """
    allowed = values if legal is None else jnp.where(legal, values, -jnp.inf)
    best = (allowed == allowed.max(-1, keepdims=True)).astype(values.dtype)
    return best / best.sum(-1, keepdims=True)


def epsilon_greedy_probabilities(
    values: Float[Array, "... actions"], epsilon: ArrayLike, legal: Array | None = None
) -> Float[Array, "... actions"]:
    """The best action with probability 1 - epsilon (ties split), else any action with equal probability.

    >>> epsilon_greedy_probabilities(jnp.array([1.0, 3.0]), 0.5).tolist()
    [0.25, 0.75]
    """
    anything = jnp.ones_like(values) if legal is None else legal.astype(values.dtype)
    uniform = anything / anything.sum(-1, keepdims=True)
    share = jnp.asarray(epsilon)
    return (1 - share) * greedy_probabilities(values, legal) + share * uniform


def softmax_probabilities(
    values: Float[Array, "... actions"], temperature: ArrayLike, legal: Array | None = None
) -> Float[Array, "... actions"]:
    """In proportion to exp(value / temperature): the cooler, the greedier.

    >>> softmax_probabilities(jnp.log(jnp.array([1.0, 3.0])), 1.0).round(4).tolist()
    [0.25, 0.75]
    """
    return jax.nn.softmax(values / temperature, axis=-1, where=legal)


def draw(key: Key, probabilities: Float[Array, "... actions"]) -> Int[Array, "..."]:
    """An action for each row of probabilities; impossible ones are never drawn.

    One uniform number for each row, held against the cumulated probabilities: several times as cheap in a compiled
    loop as a Gumbel number for each action.
    """
    uniform = jax.random.uniform(key, probabilities.shape[:-1], probabilities.dtype)
    return draw_by(uniform, probabilities)


def draw_by(uniform: Float[Array, "..."], probabilities: Float[Array, "... actions"]) -> Int[Array, "..."]:
    """`draw` by uniform numbers in [0, 1) made ahead: those of many steps are cheaper made together."""
    cumulated = jnp.cumsum(probabilities, axis=-1)
    # Below the last sum, whatever rounding made of it: the first sum above the level is that of a possible action.
    level = uniform * cumulated[..., -1]
    return jnp.argmax(cumulated > level[..., None], axis=-1)


def epsilon_greedy(
    key: Key, values: Float[Array, "... actions"], epsilon: ArrayLike, legal: Array | None = None
) -> Int[Array, "..."]:
    """An action for each row of values: the best with probability 1 - epsilon, else any."""
    return draw(key, epsilon_greedy_probabilities(values, epsilon, legal))


def softmax(
    key: Key, values: Float[Array, "... actions"], temperature: ArrayLike, legal: Array | None = None
) -> Int[Array, "..."]:
    """An action for each row of values, in proportion to exp(value / temperature)."""
    return draw(key, softmax_probabilities(values, temperature, legal))


def linear(step: ArrayLike, start: ArrayLike, end: ArrayLike, steps: ArrayLike) -> Array:
    """From `start` to `end` in a straight line over `steps` steps, then `end`.

    >>> [round(float(linear(step, 1.0, 0.1, 10)), 3) for step in (0, 5, 10, 99)]
    [1.0, 0.55, 0.1, 0.1]
    """
    first = jnp.asarray(start)
    return first + (end - first) * _progress(step, steps)


def exponential(step: ArrayLike, start: ArrayLike, end: ArrayLike, steps: ArrayLike) -> Array:
    """From `start` to `end`, both above 0, by the same factor every step, over `steps` steps; then `end`.

    >>> [round(float(exponential(step, 1.0, 0.01, 10)), 3) for step in (0, 5, 10, 99)]
    [1.0, 0.1, 0.01, 0.01]
    """
    first = jnp.log(jnp.asarray(start))
    return jnp.exp(first + (jnp.log(jnp.asarray(end)) - first) * _progress(step, steps))


def _progress(step: ArrayLike, steps: ArrayLike) -> Array:
    return jnp.clip(jnp.asarray(step) / jnp.maximum(jnp.asarray(steps), 1), 0.0, 1.0)


__all__ = [
    "draw",
    "draw_by",
    "epsilon_greedy",
    "epsilon_greedy_probabilities",
    "exponential",
    "greedy_probabilities",
    "linear",
    "softmax",
    "softmax_probabilities",
]
