"""Norms of products of Jacobians over time lags in a recurrent layer: how far back gradients reach.

The derivative of the states at the end by those `k` steps earlier is `J_T ... J_(T-k+1)`, the latest step leftmost. Its
spectral norm is the largest factor by which a gradient can grow or shrink on its way back over `k` steps.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Lines
from chainrule.core.types import Array, Float
from chainrule.nn import Recurrent
from chainrule.nn.recurrent import States

_SQUARINGS = 14


@jax.jit
def step_jacobians(
    layer: Recurrent, x: Float[Array, "batch time inputs"]
) -> Float[Array, "time batch states states"]:
    """The Jacobian of every step, all states side by side."""

    def move(states: States, now: Float[Array, "batch inputs"]) -> tuple[States, Array]:
        return layer.step(now, states), jnp.block([list(row) for row in layer.step_jacobian(now, states)])

    return jax.lax.scan(move, layer.initial(x.shape[:1]), jnp.swapaxes(x, 0, 1))[1]


def lag_norms(jacobians: Float[Array, "time batch states states"]) -> Float[np.ndarray, "batch lags"]:
    """Spectral norms of the derivative of the last states by those 1, 2, ... steps earlier.

    >>> halves = jnp.broadcast_to(0.5 * jnp.eye(2), (4, 1, 2, 2))
    >>> bool(np.allclose(lag_norms(halves), [[0.5, 0.25, 0.125, 0.0625]], rtol=1e-4))
    True
    """
    return np.asarray(_norms(jacobians)).T


@jax.jit
def _norms(jacobians: Array) -> Array:
    def extend(product: Array, step: Array) -> tuple[Array, Array]:
        longer = product @ step
        return longer, _spectral_norm(longer)

    first = jnp.broadcast_to(jnp.eye(jacobians.shape[-1], dtype=jacobians.dtype), jacobians.shape[1:])
    return jax.lax.scan(extend, first, jacobians[::-1])[1]


def _spectral_norm(matrix: Float[Array, "batch n n"]) -> Float[Array, " batch"]:
    """The largest singular value, at most a share of log(n) / 2¹⁵ too large.

    It is the root of `trace((AᵀA)^m)^(1/m)` for large m, here by squaring fourteen times: some matrix products, where a
    decomposition of hundreds of small matrices would keep several threads of a linear algebra library waiting.
    """
    size = jnp.abs(matrix).max(axis=(1, 2), keepdims=True)
    scaled = matrix / jnp.where(size > 0, size, 1)
    power = jnp.swapaxes(scaled, 1, 2) @ scaled
    log = jnp.zeros(len(matrix), matrix.dtype)
    for halvings in range(_SQUARINGS):
        trace = jnp.trace(power, axis1=1, axis2=2)
        log = log + jnp.log(trace) / 2**halvings
        power = power / jnp.where(trace > 0, trace, 1)[:, None, None]
        power = power @ power
    log = log + jnp.log(jnp.trace(power, axis1=1, axis2=2)) / 2**_SQUARINGS
    return size[:, 0, 0] * jnp.exp(log / 2)


def spectrum(jacobians: Float[Array, "time batch states states"]) -> Float[np.ndarray, " states"]:
    """Singular values of the Jacobian of the last step, the largest first: their root mean square over sequences."""
    values = np.linalg.svd(np.asarray(jacobians[-1]), compute_uv=False)
    return np.sqrt(np.square(values).mean(axis=0))


def reach_pictures(
    norms: Mapping[str, Float[np.ndarray, "draws lags"]],
    spectra: Mapping[str, Float[np.ndarray, " states"]],
    *,
    name: str,
    captions: tuple[str, str],
) -> list[Lines]:
    """Norms by lag with their median and range, and singular values of the last step, a line for each network."""
    by_lag = {
        network: (np.arange(1, one.shape[1] + 1), np.median(one, axis=0), one.min(axis=0), one.max(axis=0))
        for network, one in norms.items()
    }
    shares = {network: (np.arange(1, len(one) + 1) / len(one), one) for network, one in spectra.items()}
    return [
        Lines(
            f"{name}-lags",
            "How much of a gradient is left",
            "steps back",
            "spectral norm of the derivative",
            by_lag,
            log_y=True,
            caption=captions[0],
        ),
        Lines(
            f"{name}-spectra",
            "Singular values of the last step",
            "singular value, share of all",
            "size",
            shares,
            caption=captions[1],
        ),
    ]


__all__ = ["lag_norms", "reach_pictures", "spectrum", "step_jacobians"]
