"""Squeezing: squares of 2x2 pixels as four times as many channels of half the height and width, and back.

It changes nothing but the order of the numbers, so that volumes stay as they are. What squeezing cannot halve is
refused where a flow is built (Dinh, Sohl-Dickstein and Bengio, Density estimation using Real NVP, ICLR 2017).
"""

from collections.abc import Sequence

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float
from chainrule.nn import pixel_shuffle


def squeeze(
    x: Float[Array, "*leading height width channels"],
) -> Float[Array, "*leading half_height half_width four_channels"]:
    """Half the height and width; the four pixels of a square, in reading order, become four channels of each one.

    >>> import jax.numpy as jnp
    >>> squeeze(jnp.arange(4.0).reshape(1, 2, 2, 1))
    Array([[[[0., 1., 2., 3.]]]], dtype=float32)
    """
    *leading, height, width, channels = x.shape
    parts = x.reshape(*leading, height // 2, 2, width // 2, 2, channels)
    first = len(leading)
    order = (*range(first), first, first + 2, first + 4, first + 1, first + 3)
    return parts.transpose(order).reshape(*leading, height // 2, width // 2, 4 * channels)


def unsqueeze(
    z: Float[Array, "*leading half_height half_width four_channels"],
) -> Float[Array, "*leading height width channels"]:
    """The inverse of `squeeze`.

    >>> import jax.numpy as jnp
    >>> unsqueeze(squeeze(jnp.arange(4.0).reshape(1, 2, 2, 1))).ravel()
    Array([0., 1., 2., 3.], dtype=float32)
    """
    return pixel_shuffle(z, 2)


def squeezed(shape: Sequence[int]) -> tuple[int, int, int]:
    """The shape of squeezed images of shape (height, width, channels).

    >>> squeezed((8, 8, 1))
    (4, 4, 4)
    """
    height, width, channels = shape
    return height // 2, width // 2, 4 * channels


def check_sides(name: str, shape: Sequence[int], times: int, setting: str = "") -> tuple[int, int, int]:
    """Height, width and channels; an error with the nearest sizes unless both sides can be halved so many times.

    `setting` is the one that says how often.

    >>> check_sides("glow", (28, 30, 1), 2, "levels")
    Traceback (most recent call last):
    chainrule.core.errors.CapabilityError: glow halves images 2 times; 28 x 30 pixels are no multiples of 4
           halve them fewer times: levels=1; or bring them to 28 x 28 or 28 x 32 pixels: data.size=28 or data.size=32
    """
    if len(shape) != 3:
        raise CapabilityError(
            f"{name} takes images (height, width, channels), not examples of shape {tuple(shape)}",
            remedy="for vectors and tables: realnvp, maf or spline-flow",
        )
    height, width, channels = shape
    unit = 2**times
    if height % unit == 0 and width % unit == 0 and min(height, width) > 0:
        return height, width, channels
    nearest = [
        tuple(max(unit, unit * (side // unit + (up and side % unit > 0))) for side in (height, width))
        for up in (0, 1)
    ]
    sizes = " or ".join(dict.fromkeys(f"{high} x {wide}" for high, wide in nearest))
    words = " or ".join(dict.fromkeys(f"data.size={side}" for side in (min(nearest[0]), max(nearest[1]))))
    most = next(fewer for fewer in range(times, -1, -1) if height % 2**fewer == width % 2**fewer == 0)
    fewer = f"halve them fewer times: {setting}={most}; or " if setting and most else ""
    raise CapabilityError(
        f"{name} halves images {times} times; {height} x {width} pixels are no multiples of {unit}",
        remedy=f"{fewer}bring them to {sizes} pixels: {words}",
    )


__all__ = ["check_sides", "squeeze", "squeezed", "unsqueeze"]
