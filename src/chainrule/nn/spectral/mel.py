"""Mel: frequencies as listeners space them, in the two scales that are in use, and triangular bands on them."""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float as AnyFloat

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float

SCALES = ("slaney", "htk")
_LINEAR = 200 / 3
"""Slaney: hertz of a mel up to `_CORNER`, above which every mel is the same ratio."""
_CORNER = 1000.0
_RATIO = np.log(6.4) / 27


def hertz_to_mel(
    frequency: AnyFloat[np.ndarray, "*axes"] | float, scale: str = "slaney"
) -> AnyFloat[np.ndarray, "*axes"]:
    """Frequencies on a mel scale: HTK's `2595 log10(1 + f/700)`, or Slaney's, which is linear up to 1,000 Hz.

    >>> round(float(hertz_to_mel(1000.0, "htk")), 4), round(float(hertz_to_mel(1000.0)), 4)
    (999.9855, 15.0)
    """
    check_choice("hertz_to_mel", "scale", scale, SCALES)
    f = np.asarray(frequency, np.float64)
    if (f < 0).any():
        raise ArgumentError(f"hertz_to_mel: {f.min():g} Hz is below 0")
    if scale == "htk":
        return np.asarray(2595 * np.log10(1 + f / 700))
    above = _CORNER / _LINEAR + np.log(np.maximum(f, _CORNER) / _CORNER) / _RATIO
    return np.where(f < _CORNER, f / _LINEAR, above)


def mel_to_hertz(
    mel: AnyFloat[np.ndarray, "*axes"] | float, scale: str = "slaney"
) -> AnyFloat[np.ndarray, "*axes"]:
    """The inverse of `hertz_to_mel`.

    >>> round(float(mel_to_hertz(15.0)), 4)
    1000.0
    """
    check_choice("mel_to_hertz", "scale", scale, SCALES)
    m = np.asarray(mel, np.float64)
    if scale == "htk":
        return np.asarray(700 * (10 ** (m / 2595) - 1))
    corner = _CORNER / _LINEAR
    return np.where(m < corner, m * _LINEAR, _CORNER * np.exp(_RATIO * (np.maximum(m, corner) - corner)))


@functools.lru_cache(maxsize=32)
def mel_filters(
    bands: int,
    bins: int,
    rate: float,
    *,
    low: float = 0.0,
    high: float | None = None,
    scale: str = "slaney",
    equal_area: bool = True,
) -> AnyFloat[np.ndarray, "bands bins"]:
    """Triangles over the bins of a spectrum, their corners equally spaced on a mel scale.

    Each rises from the peak of the one before and falls to that of the next. With `equal_area` each has an area of one
    in hertz, as Slaney's have; otherwise a height of one, as HTK's.

    >>> mel_filters(40, 513, 22050).shape
    (40, 513)
    """
    bands, bins = whole("mel_filters", "bands", bands), whole("mel_filters", "bins", bins, 2)
    top = rate / 2 if high is None else high
    if not 0 <= low < top <= rate / 2:
        raise ArgumentError(
            f"mel_filters(low={low:g}, high={top:g}): bands lie between 0 and half the rate, {rate / 2:g} Hz",
            remedy=f"use 0 <= low < high <= {rate / 2:g}",
        )
    first, last = hertz_to_mel(np.array([low, top]), scale)
    corners = mel_to_hertz(np.linspace(first, last, bands + 2), scale)
    frequency = np.linspace(0, rate / 2, bins)
    before, peak, after = corners[:-2, None], corners[1:-1, None], corners[2:, None]
    rising = (frequency[None] - before) / (peak - before)
    falling = (after - frequency[None]) / (after - peak)
    found = np.maximum(0.0, np.minimum(rising, falling))
    empty = np.flatnonzero(found.max(axis=1) == 0)
    if len(empty):
        raise ArgumentError(
            f"mel_filters(bands={bands}): band {empty[0]}, at {peak[empty[0], 0]:.0f} Hz, has none of the {bins} bins",
            remedy="use fewer bands, or an STFT of a larger size",
        )
    return np.asarray(found * (2 / (after - before)) if equal_area else found)


def mel_spectrogram(
    power: Float[Array, "*leading bins frames"], bands: int, rate: float, **options: float | str | bool | None
) -> Float[Array, "*leading bands frames"]:
    """The power in each mel band; the options are those of `mel_filters`."""
    filters = mel_filters(bands, power.shape[-2], rate, **options)
    return jnp.einsum("bk,...km->...bm", jnp.asarray(filters, power.dtype), power)


__all__ = ["SCALES", "hertz_to_mel", "mel_filters", "mel_spectrogram", "mel_to_hertz"]
