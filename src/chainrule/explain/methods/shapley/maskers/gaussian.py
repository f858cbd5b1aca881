"""Absent features are drawn from a normal distribution, given those that are present.

The conditional question: what is expected of f once x is known in part, E[f(X) | X_S = x_S]. Features that a function
never uses can have a value here, because they say something about those it does use. With mean m and precision P of the
background, absent A given present S is normal with precision P_AA and mean `m_A - P_AA^-1 P_AS (x_S - m_S)`. Draws come
in pairs around that mean, so that the answer is exact for linear f; all coalitions share their standard normal numbers.

Reference: Aas, Jullum and Løland, Explaining individual predictions when features are dependent, 2021.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.maskers.masker import Groups, Masker, fingerprint_of, grouped

_RIDGE = 1e-6
"""Share of each variance that is added to it, so that columns that depend on each other exactly do no harm."""


@final
class GaussianConditional(Masker):
    """Absent columns are drawn given the present ones."""

    mean: Float[Array, " features"]
    precision: Float[Array, "features features"]
    noise: Float[Array, "samples features"]
    owners: Int[Array, " features"]
    names: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True)

    @property
    def samples(self) -> int:
        return len(self.noise)

    def mixed(
        self, x: Array, mask: Bool[Array, " players"], which: Int[Array, ""]
    ) -> tuple[Array, Float[Array, " samples"]]:
        del which
        present = mask[self.owners]
        kept = jnp.where(present, x - self.mean, 0)
        both = ~present[:, None] & ~present[None, :]
        # Present columns take part as a unit block, so that one factorisation of fixed shape serves every coalition.
        block = jnp.where(both, self.precision, jnp.eye(len(self.mean)))
        factor = jnp.linalg.cholesky(block)
        pull = jnp.where(present, 0, self.precision @ kept)
        expected = -jax.scipy.linalg.cho_solve((factor, True), pull)
        spread = jax.scipy.linalg.solve_triangular(factor, self.noise.T, lower=True, trans=1).T
        drawn = self.mean[None] + expected[None] + spread
        return jnp.where(present[None], x[None], drawn), jnp.full(self.samples, 1 / self.samples)

    def at_mean(self) -> "GaussianConditional":
        """The same with one draw, at what is expected: all that an affine function asks for."""
        still = jnp.zeros((1, len(self.mean)), self.noise.dtype)
        return replace(self, noise=still, kind="conditional, normal, expected exactly")


def gaussian(
    background: Any,
    names: Sequence[str] | None = None,
    groups: Groups = None,
    *,
    samples: int = 64,
    seed: int = 0,
) -> GaussianConditional:
    """Conditional by a normal distribution with the mean and the covariance of the background."""
    rows = np.asarray(background, np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.ptp(rows, axis=0).any():
        raise ArgumentError(
            f"gaussian: a background of shape {rows.shape} has no covariance",
            remedy="give several different rows, or use absent='baseline'",
        )
    covariance = np.cov(rows.T).reshape(rows.shape[1], -1)
    return gaussian_of(rows.mean(axis=0), covariance, names, groups, samples=samples, seed=seed)


def gaussian_of(
    mean: Any,
    covariance: Any,
    names: Sequence[str] | None = None,
    groups: Groups = None,
    *,
    samples: int = 64,
    seed: int = 0,
) -> GaussianConditional:
    """Conditional by a normal distribution that is known."""
    centre, spread = np.asarray(mean, np.float64), np.asarray(covariance, np.float64)
    players, owners = grouped("gaussian", len(centre), names, groups)
    variance = np.diag(spread)
    safe = spread + np.diag(_RIDGE * np.where(variance > 0, variance, variance.max(initial=0.0) or 1.0))
    half = -(-whole("gaussian", "samples", samples) // 2)
    drawn = np.random.default_rng(seed).normal(size=(half, len(centre)))
    dtype = jnp.result_type(float)
    return GaussianConditional(
        mean=jnp.asarray(centre, dtype),
        precision=jnp.asarray(np.linalg.inv(safe), dtype),
        noise=jnp.asarray(np.concatenate([drawn, -drawn]), dtype),
        owners=jnp.asarray(owners),
        names=players,
        kind=f"conditional, normal, {2 * half} draws",
        fingerprint=fingerprint_of(centre, spread),
    )


__all__ = ["GaussianConditional", "gaussian", "gaussian_of"]
