"""Integrated gradients: slopes averaged along the straight way from a baseline (Sundararajan et al., 2017).

`values = (x - x0) * ∫ ∂f/∂x (x0 + t (x - x0)) dt` add up to `f(x) - f(x0)` (arXiv:1703.01365). The integral is a sum
over Gauss-Legendre nodes, 64 to begin with; what is missing from the sum says how good it is, and rows that miss more
than 1 % get twice as many nodes until they do not. One compiled program of 64 points per row serves all of them.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, Question, ask, checked_baseline, slopes
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.train import Run

_ROUNDING = 1e-5
"""A residual below this share of the size of the outputs is that of the arithmetic and not of the sum."""


def integrated_gradients(
    f: Function | Run,
    x: Any,
    baseline: Any = None,
    output: Output = None,
    *,
    nodes: int = 64,
    tolerance: float = 0.01,
    most: int = 4096,
    features: Sequence[str] = (),
) -> Explanation:
    """What each input adds on the straight way from the baseline (zero unless given) to `x`.

    `f` gives (batch, outputs), or (batch,) for one; a function of one input that gives one number will do. Ask for
    logits: slopes of probabilities vanish where a softmax is sure. Nodes are doubled, up to `most`, for every row whose
    residual is above `tolerance` of `|f(x) - f(baseline)|`.

    >>> found = integrated_gradients(lambda x: x[0] ** 2 * x[1], np.array([1.0, 1.0]), np.zeros(2))
    >>> found.values.round(6), abs(float(found.residual)) < 1e-6
    (array([0.666667, 0.333333]), True)
    """
    where = "integrated_gradients"
    question = ask(where, f, x, output, features)
    start = checked_baseline(question, baseline)
    whole(where, "nodes", nodes)
    whole(where, "most", most, least=nodes)
    if not tolerance > 0:
        raise ArgumentError(
            f"{where}(tolerance={tolerance}): a share of the change of the output",
            remedy="choose a positive number, for example 0.01",
        )
    base, outputs = question.values(start), question.values()
    change = outputs - base
    limit = np.maximum(tolerance * np.abs(change), _ROUNDING * np.maximum(np.abs(outputs), np.abs(base)))
    values = np.zeros(question.x.shape)
    rows, count, looked = np.arange(len(values)), nodes, 2 * len(values)
    while len(rows):
        values[rows] = _integrals(question, start, rows, count)
        looked += count * len(rows)
        missing = np.abs(change - values.reshape(len(values), -1).sum(axis=1))
        rows = np.flatnonzero(missing > limit) if 2 * count <= most else rows[:0]
        used, count = count, 2 * count
    return question.answer(
        values,
        base,
        outputs,
        method=f"integrated gradients, {nodes if used == nodes else f'{nodes} to {used}'} nodes",
        kind="baseline",
        evaluations=looked,
    )


def _integrals(
    question: Question, start: np.ndarray, rows: np.ndarray, count: int
) -> Float[np.ndarray, "..."]:
    """The values of some rows by a sum over so many nodes, in calls of one size."""
    at, weights = gauss_legendre(count)
    together = min(count, 64)
    points = _fitting(question, together)
    size = question.rows_at_once(points)
    found = np.zeros((len(rows), *question.x.shape[1:]))
    for first in range(0, len(rows), size):
        index = rows[np.minimum(np.arange(first, first + size), len(rows) - 1)]
        given: tuple[Any, Any, Any] = (question.x[index], start[index], question.outputs[index])
        total = np.zeros(given[0].shape)
        for node in range(0, count, points):
            some = slice(node, node + points)
            total += np.asarray(
                _weighted_slopes(question.f, *given, jnp.asarray(at[some]), jnp.asarray(weights[some]))
            )
        kept = len(rows) - first
        found[first : first + size] = ((given[0] - given[1]) * total)[:kept]
    return found


def _fitting(question: Question, most: int) -> int:
    """How many points of one input fit the memory budget: all, or a half, a quarter and so on of them."""
    while most > 1 and question.points_at_once < most and most % 2 == 0:
        most //= 2
    return most


@functools.lru_cache(maxsize=16)
def gauss_legendre(count: int) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """Nodes and weights of the Gauss-Legendre rule on [0, 1].

    >>> at, weights = gauss_legendre(3)
    >>> float((weights * at**5).sum().round(12))  # exact up to degree 5
    0.166666666667
    """
    at, weights = np.polynomial.legendre.leggauss(count)
    return (at + 1) / 2, weights / 2


@eqx.filter_jit
def _weighted_slopes(f: Function, x: Array, start: Array, outputs: Array, at: Array, weights: Array) -> Array:
    """The weighted sum of slopes at points on the way, all points of all rows in one reverse pass."""
    each = (len(at), *(1,) * x.ndim)
    t, w = (jnp.asarray(a, x.dtype).reshape(each) for a in (at, weights))
    points = start[None] + t * (x - start)[None]
    flat = points.reshape(math.prod(points.shape[:2]), *x.shape[1:])
    found = slopes(f, flat, jnp.tile(outputs, len(at))).slopes
    return (w * found.reshape(points.shape)).sum(axis=0)


__all__ = ["gauss_legendre", "integrated_gradients"]
