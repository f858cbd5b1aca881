"""Deletion and insertion curves: the output as features go or come in the order of an explanation.

Taking away what matters most should bring the output down at once, and bringing it back should bring the output up at
once (Samek et al., 2017, arXiv:1509.06321; Petsiuk et al., 2018, arXiv:1806.07421). The area under a curve is one
number for each input; that of a random order says what no explanation at all would reach.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.explain.methods.functions import Function, HostFunction
from chainrule.explain.methods.gradients.base import (
    Output,
    Question,
    ask,
    checked_baseline,
    chosen,
    in_blocks,
)
from chainrule.train import Run


@final
@dataclass(frozen=True)
class DeletionCurves:
    """The output of each input while its features go, or come, one share after another."""

    shares: Float[np.ndarray, " steps"]
    """Shares of the features that are gone, or back, from 0 to 1."""
    deletion: Float[np.ndarray, "batch steps"]
    insertion: Float[np.ndarray, "batch steps"]

    @property
    def deletion_area(self) -> Float[np.ndarray, " batch"]:
        """The area under each curve of deletion, in units of the output: the lower the better."""
        return np.trapezoid(self.deletion, self.shares, axis=1)

    @property
    def insertion_area(self) -> Float[np.ndarray, " batch"]:
        """The area under each curve of insertion: the higher the better."""
        return np.trapezoid(self.insertion, self.shares, axis=1)


def deletion_curves(
    f: Function | Run,
    x: Any,
    values: Any,
    baseline: Any = None,
    output: Output = None,
    *,
    steps: int = 32,
) -> DeletionCurves:
    """Curves by the order of `values`, the largest first; an absent feature has the value of the baseline.

    `values` has the shape of the inputs, or lacks their last axes: one number for a pixel and all its colours.

    >>> found = deletion_curves(lambda x: x @ jnp.array([1.0, 3.0]), np.ones((1, 2)), [[1.0, 3.0]])
    >>> found.deletion.tolist(), found.insertion_area.tolist()
    ([[4.0, 1.0, 0.0]], [2.5])
    """
    where = "deletion_curves"
    question = ask(where, f, x, output, derivative=False)
    start = checked_baseline(question, baseline)
    order = np.asarray(values, np.float64)
    order = order[None] if question.single else order
    shape = question.x.shape
    if order.shape != shape[: order.ndim] or order.ndim < 2:
        raise ArgumentError(
            f"{where}(values): shape {order.shape}, the inputs have shape {shape}",
            remedy="give a value for every entry, or for every pixel",
        )
    if np.isnan(order).any():
        raise ArgumentError(
            f"{where}(values): there are values that are not a number, which have no order",
            remedy="leave such rows out",
        )
    flat = order.reshape(len(order), -1)
    count = flat.shape[1]
    number = min(whole(where, "steps", steps), count)
    gone = np.round(np.linspace(0, count, number + 1)).astype(np.int64)
    ranks = np.argsort(np.argsort(-flat, axis=1, kind="stable"), axis=1).reshape(order.shape)
    ranks = ranks.reshape(*order.shape, *(1,) * (len(shape) - order.ndim))
    found = _curves(question, start, ranks, gone)
    return DeletionCurves(gone / count, found.deletion, found.insertion)


class _Both(NamedTuple):
    deletion: Any
    insertion: Any


def _curves(question: Question, start: np.ndarray, ranks: np.ndarray, gone: np.ndarray) -> _Both:
    if isinstance(question.f, HostFunction):
        parts = [_on_the_host(question, start, ranks, limit) for limit in gone.tolist()]
        return _Both(*(np.stack(part, axis=1) for part in zip(*parts, strict=True)))
    found: _Both = in_blocks(
        lambda x, start, ranks, outputs: _compiled(question.f, x, start, ranks, outputs, jnp.asarray(gone)),
        (question.x, start, ranks, question.outputs),
        question.rows_at_once(2 * len(gone)),
    )
    return found


def _on_the_host(question: Question, start: np.ndarray, ranks: np.ndarray, limit: int) -> list[np.ndarray]:
    absent = ranks < limit
    return [question.values(np.where(mask, start, question.x)) for mask in (absent, ~absent)]


@eqx.filter_jit
def _compiled(f: Function, x: Array, start: Array, ranks: Array, outputs: Array, gone: Array) -> _Both:
    """Both curves of some inputs: all their masks in one batch."""
    first = ranks[None] < gone.reshape(len(gone), *(1,) * x.ndim)
    masks = jnp.stack([first, ~first])
    points = jnp.where(masks, start[None, None], x[None, None])
    flat = points.reshape(-1, *x.shape[1:])
    out = chosen(f(flat), jnp.tile(outputs, 2 * len(gone))).reshape(2, len(gone), len(x))
    return _Both(out[0].T, out[1].T)


__all__ = ["DeletionCurves", "deletion_curves"]
