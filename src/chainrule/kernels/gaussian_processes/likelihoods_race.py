"""Means of the softmax of independent Gaussian values, and of the logarithm of its sum, without draws.

Waiting times with rates `exp(f_i)` race: the first to come is i with probability `softmax(f)_i`, and
`log sum_i exp(f_i)` is an integral of the probability that none has come. Given u, the logarithm of time, the Gaussian
values are independent, so an expectation over many of them is one integral over u of a product of integrals over one
value each. Both are sums over evenly spread or Gauss-Hermite nodes, whose errors fall exponentially.
"""

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float

SUM_NODES = (48, 24)
"""Over the logarithm of time, and over each Gaussian value, for the logarithm of the sum: training asks for it often.

Errors are below 1e-5 for deviations up to 1 and below 1e-4 up to 2.
"""
SHARE_NODES = (64, 32)
"""The same for the softmax, where the errors are 1e-7 and 1e-5."""
ROWS = 256
"""Whose nodes are held at once."""
_EARLY, _LATE, _DEVIATIONS = 18.0, 4.0, 6.0
"""How far the nodes over time reach: for sharp values, and further by so many of the largest deviation."""

Values = Float[Array, "rows latents"]


def _times(mean: Values, deviation: Values, count: int) -> tuple[Array, Array, Array]:
    """Logarithms of times around the typical first one of each row, how far they are apart, and that of the row."""
    middle = jax.nn.logsumexp(mean, axis=1)
    widest = deviation.max(axis=1)
    first, last = -(_EARLY + _DEVIATIONS * widest), _LATE + _DEVIATIONS * widest
    step = (last - first) / (count - 1)
    at = first[:, None] + step[:, None] * jnp.arange(count, dtype=mean.dtype)[None, :]
    return at, step, middle


def _rates(mean: Values, deviation: Values, at: Array, middle: Array, count: int) -> tuple[Array, Array]:
    """Time times rate at the nodes of every value, rows x latents x times x values, and the weights of values."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    values = mean[..., None] + deviation[..., None] * jnp.asarray(nodes, mean.dtype)[None, None, :]
    logs = at[:, None, :, None] + (values - middle[:, None, None])[:, :, None, :]
    return jnp.exp(logs), jnp.asarray(weights / math.sqrt(2 * math.pi), mean.dtype)


def expected_log_sum(mean: Values, deviation: Values) -> Float[Array, " rows"]:
    """`E log sum_i exp(f_i)`.

    >>> float(expected_log_sum(jnp.zeros((1, 2)), jnp.full((1, 2), 1e-6))[0])
    0.6931...
    """
    return _by_rows(_log_sum, mean, deviation)


def _by_rows(of_row: Callable[[Array, Array], Array], mean: Values, deviation: Values) -> Array:
    """Some rows at a time, and once more where a derivative is taken: all nodes of all rows would not fit."""
    kept = jax.checkpoint(lambda row: of_row(row[0][None], row[1][None])[0])
    return jax.lax.map(kept, (mean, deviation), batch_size=ROWS)


def _log_sum(mean: Values, deviation: Values) -> Float[Array, " rows"]:
    times, values = SUM_NODES
    at, step, middle = _times(mean, deviation, times)
    rates, weights = _rates(mean, deviation, at, middle, values)
    none_yet = jnp.prod(jnp.exp(-rates) @ weights, axis=1)
    return middle + step * (jnp.exp(-jnp.exp(at)) - none_yet).sum(axis=1)


def expected_softmax(mean: Values, deviation: Values) -> Values:
    """`E softmax(f)`, with sums of one.

    >>> expected_softmax(jnp.zeros((1, 2)), jnp.array([[0.0, 3.0]])).round(4).tolist()
    [[0.5, 0.5]]
    """
    return _by_rows(_softmax, mean, deviation)


def _softmax(mean: Values, deviation: Values) -> Values:
    times, values = SHARE_NODES
    at, step, middle = _times(mean, deviation, times)
    rates, weights = _rates(mean, deviation, at, middle, values)
    none_yet = jnp.exp(-rates)
    others = jnp.maximum(none_yet @ weights, jnp.finfo(mean.dtype).tiny)
    logs = jnp.log(others)
    without = jnp.exp(logs.sum(axis=1, keepdims=True) - logs)
    first = step[:, None] * (((rates * none_yet) @ weights) * without).sum(axis=2)
    return first / first.sum(axis=1, keepdims=True)


DRAWS = 4096
"""Points of Sobol's sequence, by which correlated values are averaged."""


@functools.cache
def _normal_points(dimensions: int) -> np.ndarray:
    """Points that fill the normal distribution evenly: Sobol's sequence, shifted by half a cell off the edges."""
    import warnings

    from scipy.special import ndtri
    from scipy.stats import qmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(0)).random(DRAWS)
    return np.asarray(ndtri(np.clip(points, 1e-12, 1 - 1e-12)))


def correlated_softmax(mean: Values, covariance: Float[Array, "rows latents latents"]) -> Values:
    """`E softmax(f)` for values that depend on each other, over 4096 points that fill their distribution evenly.

    Errors are about 1e-4.
    """
    nodes = jnp.asarray(_normal_points(mean.shape[1]), mean.dtype)
    # A root by Cholesky has a derivative where variances are equal, too; what is added changes nothing that is seen.
    own = jnp.diagonal(covariance, axis1=1, axis2=2)
    least = 8 * jnp.finfo(mean.dtype).eps * jnp.maximum(own.mean(axis=1), 1.0)
    eye = jnp.eye(mean.shape[1], dtype=mean.dtype)
    roots = jnp.linalg.cholesky(covariance + least[:, None, None] * eye[None])

    def of_row(row: tuple[Array, Array]) -> Array:
        middle, root = row
        return jax.nn.softmax(middle[None] + nodes @ root.T, axis=1).mean(axis=0)

    return jax.lax.map(of_row, (mean, roots), batch_size=16)


__all__ = ["correlated_softmax", "expected_log_sum", "expected_softmax"]
