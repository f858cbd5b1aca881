"""Attention as kernel regression: keys are inputs, values are targets, queries are test points.

`f(q) = sum_i a(q, k_i) v_i / sum_j a(q, k_j)` for any positive kernel a (Nadaraya, 1964; Watson, 1964). Softmax
attention is the case `a = exp(q · k)`; with keys of equal length it is also the Gaussian kernel. Weights are computed
from the logarithm of the kernel, so that nothing overflows.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.nn.attention import softmax
from chainrule.probability.distances import squared_distances

LogKernel: TypeAlias = Callable[[Float[Array, "queries size"], Float[Array, "keys size"]], Array]
"""From queries and keys to the logarithm of the kernel of each pair."""


def gaussian(sigma: float | Array) -> LogKernel:
    """`-|q - k|² / (2 sigma²)`."""
    return lambda q, k: -squared_distances(q, k) / (2 * sigma**2)


def laplace(scale: float | Array) -> LogKernel:
    """`-|q - k|_1 / scale`."""
    return lambda q, k: -jnp.abs(q[:, None, :] - k[None, :, :]).sum(axis=-1) / scale


def exponential(temperature: float | Array = 1.0) -> LogKernel:
    """`q · k / temperature`, the kernel of softmax attention."""
    return lambda q, k: q @ k.T / temperature


def smoothing_weights(
    query: Float[Array, "queries size"], keys: Float[Array, "keys size"], kernel: LogKernel
) -> Float[Array, "queries keys"]:
    """How much each key counts at each query; rows sum to one."""
    return softmax(kernel(query, keys))


def smooth(
    query: Float[Array, "queries size"],
    keys: Float[Array, "keys size"],
    values: Float[Array, "rows outputs"],
    kernel: LogKernel,
) -> Float[Array, "queries outputs"]:
    """Kernel regression. With the keys as values it is one step of mean shift, towards where keys are dense.

    >>> keys, values = jnp.array([[0.0], [1.0]]), jnp.array([[10.0], [20.0]])
    >>> smooth(jnp.array([[0.1]]), keys, values, gaussian(0.01))  # a narrow kernel takes the nearest
    Array([[10.]], dtype=float32)
    >>> smooth(jnp.array([[0.1]]), keys, values, gaussian(100.0)).round(2)  # a wide one the mean
    Array([[15.]], dtype=float32)
    """
    if keys.shape[0] != values.shape[0]:
        raise ArgumentError(f"smooth: {keys.shape[0]} keys but {values.shape[0]} values; each key needs one")
    return smoothing_weights(query, keys, kernel) @ values


def leave_one_out(
    keys: Float[Array, "keys size"], values: Float[Array, "keys outputs"], kernel: LogKernel
) -> Float[Array, ""]:
    """Mean squared error when each value is predicted from all the others."""
    others = ~jnp.eye(keys.shape[0], dtype=bool)
    predicted = softmax(kernel(keys, keys), where=others) @ values
    return jnp.square(predicted - values).sum(axis=-1).mean()


def fit_bandwidth(keys: Float[Array, "keys size"], values: Float[Array, "keys outputs"]) -> float:
    """The width of the Gaussian kernel with the least leave-one-out error.

    A grid of widths around the typical distance of the keys is searched first, because the error may have several
    valleys, then the best of them is refined.
    """
    if keys.shape[0] < 3:
        raise ArgumentError(f"fit_bandwidth: {keys.shape[0]} keys are too few to leave one out")
    apart = np.sqrt(np.asarray(squared_distances(keys, keys))[np.triu_indices(keys.shape[0], 1)])
    typical = float(np.median(apart))
    if typical == 0:
        raise ArgumentError("fit_bandwidth: most keys are equal, so no width tells them apart")
    error = jax.jit(lambda log: leave_one_out(keys, values, gaussian(jnp.exp(log))))
    grid = math.log(typical) + np.linspace(-5, 2, 57)
    best = int(np.argmin([float(error(x)) for x in grid]))
    around = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = optimize.minimize_scalar(lambda x: float(error(x)), bounds=around, method="bounded")
    return math.exp(found.x)


__all__ = [
    "LogKernel",
    "exponential",
    "fit_bandwidth",
    "gaussian",
    "laplace",
    "leave_one_out",
    "smooth",
    "smoothing_weights",
]
