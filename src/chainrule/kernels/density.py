"""Kernel density estimates: a bump at every point, as wide as their number and spread suggest or as they say.

`p(x) = mean_i c(|H^-1 (x - x_i)|) / det H` for a bump c with integral one and a matrix of widths H, kept as its lower
factor: a multiple of the identity, of the standard deviations, or of the root of the covariance of the points. Rules of
thumb for the multiple are right for normal data; leaving every point out in turn lets the data choose.

References: Silverman, Density Estimation for Statistics and Data Analysis, 1986; Scott, Multivariate Density
Estimation, 1992; Duin, On the choice of smoothing parameters for Parzen estimators, 1976.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, final, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.kernels.bumps import BUMPS, Bump
from chainrule.kernels.data_checks import checked_points
from chainrule.kernels.distances import pairwise_squares
from chainrule.kernels.kernel import TILE, points
from chainrule.kernels.precision import in_double

Widths = Float[Array | np.ndarray, "features features"] | Float[Array | np.ndarray, " features"]
Shape = Literal["covariance", "columns", "sphere"]
Rule = Literal["scott", "silverman", "leave-one-out"]


@final
class DensityEstimate(eqx.Module):
    """A density as the mean of bumps; it can be compiled, differentiated and drawn from."""

    points: Float[Array | np.ndarray, "rows features"]
    lower: Widths
    """The lower factor of the matrix of widths, or its diagonal where it has nothing else."""
    bump: Bump = eqx.field(static=True)

    def log_prob(self, x: Any) -> Float[Array | np.ndarray, " new"]:
        """Log-density of each row, in double precision outside of compiled code; `-inf` where no bump reaches."""
        return _checked_log_prob(self, x)

    def compiled_log_prob(self, x: Float[Array, "new features"]) -> Float[Array, " new"]:
        """The same in the precision of x, for use inside of compiled code."""
        return _log_prob(self, x)

    def sample(self, key: Key, n: int) -> Float[Array, "n features"]:
        """Points drawn from the density: one of its points, and a draw from the bump around it."""
        which, around = jax.random.split(key)
        centres, lower = jnp.asarray(self.points), jnp.asarray(self.lower)
        chosen = jax.random.randint(which, (n,), 0, len(centres))
        drawn = self.bump.draw(around, n, centres.shape[1])
        return centres[chosen] + (drawn @ lower.T if lower.ndim == 2 else drawn * lower[None, :])


@final
@dataclass(frozen=True)
class KernelDensity:
    """A kernel density estimate of rows.

    `width` is a number, a rule of thumb (`scott`, `silverman`), or `leave-one-out`, the width under which points are
    likeliest given the others; it multiplies the root of the covariance, the standard deviations of the columns, or
    for `sphere` one length. A number is the width itself for `sphere`, and a multiple of the spread otherwise.

    >>> estimate = KernelDensity(width=1.0, shape="sphere").fit([0.0, 2.0])
    >>> round(float(jnp.exp(estimate.log_prob([0.0]))[0]), 6)
    0.226467
    """

    width: float | str = "scott"
    shape: str = "covariance"
    bump: str = "gaussian"

    def __post_init__(self) -> None:
        check_choice("KernelDensity", "shape", self.shape, get_args(Shape))
        check_choice("KernelDensity", "bump", self.bump, BUMPS)
        if isinstance(self.width, str):
            check_choice("KernelDensity", "width", self.width, get_args(Rule))
        elif not 0 < self.width < math.inf:
            raise ArgumentError(f"KernelDensity(width={self.width}): width must be positive and finite")

    def fit(self, x: Any) -> DensityEstimate:
        """The estimate from these rows, in double precision."""
        rows = checked_points("KernelDensity.fit", "x", x)
        if not len(rows):
            raise ArgumentError("KernelDensity.fit(x): a density needs points")
        unit = self._unit(rows)
        if isinstance(self.width, str):
            rule = self.width
            factor = (
                search_width(rows, unit, self.bump)
                if rule == "leave-one-out"
                else factor_of(rule, *rows.shape)
            )
        else:
            factor = self.width
        return DensityEstimate(rows, factor * unit, BUMPS[self.bump])

    def _unit(self, rows: np.ndarray) -> np.ndarray:
        """The lower factor that widths multiply, or its diagonal."""
        features = rows.shape[1]
        if self.shape == "sphere" and not isinstance(self.width, str):
            return np.ones(features)
        if len(rows) < 2:
            raise ArgumentError(
                "KernelDensity.fit(x): one point has no spread",
                remedy='give its bump a width: KernelDensity(width=0.5, shape="sphere")',
            )
        deviations = rows.std(axis=0, ddof=1)
        if self.shape == "sphere":
            length = math.sqrt(float(np.square(deviations).mean()))
            if not length > 0:
                raise _no_spread("all rows are the same")
            return np.full(features, length)
        if not (deviations > 0).all():
            raise _no_spread(f"column {int(np.argmin(deviations))} is constant")
        if self.shape == "columns":
            return np.asarray(deviations)
        covariance = np.atleast_2d(np.cov(rows.T))
        scaled = covariance / np.outer(deviations, deviations)
        if np.linalg.eigvalsh(scaled)[0] < 1e-12:
            raise _no_spread(
                f"the covariance of {len(rows)} rows and {features} columns is singular", 'shape="columns"'
            )
        return np.linalg.cholesky(covariance)


def factor_of(rule: str, rows: int, features: int) -> float:
    """The width of a rule of thumb, in units of the spread.

    >>> round(factor_of("scott", 100, 1), 4), round(factor_of("silverman", 100, 1), 4)
    (0.3981, 0.4217)
    """
    wide = 1.0 if rule == "scott" else (4 / (features + 2)) ** (1 / (features + 4))
    return wide * rows ** (-1 / (features + 4))


def search_width(
    x: Float[np.ndarray, "rows features"],
    unit: Widths,
    bump: str = "gaussian",
    held: Float[np.ndarray, "others features"] | None = None,
) -> float:
    """The multiple of `unit` under which held-out rows, or each row given the others, are likeliest.

    Many widths are compared at once, then finer ones around the best, until three digits are known.
    """
    centre, step = 0.0, 0.5
    numbers = np.arange(-24, 13)
    for _ in range(3):
        grid = centre + step * numbers
        values = width_profile(x, unit, np.exp(grid), bump, held)
        best = int(np.argmax(values))
        if step == 0.5 and (best == 0 or not np.isfinite(values[best])):
            twice = held is None and len(np.unique(x, axis=0)) != len(x)
            raise ArgumentError(
                "search_width: the narrower the bumps, the likelier the rows"
                + ("; rows that occur twice do that" if twice else ""),
                remedy='leave repeated rows out, or give a width or a rule: width="scott"',
            )
        centre, step, numbers = float(grid[best]), step / 8, np.arange(-8, 9)
    return math.exp(centre)


def width_profile(
    x: Any, unit: Any, factors: Any, bump: str = "gaussian", held: Any = None
) -> Float[np.ndarray, " factors"]:
    """Mean log-density of held-out rows, or of each row given the others, for each multiple of `unit`."""
    arrays = (None if one is None else np.asarray(one, np.float64) for one in (x, unit, factors, held))
    found: np.ndarray = _profiled(*arrays, BUMPS[bump])
    return found


@in_double
def _profiled(x: Array, unit: Array, factors: Array, held: Array | None, bump: Bump) -> Any:
    return _profile(
        jnp.asarray(x),
        jnp.asarray(unit),
        jnp.asarray(factors),
        None if held is None else jnp.asarray(held),
        bump,
    )


@eqx.filter_jit
def _profile(x: Array, unit: Array, factors: Array, held: Array | None, bump: Bump) -> Array:
    """Distances are computed once, a tile at a time, for all widths."""
    white = _whitened(unit, x)
    asked = white if held is None else _whitened(unit, held)
    features, others = x.shape[1], len(x) - (held is None)
    block = max(1, min(len(asked), TILE // len(x)))
    count = -(-len(asked) // block)
    numbers = jnp.minimum(jnp.arange(count * block), len(asked) - 1).reshape(count, block)

    def part(chosen: Array) -> Array:
        squares = pairwise_squares(asked[chosen], white)
        itself = (chosen[:, None] == jnp.arange(len(x))[None, :]) if held is None else jnp.zeros((), bool)

        def one(factor: Array) -> Array:
            logs = jnp.where(itself, -jnp.inf, bump.log_value(squares / factor**2, features))
            return jax.nn.logsumexp(logs, axis=1) - features * jnp.log(factor)

        return jax.lax.map(one, factors)

    logs = jax.lax.map(part, numbers).transpose(1, 0, 2).reshape(len(factors), -1)[:, : len(asked)]
    return logs.mean(axis=1) - jnp.log(others) - _log_det(unit)


@in_double
def _checked_log_prob(estimate: DensityEstimate, x: Any) -> Any:
    new = points("log_prob", "x", x)
    if new.shape[1] != estimate.points.shape[1]:
        raise ArgumentError(
            f"log_prob(x): points have {new.shape[1]} features, the density is one of {estimate.points.shape[1]}"
        )
    return _log_prob(estimate, new)


@eqx.filter_jit
def _log_prob(estimate: DensityEstimate, x: Array) -> Array:
    features = x.shape[1]
    lower = jnp.asarray(estimate.lower)
    white, asked = _whitened(lower, jnp.asarray(estimate.points)), _whitened(lower, x)
    log_det = _log_det(lower)

    def part(rows: Array) -> Array:
        logs = estimate.bump.log_value(pairwise_squares(rows, white), features)
        return jax.nn.logsumexp(logs, axis=1) - log_det - math.log(len(white))

    block = max(1, TILE // len(white))
    if block >= len(x):
        return part(asked)
    count = -(-len(x) // block)
    filled = jnp.concatenate([asked, jnp.zeros((count * block - len(x), features), asked.dtype)])
    return jax.lax.map(part, filled.reshape(count, block, -1)).reshape(-1)[: len(x)]


def _log_det(lower: Array) -> Array:
    return jnp.log(jnp.diagonal(lower) if lower.ndim == 2 else lower).sum()


def _whitened(lower: Array, rows: Array) -> Array:
    if lower.ndim == 1:
        return rows / lower[None, :]
    return jax.scipy.linalg.solve_triangular(lower, rows.T, lower=True).T


def _no_spread(why: str, remedy: str = 'shape="sphere"') -> ArgumentError:
    return ArgumentError(
        f"KernelDensity.fit(x): {why}, so that bumps would have no width in some direction",
        remedy=f"leave such columns out, or use {remedy} with a width of your own",
    )


__all__ = ["DensityEstimate", "KernelDensity", "factor_of", "search_width", "width_profile"]
