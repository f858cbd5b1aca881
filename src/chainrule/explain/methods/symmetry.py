"""Equivariance of feature maps and invariance of predictions under shifts of the input.

Images are (batch, height, width, channels) and shifted around their edges. A layer with stride s moves its output by
one pixel when its input moves by s, so shifts that are no multiple of the stride have no counterpart and are refused.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float

Shift: TypeAlias = tuple[int, int]
"""Pixels down and to the right."""


def equivariance(
    f: Callable[[Array], Array],
    x: Float[Array, "batch height width channels"],
    shifts: Sequence[Shift],
    *,
    margin: int = 0,
) -> np.ndarray:
    """`|f(Tx) - T f(x)| / |f(x)|` for every shift T; 0 for a map that moves with its input.

    `margin` leaves out that many pixels at every edge of the output, where padding with zeros breaks the symmetry.
    """
    still = f(x)
    if still.ndim != 4:
        raise ArgumentError(
            f"equivariance: f gives an array of shape {still.shape}; a shift needs (batch, height, width, channels)",
            remedy="use invariance for what has no position in the image",
        )
    return np.array([_error(f(_moved(x, s)), _moved(still, _there(s, x, still)), margin) for s in shifts])


def invariance(
    f: Callable[[Array], Array], x: Float[Array, "batch height width channels"], shifts: Sequence[Shift]
) -> np.ndarray:
    """`|f(Tx) - f(x)| / |f(x)|` for every shift T; 0 for a map that does not notice.

    >>> image = jnp.arange(16.0).reshape(1, 4, 4, 1)
    >>> invariance(lambda x: x.mean(axis=(1, 2)), image, [(1, 0), (2, 3)])
    array([0., 0.])
    """
    still = f(x)
    return np.array([_error(f(_moved(x, s)), still, 0) for s in shifts])


def _moved(x: Array, shift: Shift) -> Array:
    return jnp.roll(x, shift, axis=(1, 2))


def _there(shift: Shift, x: Array, out: Array) -> Shift:
    """The shift of the output that belongs to one of the input."""
    found = []
    for moved, inside, outside in zip(shift, x.shape[1:3], out.shape[1:3], strict=True):
        if moved * outside % inside:
            raise ArgumentError(
                f"equivariance: a shift by {moved} of {inside} pixels is no whole number of {outside} pixels",
                remedy=f"shifts that are multiples of {inside // np.gcd(inside, outside)} have a counterpart",
            )
        found.append(moved * outside // inside)
    return found[0], found[1]


def _error(a: Array, b: Array, margin: int) -> float:
    if margin:
        a, b = (y[:, margin:-margin, margin:-margin] for y in (a, b))
    return float(jnp.linalg.norm(a - b) / jnp.maximum(jnp.linalg.norm(b), 1e-30))


__all__ = ["Shift", "equivariance", "invariance"]
