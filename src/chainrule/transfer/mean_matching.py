"""Kernel mean matching: weights of source points whose mean feature is that of the target.

    minimise  ½ bᵀ K b - κᵀ b   with  0 <= b_i <= B  and  |Σ b - n| <= n e

for the Gram matrix K of the n source points and κ_i = (n / m) Σ_j k(x_i, y_j). A convex quadratic program, whose Gram
matrix is close to singular, so that gradient steps crawl: it is solved by an interior-point method, a Cholesky
factorisation a step. Minimising a linear function over the allowed weights is a sort, which proves how far the answer
is from the best: no weights have an objective lower by more than `gap`.

References: Huang, Smola, Gretton, Borgwardt and Schölkopf, Correcting sample selection bias by unlabeled data, 2006;
Wright, Primal-dual interior-point methods, 1997; Jaggi, Revisiting Frank-Wolfe, 2013 (the gap).
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.mean_embedding import median_kernel, row_means
from chainrule.kernels.precision import in_double

MOST = 10_000
"""Source points whose Gram matrix is made and factorised."""
_CENTRED = 0.1
"""By how much the complementarity is to shrink in a step."""
_NARROWEST = 1e-6
"""Width of the range of the mean weight where it is told exactly: an interior is needed."""


class MatchedMeans(NamedTuple):
    """Weights of source points, and how good they are."""

    weights: Float[Any, " rows"]
    objective: float
    gap: float
    """No allowed weights have an objective lower by more than this."""
    steps: int


class _State(NamedTuple):
    """Weights, and the multipliers of what they must not be: below 0, above the bound, too few or too many in all."""

    b: Array
    below: Array
    above: Array
    few: Array
    many: Array
    gap: Array
    steps: Array


def match_means(
    source: Any,
    target: Any,
    kernel: Kernel | None = None,
    *,
    bound: float = 1000.0,
    slack: float | None = None,
    tolerance: float = 1e-8,
    steps: int = 100,
) -> MatchedMeans:
    """The weights with the least objective, up to `tolerance` of its size.

    `bound` is the largest weight B, `slack` how far their mean may be from one, e = (√n - 1)/√n unless given. Without a
    kernel it is RBF of the median distance of all points.

    >>> found = match_means([[0.0], [1.0], [2.0]], [[2.0], [2.1]])
    >>> int(found.weights.argmax()), found.gap <= 1e-8 * abs(found.objective)
    (2, True)
    """
    n = len(source)
    slack = (math.sqrt(n) - 1) / math.sqrt(n) if slack is None else slack
    if not bound > 0:
        raise ArgumentError(f"match_means(bound={bound}): the largest weight must be positive")
    if not slack >= 0:
        raise ArgumentError(f"match_means(slack={slack}): slack must be a number of at least 0")
    if bound < 1 - slack:
        raise ArgumentError(
            f"match_means(bound={bound}, slack={slack:g}): no weights have a mean of {1 - slack:g} and none above "
            f"{bound:g}",
            remedy="use a larger bound or slack",
        )
    if n > MOST:
        raise ArgumentError(
            f"match_means: the Gram matrix of {n} points needs {8 * n**2 / 2**30:.1f} GiB; up to {MOST} are matched",
            remedy='weigh fewer, or use method="classifier"',
        )
    whole("match_means", "steps", steps)
    b, objective, gap, taken = _solved(source, target, kernel, float(bound), float(slack), tolerance, steps)
    return MatchedMeans(np.asarray(b), float(objective), float(gap), int(taken))


def kernel_mean_matching(
    source: Float[np.ndarray, "rows features"], target: Float[np.ndarray, "others features"], **options: Any
) -> tuple[Float[np.ndarray, " rows"], dict[str, float | str]]:
    """The weights, and what is to be known of them."""
    found = match_means(source, target, **options)
    return found.weights, {"objective": found.objective, "gap": found.gap, "steps": found.steps}


@in_double
def _solved(
    source: Any, target: Any, kernel: Kernel | None, bound: float, slack: float, tolerance: float, steps: int
) -> tuple[Array, Array, Array, Array]:
    x, y = jnp.asarray(source), jnp.asarray(target)
    kernel = kernel or median_kernel(x, y)
    gram, pull = kernel.gram(x), len(x) * row_means(kernel, x, y)
    return minimised(gram, pull, bound, len(x) * (1 - slack), len(x) * (1 + slack), tolerance, steps)


@eqx.filter_jit
def minimised(
    gram: Float[Array, "rows rows"],
    pull: Float[Array, " rows"],
    bound: Any,
    least: Any,
    most: Any,
    tolerance: Any,
    steps: int,
) -> tuple[Float[Array, " rows"], Scalar, Scalar, Array]:
    """The least of ½ bᵀ gram b - pullᵀ b with entries in [0, bound] and a sum in [least, most]; its value and gap."""
    n = len(pull)
    least, most = jnp.maximum(least, 0.0), jnp.minimum(most, n * bound)
    least, most = least - n * _NARROWEST, most + n * _NARROWEST

    def objective(b: Array) -> Array:
        return b @ (gram @ b) / 2 - pull @ b

    def gap(b: Array) -> Array:
        slope = gram @ b - pull
        return slope @ (b - lowest(slope, bound, least, most))

    def unfinished(state: _State) -> Array:
        return (state.steps < steps) & (state.gap > tolerance * jnp.abs(objective(state.b)))

    def step(state: _State) -> _State:
        new = _newton(gram, pull, bound, least, most, state)
        return new._replace(gap=gap(new.b), steps=state.steps + 1)

    middle = (least / n + jnp.minimum(most / n, bound)) / 2
    start = jnp.full_like(pull, middle)
    size = jnp.abs(gram @ start - pull).max() + 1e-12
    ones = jnp.full_like(pull, size)
    end = jax.lax.while_loop(
        unfinished, step, _State(start, ones, ones, size, size, gap(start), jnp.asarray(0))
    )
    return end.b, objective(end.b), end.gap, end.steps


def _newton(gram: Array, pull: Array, bound: Any, least: Any, most: Any, state: _State) -> _State:
    """A step towards weights whose multipliers times what is left to each limit are all the same and smaller."""
    b, total = state.b, state.b.sum()
    room, missing, spare = bound - b, total - least, most - total
    products = b @ state.below + room @ state.above + missing * state.few + spare * state.many
    aim = _CENTRED * products / (2 * len(b) + 2)
    matrix = gram + jnp.diag(state.below / b + state.above / room)
    tied = state.few / missing + state.many / spare
    right = pull - gram @ b + aim / b - aim / room + aim / missing - aim / spare
    factor = jax.scipy.linalg.cho_factor(matrix)
    plain, all_ones = jax.scipy.linalg.cho_solve(factor, jnp.stack([right, jnp.ones_like(b)], axis=1)).T
    move = plain - all_ones * (tied * plain.sum() / (1 + tied * all_ones.sum()))
    moved = move.sum()
    below = aim / b - state.below - state.below / b * move
    above = aim / room - state.above + state.above / room * move
    few = aim / missing - state.few - state.few / missing * moved
    many = aim / spare - state.many + state.many / spare * moved
    primal = jnp.minimum(_longest(b, move), _longest(room, -move))
    primal = jnp.minimum(primal, jnp.minimum(_longest(missing, moved), _longest(spare, -moved)))
    dual = jnp.minimum(_longest(state.below, below), _longest(state.above, above))
    dual = jnp.minimum(dual, jnp.minimum(_longest(state.few, few), _longest(state.many, many)))
    # One length for both: the slope of a quadratic objective depends on the weights.
    length = jnp.minimum(primal, dual)
    moves = (move, below, above, few, many)
    b, below, above, few, many = (one + length * by for one, by in zip(state, moves, strict=False))
    return state._replace(b=b, below=below, above=above, few=few, many=many)


def _longest(values: Array, moves: Array) -> Array:
    """The longest step, at most one, that keeps positive numbers positive."""
    ratios = jnp.where(moves < 0, -values / jnp.where(moves < 0, moves, -1.0), jnp.inf)
    return jnp.minimum(1.0, 0.995 * ratios.min())


def lowest(slope: Float[Array, " rows"], bound: Any, least: Any, most: Any) -> Float[Array, " rows"]:
    """The allowed weights with the least `slope @ b`: as much as is allowed where it falls, no more than must be else.

    >>> lowest(jnp.array([1.0, -2.0, -1.0]), 2.0, 1.0, 3.0).tolist()
    [0.0, 2.0, 1.0]
    """
    order = jnp.argsort(slope)
    room = jnp.where(slope[order] < 0, most, least)
    filled = (room - bound * jnp.arange(len(slope))).clip(0, bound)
    return jnp.zeros_like(slope).at[order].set(filled)


__all__ = ["MOST", "MatchedMeans", "kernel_mean_matching", "lowest", "match_means", "minimised"]
