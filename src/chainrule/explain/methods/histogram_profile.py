"""Divergences and transport distances between two histograms on a line, one of them shifted or both smoothed."""

import jax.numpy as jnp
import numpy as np
import scipy.special

from chainrule.core.types import Array, Float
from chainrule.probability import divergences
from chainrule.probability.divergences import Profile
from chainrule.probability.transport import sinkhorn_divergence, wasserstein_1d

Weights = Float[np.ndarray, " bins"]
_ROOM = 6
"""Bandwidths of room on both sides of histograms that are smoothed."""


def histogram_profile(
    p: Weights, q: Weights, shifts: np.ndarray, bandwidths: np.ndarray | None = None
) -> Profile:
    """All of them between histograms over 0, 1, 2, ..., the second shifted by whole bins, for each of the shifts.

    `bandwidths`, one for each shift and in bins, convolve both with normal densities.

    >>> found = histogram_profile(np.array([1.0]), np.array([1.0]), np.array([0, 3]))
    >>> found.kl.tolist(), found.w1.tolist()
    ([0.0, inf], [0.0, 3.0])
    """
    a, b, at = _shifted(p, q, shifts)
    if bandwidths is None:
        divergence = [divergences.kl(*pair, normalize=True) for pair in ((a, b), (b, a))]
    else:
        a, b, at, divergence = _smoothed(a, b, at, bandwidths)
    scale = max(len(p), len(q)) / 2
    kernel = np.exp(-np.square(at[:, None] - at[None]) / (2 * scale**2))
    square = np.einsum("si,ij,sj->s", a - b, kernel, a - b)
    positions = np.broadcast_to(at, a.shape)
    return Profile(
        divergence[0],
        divergence[1],
        divergences.js(a, b, normalize=True),
        divergences.tv(a, b, normalize=True),
        divergences.hellinger(a, b, normalize=True),
        wasserstein_1d(positions, positions, 1, a, b),
        wasserstein_1d(positions, positions, 2, a, b),
        jnp.sqrt(jnp.maximum(jnp.asarray(square), 0.0)),
    )


def sinkhorn_distances(
    p: Weights, q: Weights, shifts: np.ndarray, eps: float
) -> Float[np.ndarray, " shifts"]:
    """Roots of the Sinkhorn divergences of the same histograms, of squared distances in bins.

    >>> sinkhorn_distances(np.array([1.0]), np.array([1.0]), np.array([0, 3]), 0.5).round(5).tolist()
    [0.0, 3.0]
    """
    x, y = (np.arange(len(one), dtype=float)[:, None] for one in (p, q))
    squares = [
        sinkhorn_divergence(x, y + shift, eps, a=p / p.sum(), b=q / q.sum(), max_iterations=100_000)
        for shift in shifts
    ]
    return np.sqrt(np.maximum(np.asarray(squares, float), 0.0))


def _smoothed(
    a: np.ndarray, b: np.ndarray, at: np.ndarray, bandwidths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[Array]]:
    """Both on more bins, and KL both ways: from logarithms, for no tail of a normal density is zero."""
    room = int(np.ceil(_ROOM * bandwidths.max()))
    wide = np.arange(-room, len(at) + room, dtype=float)
    blur = -np.square(at[:, None] - wide[None])[None] / (2 * np.square(bandwidths)[:, None, None])
    logs = [
        scipy.special.logsumexp(blur, b=np.broadcast_to(one[..., None], blur.shape), axis=1) for one in (a, b)
    ]
    divergence = [divergences.kl_from_logits(*pair) for pair in (logs, logs[::-1])]
    a, b = (scipy.special.softmax(one, axis=1) for one in logs)
    return a, b, wide, divergence


def _shifted(p: Weights, q: Weights, shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both histograms on common bins, a row for each shift, and the bins."""
    size = max(len(p), len(q) + int(shifts.max()))
    a, b = np.zeros((len(shifts), size)), np.zeros((len(shifts), size))
    a[:, : len(p)] = p / p.sum()
    for row, shift in zip(b, shifts, strict=True):
        row[shift : shift + len(q)] = q / q.sum()
    return a, b, np.arange(size, dtype=float)


__all__ = ["histogram_profile", "sinkhorn_distances"]
