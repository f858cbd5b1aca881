"""Wavelet scattering transform: features that are nearly invariant to shifts, from fixed filters.

A convolution that averages is stable under shifts and throws everything but the mean away. Wavelets catch what it
throws away, their modulus makes it slow enough to be averaged too, and once more brings back what that average loses.
Everything is done in the Fourier domain, at full resolution, and thinned out once at the end, so nothing is aliased on
the way.
"""

import functools
import itertools
import math
from typing import TypeAlias, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float

Path: TypeAlias = tuple[tuple[int, int], ...]
"""The (scale, angle) of each wavelet an image went through before it was averaged."""

_FREQUENCY = 3 * math.pi / 4
_WIDTH = 0.8
_ALIASES = range(-3, 4)
"""Periods of the frequency plane over which a sampled filter's spectrum is summed; beyond them nothing is left."""


@final
class Scattering(eqx.Module):
    """Averages of an image, of its wavelet moduli, and of theirs: `x * φ`, `|x * ψ| * φ`, `||x * ψ| * ψ'| * φ`.

    The Morlet wavelet `ψ` of scale `j < scales` oscillates `3/4 π 2^-j` radians a pixel in one of `angles` directions;
    `ψ'` is of a larger scale than `ψ`. The Gaussian `φ` averages over about `2^scales` pixels, which is also the
    stride of the output. Filters are scaled so that no frequency is amplified: outputs of two images are no further
    apart than the images. Images go on from their other end at every edge; pad them before, for example with
    `jnp.pad(..., mode="reflect")`, where that is not wanted (Bruna and Mallat, *Invariant scattering convolution
    networks*, IEEE PAMI 35, 2013, arXiv:1203.1513).

    >>> layer = Scattering(scales=2, angles=4)
    >>> layer(jnp.ones((1, 8, 12, 3))).shape, len(layer.paths)
    ((1, 2, 3, 75), 25)
    """

    scales: int = eqx.field(static=True)
    angles: int = eqx.field(static=True, default=8)
    order: int = eqx.field(static=True, default=2)

    def __check_init__(self) -> None:
        for name, value, most in (
            ("scales", self.scales, 16),
            ("angles", self.angles, 64),
            ("order", self.order, 2),
        ):
            if whole("Scattering", name, value) > most:
                raise ArgumentError(f"Scattering({name}={value}): must be between 1 and {most}")

    @property
    def paths(self) -> tuple[Path, ...]:
        """What each feature is: none, one or two wavelets; `1 + J L + L² J (J - 1) / 2` of them at order two."""
        single = tuple(itertools.product(range(self.scales), range(self.angles)))
        double = tuple((a, b) for a, b in itertools.product(single, single) if a[0] < b[0])
        return ((), *((a,) for a in single), *(double if self.order == 2 else ()))

    def __call__(
        self, x: Float[Array, "*leading height width channels"]
    ) -> Float[Array, "*leading rows columns features"]:
        """All features of every channel, path by path: feature `p * channels + c` is path `p` of channel `c`."""
        height, width = x.shape[-3:-1]
        stride = 2**self.scales
        if min(height, width) < stride:
            raise ArgumentError(
                f"Scattering(scales={self.scales}): an image of {height} x {width} pixels is smaller than the "
                f"{stride} pixels it averages over",
                remedy=f"use scales={max(1, int(math.log2(min(height, width))))} or enlarge the image",
            )
        dtype = jnp.promote_types(x.dtype, jnp.float32)
        low, band = (jnp.asarray(f, dtype) for f in filters((height, width), self.scales, self.angles))
        leading, channels = x.shape[:-3], x.shape[-1]
        images = jnp.moveaxis(x.astype(dtype).reshape(-1, height, width, channels), -1, 0)[None]

        def averaged(u: Array) -> Array:
            """(paths, channels, batch, height, width) averaged and thinned out."""
            smooth = jnp.fft.ifft2(jnp.fft.fft2(u) * low[None, None, None]).real
            return smooth[..., ::stride, ::stride]

        once = _moduli(images, band)
        found = [averaged(images), averaged(once)]
        if self.order == 2:
            for scale in range(self.scales - 1):
                mine = once[scale * self.angles : (scale + 1) * self.angles]
                found.append(averaged(_moduli(mine, band[(scale + 1) * self.angles :])))
        features = jnp.concatenate(found)  # (paths, channels, batch, rows, columns)
        rows, columns = features.shape[-2:]
        features = jnp.moveaxis(features.reshape(-1, *features.shape[2:]), 0, -1)
        return features.reshape(*leading, rows, columns, -1).astype(x.dtype)


def _moduli(u: Array, band: Array) -> Array:
    """`|u * ψ|` of every image and every wavelet: wavelets vary fastest along the first axis."""
    spectra = jnp.fft.fft2(u)[:, None] * band[None, :, None, None]
    return jnp.abs(jnp.fft.ifft2(spectra)).reshape(-1, *u.shape[1:])


@functools.lru_cache(maxsize=16)
def filters(shape: tuple[int, int], scales: int, angles: int) -> tuple[np.ndarray, np.ndarray]:
    """Spectra of the average (height, width) and of the wavelets (scales · angles, height, width), all real.

    With `Φ` and `Ψ` for the spectra, `|Φ(ω)|² + ½ Σ |Ψ(ω)|² + |Ψ(-ω)|²` is at most one, and is one somewhere: the
    transform of a real image has at most its energy.
    """
    axes = [2 * np.pi * np.fft.fftfreq(n) for n in shape]
    low = np.zeros(shape)
    band = np.zeros((scales * angles, *shape))
    for over in itertools.product(_ALIASES, _ALIASES):
        down, right = np.meshgrid(
            *(w + 2 * np.pi * k for w, k in zip(axes, over, strict=True)), indexing="ij"
        )
        low += _gaussian(down, right, _WIDTH * 2.0 ** (scales - 1), 0.0, 1.0)
        for number, (scale, angle) in enumerate(itertools.product(range(scales), range(angles))):
            turn, width, slant = np.pi * angle / angles, _WIDTH * 2.0**scale, 4 / angles
            at = _FREQUENCY * 2.0**-scale
            shifted = _gaussian(down - at * np.sin(turn), right - at * np.cos(turn), width, turn, slant)
            # Without this share of the envelope the filter would respond to a constant.
            share = math.exp(-((width * at) ** 2) / 2)
            band[number] += shifted - share * _gaussian(down, right, width, turn, slant)
    low /= low[0, 0]
    # Sampling brings a little of other periods to frequency zero.
    band[:, 0, 0] = 0.0
    mirrored = np.roll(band[:, ::-1, ::-1], (1, 1), axis=(1, 2))
    energy = (np.square(band) + np.square(mirrored)).sum(axis=0) / 2
    there = energy > 1e-12 * energy.max()
    return low, band * math.sqrt(np.min((1 - np.square(low[there])) / energy[there]))


def _gaussian(down: np.ndarray, right: np.ndarray, width: float, turn: float, slant: float) -> np.ndarray:
    """The spectrum of a Gaussian of that width along a direction and `width / slant` across it."""
    along = right * math.cos(turn) + down * math.sin(turn)
    across = down * math.cos(turn) - right * math.sin(turn)
    found: np.ndarray = np.exp(-np.square(width) * (np.square(along) + np.square(across / slant)) / 2)
    return found


__all__ = ["Path", "Scattering", "filters"]
