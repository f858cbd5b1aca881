"""Normal variables of which some are known: conditionals, missing values, and the same by precision matrices.

Covariances are never inverted: the block of what is observed is factorised by Cholesky and solved against. In the
*information form* (precision times mean, precision) conditioning only picks out a block; there marginals cost a solve.

Reference: Bishop, Pattern Recognition and Machine Learning, 2006, section 2.3.1.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.gaussian.algebra import Moments, index_set
from chainrule.probability.gaussian.covariances import checked_normal


def condition(mean: Any, covariance: Any, observed: Mapping[int, Any]) -> Moments:
    """Mean and covariance of the other variables, in their order, when `observed` maps indices to known values.

    `m_x + C_xy C_yy⁻¹ (y - m_y)` and `C_xx - C_xy C_yy⁻¹ C_yx`.

    >>> found = condition([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], observed={1: 3.0})
    >>> found.mean.tolist(), found.covariance.tolist()
    ([1.5], [[1.75]])
    """
    centre, spread = checked_normal("condition", mean, covariance)
    known, values = _observations("condition", observed, centre)
    free = np.setdiff1d(np.arange(len(centre)), known)
    if not len(known):
        return Moments(centre, spread)
    seen = _block(spread, known, known)
    across = _block(spread, free, known)
    solved = solve_covariance("condition", seen, jnp.column_stack([across.T, values - centre[known]]))
    return Moments(
        centre[free] + across @ solved[:, -1], _block(spread, free, free) - across @ solved[:, :-1]
    )


class Imputed(NamedTuple):
    """Rows whose missing entries hold their conditional means, and how sure that is."""

    values: Float[Array, "*batch size"]
    covariance: Float[Array, "*batch size size"]
    """Conditional covariance of each row: zero in the rows and columns of what was observed."""


def impute(mean: Any, covariance: Any, x: Any) -> Imputed:
    """Every NaN of `x` (one row, or any leading axes) replaced by its mean given the other entries of its row.

    >>> found = impute([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], [[jnp.nan, 3.0], [0.0, 0.0]])
    >>> found.values.tolist(), found.covariance[0].tolist()
    ([[1.5, 3.0], [0.0, 0.0]], [[1.75, 0.0], [0.0, 0.0]])
    """
    centre, spread = checked_normal("impute", mean, covariance)
    rows = floating(x).astype(centre.dtype)
    if not rows.ndim or rows.shape[-1] != len(centre):
        raise ArgumentError(
            f"impute(x): shape {rows.shape} does not fit {len(centre)} variables",
            remedy="variables come last",
        )
    if not isinstance(rows, jax.core.Tracer) and np.isinf(np.asarray(rows)).any():
        raise ArgumentError("impute(x): an entry is infinite", remedy="missing entries are NaN")
    flat = rows.reshape(-1, len(centre))
    values, left = jax.vmap(lambda row: _imputed(centre, spread, row))(flat)
    return Imputed(values.reshape(rows.shape), left.reshape(*rows.shape, len(centre)))


def _imputed(mean: Array, covariance: Array, row: Array) -> tuple[Array, Array]:
    """One row. Missing variables stay in the system with unit variance and no covariance, so that shapes are fixed."""
    seen = ~jnp.isnan(row)
    both = seen[:, None] & seen[None]
    block = jnp.where(both, covariance, jnp.eye(len(row), dtype=covariance.dtype))
    across = jnp.where(~seen[:, None] & seen[None], covariance, 0.0)
    away = jnp.where(seen, jnp.where(seen, row, 0.0) - mean, 0.0)
    solved = solve_covariance("impute", block, jnp.column_stack([across.T, away]))
    filled = jnp.where(seen, row, mean + across @ solved[:, -1])
    left = jnp.where(seen[:, None] | seen[None], 0.0, covariance - across @ solved[:, :-1])
    return filled, left


_NAMES = ("shift", "precision")


class Information(NamedTuple):
    """A normal distribution as (precision times mean, precision), the precision being the inverse of the covariance."""

    shift: Float[Array, " size"]
    precision: Float[Array, "size size"]


def to_information(mean: Any, covariance: Any) -> Information:
    """The information form of N(mean, covariance).

    >>> to_information([2.0], [[4.0]])
    Information(shift=Array([0.5], dtype=float...), precision=Array([[0.25]], dtype=float...))
    """
    return Information(*_inverted("to_information", *checked_normal("to_information", mean, covariance)))


def from_information(shift: Any, precision: Any) -> Moments:
    """Mean and covariance of a normal distribution in information form.

    >>> from_information([0.5], [[0.25]]).mean.tolist()
    [2.0]
    """
    checked = checked_normal("from_information", shift, precision, _NAMES)
    return Moments(*_inverted("from_information", *checked))


def condition_information(shift: Any, precision: Any, observed: Mapping[int, Any]) -> Information:
    """The information form of the other variables, in their order, when `observed` maps indices to known values.

    No solve at all: `shift_x - P_xy y` and `P_xx`.

    >>> found = condition_information(*to_information([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]), {1: 3.0})
    >>> round(float(from_information(*found).mean[0]), 4)
    1.5
    """
    vector, matrix = checked_normal("condition_information", shift, precision, _NAMES)
    known, values = _observations("condition_information", observed, vector)
    free = np.setdiff1d(np.arange(len(vector)), known)
    return Information(vector[free] - _block(matrix, free, known) @ values, _block(matrix, free, free))


def _inverted(where: str, vector: Array, matrix: Array) -> tuple[Array, Array]:
    """Inverse times vector, and inverse: from one form to the other, either way."""
    solved = solve_covariance(
        where, matrix, jnp.column_stack([jnp.eye(len(vector), dtype=matrix.dtype), vector])
    )
    return solved[:, -1], (solved[:, :-1] + solved[:, :-1].T) / 2


def cholesky_factor(where: str, covariance: Array) -> Array:
    """Lower triangular L with L Lᵀ the covariance; a singular one is an error, inside compiled code too."""
    if not covariance.size:
        return covariance
    why = f"{where}: the covariance is singular: some variables are determined by the others"
    remedy = "leave out variables that others determine, or add the variance of a measurement error to the diagonal"
    least = float(jnp.finfo(covariance.dtype).eps)
    if not isinstance(covariance, jax.core.Tracer):
        found = np.linalg.eigvalsh(np.asarray(covariance, dtype=np.float64))
        if not found[0] > least * found[-1]:
            raise ArgumentError(f"{why} (smallest eigenvalue {found[0]:.3g})", remedy=remedy)
        return jnp.linalg.cholesky(covariance)
    factor = jnp.linalg.cholesky(covariance)
    regular = jnp.square(jnp.diag(factor)).min() > least * jnp.diag(covariance).max()
    return eqx.error_if(factor, ~regular, f"{why}; {remedy}")


def solve_covariance(where: str, covariance: Array, right: Array) -> Array:
    """`covariance⁻¹ right` by Cholesky."""
    return cho_solve((cholesky_factor(where, covariance), True), right) if covariance.size else right


def _observations(where: str, observed: Mapping[int, Any], like: Array) -> tuple[np.ndarray, Array]:
    known = index_set(where, "observed", list(observed), len(like))
    if not len(known):
        return known, jnp.zeros((0,), like.dtype)
    values = jnp.stack([floating(value).astype(like.dtype) for value in observed.values()])
    if values.ndim != 1:
        raise ArgumentError(
            f"{where}(observed): every variable takes one number, not an array of shape {values.shape[1:]}",
            remedy="for several observations: jax.vmap",
        )
    if not isinstance(values, jax.core.Tracer) and not np.isfinite(np.asarray(values)).all():
        worst = int(known[np.argwhere(~np.isfinite(np.asarray(values)))[0, 0]])
        raise ArgumentError(
            f"{where}(observed): variable {worst} is not finite",
            remedy="leave out variables that are missing",
        )
    return known, values


def _block(matrix: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    return matrix[rows[:, None], columns[None]]


__all__ = [
    "Imputed",
    "Information",
    "cholesky_factor",
    "condition",
    "condition_information",
    "from_information",
    "impute",
    "solve_covariance",
    "to_information",
]
