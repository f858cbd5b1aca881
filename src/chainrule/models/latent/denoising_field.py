"""The field of arrows of a denoiser in the plane, beside the one that the data themselves have.

With Gaussian noise of one size the best denoiser of a set of points is known: their mean, each weighed by how likely
the noise led from it to what is seen. What is learnt is held against it.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.pictures import Scatter
from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.kernels.smoothing import gaussian, smooth

_SIDE = 18
"""Arrows along each side."""
_POINTS = 4000
"""Training points that the exact field is made of."""
_JUDGED = 2000
"""Noisy points at which the two are compared."""
_DRAWN = 500
"""Points that are drawn."""


class DenoisingField(NamedTuple):
    """Two pictures, and how well the fields agree where noisy data lie."""

    learned: Scatter
    exact: Scatter
    cosine: float
    """Mean cosine of the angle between the arrows, each weighed by its length."""
    error: float
    """Root mean square of the difference over that of the exact arrows."""


def exact_denoiser(
    points: Float[Array, "points size"], sigma: float
) -> Callable[[Float[Array, "rows size"]], Float[Array, "rows size"]]:
    """E[x | y] for x one of the points and y = x + sigma eps; (E[x | y] - y)/sigma² is the score of y.

    >>> denoise = exact_denoiser(jnp.array([[-1.0], [1.0]]), 0.5)
    >>> bool(jnp.allclose(denoise(jnp.array([[0.2]])), jnp.tanh(0.2 / 0.5**2)))
    True
    """
    return lambda y: smooth(y, points, points, gaussian(sigma))


def denoising_field(
    denoise: Callable[[Float[Array, "rows 2"]], Float[Array, "rows 2"]], data: Data, sigma: float, key: Key
) -> DenoisingField:
    """The arrows D(E(y)) - y of a denoiser, and sigma² times the score of the smoothed training points."""
    training = jnp.asarray(data.train.batch(np.arange(min(_POINTS, len(data.train)))).x, jnp.float32)
    best = jax.jit(exact_denoiser(training, sigma))
    part = data.val if len(data.val) else data.train
    pick, noise = jax.random.split(key)
    chosen = np.asarray(jax.random.randint(pick, (_JUDGED,), 0, len(part)))
    y = jnp.asarray(part.batch(chosen).x, jnp.float32)
    y = y + sigma * jax.random.normal(noise, y.shape)
    ours, exact = (np.asarray(f(y) - y, np.float64) for f in (denoise, best))
    error = float(np.sqrt(np.square(ours - exact).sum() / np.square(exact).sum()))
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(exact, axis=1)
    cosine = float((ours * exact).sum() / lengths.sum()) if lengths.sum() > 0 else 0.0
    shown = np.asarray(training[:_DRAWN], np.float64)
    grid = _grid(shown, 2 * sigma)
    step = [np.asarray(f(jnp.asarray(grid, jnp.float32)), np.float64) - grid for f in (denoise, best)]
    said = (
        f"Where noisy held-out points lie, learnt and exact arrows have a cosine of {cosine:.3f} (weighed by length) "
        f"and differ by {error:.0%} of their size (root mean square)."
    )
    return DenoisingField(
        _picture("denoising-field", "Where the denoiser moves points", shown, grid, step[0], said),
        _picture(
            "exact-field",
            "Where the exact score of the smoothed data moves them",
            shown,
            grid,
            step[1],
            f"sigma² times the score of a mixture of Gaussians of deviation {sigma:g} at the training points.",
        ),
        cosine,
        error,
    )


def _grid(points: Float[np.ndarray, "points 2"], margin: float) -> Float[np.ndarray, "arrows 2"]:
    low, high = points.min(axis=0) - margin, points.max(axis=0) + margin
    sides = (np.linspace(a, b, _SIDE) for a, b in zip(low, high, strict=True))
    return np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)


def _picture(
    name: str, title: str, points: np.ndarray, grid: np.ndarray, step: np.ndarray, caption: str
) -> Scatter:
    return Scatter(
        name,
        title,
        "first coordinate",
        "second coordinate",
        {"training data": points},
        arrows=(grid, step),
        caption=caption,
    )


__all__ = ["DenoisingField", "denoising_field", "exact_denoiser"]
