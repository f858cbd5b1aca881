"""Ratios of the densities of two samples, without estimating either density.

By a classifier: its odds, times the ratio of the sample sizes, are the ratio (Bayes' rule). By least squares: a sum of
Gaussian bumps at target points that is as close as possible to the ratio in mean square over the source, which is a
linear system; width and penalty are those with the best held-out objective.

References: Bickel, Brückner and Scheffer, Discriminative learning for differing training and test distributions, 2007;
Kanamori, Hido and Sugiyama, A least-squares approach to direct importance estimation, 2009.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.kernels.precision import in_double
from chainrule.probability.distances import squared_distances
from chainrule.probability.divergences.kernel_mean import median_distance
from chainrule.transfer.domain_classifier import folds_of, judge_domains

_WIDTHS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.5)
"""Tried widths, as multiples of the median distance."""
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0)
_COMPARED = 500

Rows = Float[np.ndarray, "_ features"]
Ratios = tuple[Float[np.ndarray, " rows"], dict[str, float | str]]


def classifier_ratio(
    source: Rows,
    target: Float[np.ndarray, "others features"],
    *,
    basis: str = "auto",
    folds: int | None = None,
    seed: int = 0,
) -> Ratios:
    """The ratio of densities at the source examples, by a classifier that has not seen them."""
    found = judge_domains(source, target, basis=basis, folds=folds, seed=seed)
    # Domains weigh the same in the fit, which is the factor n_s/n_t of Bayes' rule.
    ratio = np.exp(np.clip(found.log_odds[: len(source)], -700, 700))
    return ratio, {
        "features": found.basis,
        "held-out error": found.error,
        "cross-entropy": found.cross_entropy,
    }


def least_squares_ratio(
    source: Rows,
    target: Float[np.ndarray, "others features"],
    *,
    centres: int = 100,
    folds: int | None = None,
    seed: int = 0,
) -> Ratios:
    """The ratio of densities at the source examples, as a sum of Gaussian bumps at target points."""
    count = min(whole("least_squares_ratio", "centres", centres), len(target))
    fewest = min(len(source), len(target))
    if fewest < 2:
        raise ArgumentError(
            f"least_squares_ratio: {len(source)} source and {len(target)} target examples",
            remedy="give two or more of each: some are judged by the others",
        )
    folds = folds_of("least_squares_ratio", folds, fewest)
    rng = np.random.default_rng(seed)
    at = target[rng.choice(len(target), count, replace=False)]
    groups = [rng.permutation(np.arange(len(one)) % folds) for one in (source, target)]
    ratio, width, penalty = _fitted(source, target, at, *groups, folds)
    return np.asarray(ratio), {"width": float(width), "penalty": float(penalty)}


@in_double
def _fitted(
    source: Array, target: Array, centres: Array, fold_s: Any, fold_t: Any, folds: int
) -> tuple[Array, Array, Array]:
    some = (jnp.asarray(one)[:: max(1, len(one) // _COMPARED)] for one in (source, target))
    widths = median_distance(*some) * jnp.asarray(_WIDTHS)
    given = [jnp.asarray(one) for one in (source, target, centres, fold_s, fold_t)]
    source, target, centres, fold_s, fold_t = given
    return _chosen(source, target, centres, fold_s, fold_t, widths, jnp.asarray(_PENALTIES), folds)


@eqx.filter_jit
def _chosen(
    source: Array,
    target: Array,
    centres: Array,
    fold_s: Array,
    fold_t: Array,
    widths: Array,
    penalties: Array,
    folds: int,
) -> tuple[Array, Array, Array]:
    near, far = squared_distances(source, centres), squared_distances(target, centres)

    def coefficients(a: Array, b: Array, keep_s: Array, keep_t: Array, penalty: Array) -> Array:
        """Of the sum of bumps with the least mean square distance from the ratio."""
        square = (a * keep_s[:, None]).T @ a / keep_s.sum()
        mean = (b * keep_t[:, None]).sum(axis=0) / keep_t.sum()
        return jnp.linalg.solve(square + penalty * jnp.eye(len(square)), mean).clip(0)

    def objective(width: Array, penalty: Array) -> Array:
        a, b = (jnp.exp(-squares / (2 * width**2)) for squares in (near, far))

        def held(fold: Array) -> Array:
            out_s, out_t = fold_s == fold, fold_t == fold
            theta = coefficients(a, b, 1.0 - out_s, 1.0 - out_t, penalty)
            squares = (jnp.square(a @ theta) * out_s).sum() / out_s.sum()
            return squares / 2 - (b @ theta * out_t).sum() / out_t.sum()

        return jax.lax.map(held, jnp.arange(folds)).mean()

    pairs = jnp.stack(jnp.meshgrid(widths, penalties, indexing="ij"), axis=-1).reshape(-1, 2)
    best = pairs[jnp.argmin(jax.lax.map(lambda pair: objective(pair[0], pair[1]), pairs))]
    a, b = (jnp.exp(-squares / (2 * best[0] ** 2)) for squares in (near, far))
    theta = coefficients(a, b, jnp.ones(len(a)), jnp.ones(len(b)), best[1])
    return a @ theta, best[0], best[1]


__all__ = ["classifier_ratio", "least_squares_ratio"]
