"""The short-time Fourier transform and its exact inverse (Griffin and Lim, 1984).

`X[k, m] = Σ_n w[n] x[m hop + n] exp(-2πi k n / size)`. The inverse adds windowed frames up and divides by the sum of
squared windows at each sample, which restores any signal wherever that sum is not zero. Frames are cut out and added up
as whole pieces of `hop` samples, a handful of slices instead of an index for every number.
"""

import functools
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Complex
from jaxtyping import Float as AnyFloat

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float

WINDOWS = ("hann", "hamming", "blackman", "bartlett", "boxcar")
_NOTHING = 1e-10
"""Sums of squared windows below this, beside the largest, count as zero: dividing by them would only give noise."""
_LEAST = 1e-10
"""Power that stands in for less of it in decibels."""


def window(name: str, size: int) -> AnyFloat[np.ndarray, " size"]:
    """A periodic window: of a cosine, exactly one period, as overlapping frames need it.

    >>> window("hann", 4).round(3).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    check_choice("window", "name", name, WINDOWS)
    size = whole("window", "size", size)
    if size == 1:
        return np.ones(1)
    turn = 2 * np.pi * np.arange(size) / size
    if name == "bartlett":
        return 1 - np.abs(2 * np.arange(size) / size - 1)
    cosines = {
        "hann": (0.5, 0.5, 0.0),
        "hamming": (0.54, 0.46, 0.0),
        "blackman": (0.42, 0.5, 0.08),
        "boxcar": (1.0, 0.0, 0.0),
    }[name]
    return cosines[0] - cosines[1] * np.cos(turn) + cosines[2] * np.cos(2 * turn)


@final
class STFT(eqx.Module):
    """A short-time Fourier transform: windows of `size` samples, one every `hop`.

    With `centred` the middle of frame m lies at sample `m hop`, with zeros beyond the ends, so that every sample is in
    several frames; otherwise frame m begins there. The end is filled up with zeros until the last sample is in a frame.

    >>> transform = STFT(1024, hop=256)
    >>> transform(jnp.zeros(8192)).shape
    (513, 33)
    >>> transform.describe(8192)
    'bins of 8 Hz, a frame every 31.2 ms'
    """

    size: int = eqx.field(static=True)
    hop: int = eqx.field(static=True)
    window: str = eqx.field(static=True)
    centred: bool = eqx.field(static=True)

    def __init__(
        self, size: int, *, hop: int | None = None, window: str = "hann", centred: bool = True
    ) -> None:
        self.size = whole("STFT", "size", size)
        self.hop = max(1, self.size // 4) if hop is None else whole("STFT", "hop", hop)
        check_choice("STFT", "window", window, WINDOWS)
        self.window = window
        self.centred = centred

    @property
    def bins(self) -> int:
        """Frequencies from zero to half the rate."""
        return self.size // 2 + 1

    def frames(self, samples: int) -> int:
        """Frames of a signal of so many samples.

        >>> STFT(4, hop=2, centred=False).frames(9), STFT(4, hop=2).frames(8)
        (4, 5)
        """
        beyond = samples + 2 * self._margin - self.size
        return 1 + max(0, -(-beyond // self.hop))

    def bin_width(self, rate: float) -> float:
        """Hertz from one bin to the next."""
        return rate / self.size

    def hop_seconds(self, rate: float) -> float:
        """Seconds from one frame to the next."""
        return self.hop / rate

    def describe(self, rate: float) -> str:
        """Both in words."""
        return f"bins of {self.bin_width(rate):.3g} Hz, a frame every {1000 * self.hop_seconds(rate):.3g} ms"

    def __call__(self, x: Float[Array, "*leading samples"]) -> Complex[Array, "*leading bins frames"]:
        """The spectrum of each signal."""
        if not jnp.issubdtype(x.dtype, jnp.floating) or x.ndim < 1 or x.shape[-1] < 1:
            raise ArgumentError(
                f"STFT: a signal is at least one real number, not {x.dtype} of shape {x.shape}",
                remedy="give floats between -1 and 1, samples on the last axis",
            )
        count, pieces = self.frames(x.shape[-1]), self._pieces
        room = (count - 1 + pieces) * self.hop
        lead = [(0, 0)] * (x.ndim - 1)
        # Samples after the last frame exist only if the hop is longer than the window: no frame holds them.
        held = x[..., : max(0, room - self._margin)]
        padded = jnp.pad(held, [*lead, (self._margin, room - self._margin - held.shape[-1])])
        hops = padded.reshape(*x.shape[:-1], count - 1 + pieces, self.hop)
        framed = jnp.concatenate([hops[..., k : k + count, :] for k in range(pieces)], axis=-1)
        shape = (1,) * (framed.ndim - 1) + (self.size,)
        weights = jnp.asarray(window(self.window, self.size), x.dtype).reshape(shape)
        return jnp.swapaxes(jnp.fft.rfft(framed[..., : self.size] * weights), -1, -2)

    def inverse(
        self, spectrum: Complex[Array, "*leading bins frames"], samples: int
    ) -> Float[Array, "*leading samples"]:
        """The signal of so many samples whose frames are nearest to these in the least-squares sense.

        >>> import jax
        >>> x = jax.random.normal(jax.random.key(0), (1000,))
        >>> transform = STFT(64, hop=24)
        >>> bool(jnp.abs(transform.inverse(transform(x), 1000) - x).max() < 1e-5)
        True
        """
        samples = whole("STFT.inverse", "samples", samples)
        count = self.frames(samples)
        if spectrum.ndim < 2 or spectrum.shape[-2:] != (self.bins, count):
            raise ArgumentError(
                f"STFT.inverse: a spectrum of shape {spectrum.shape} is not that of {samples} samples",
                remedy=f"with size={self.size} and hop={self.hop} it ends in ({self.bins}, {count}): bins, frames",
            )
        total = self.squares(samples)
        framed = jnp.fft.irfft(jnp.swapaxes(spectrum, -1, -2), n=self.size)
        shape = (1,) * (framed.ndim - 1) + (self.size,)
        weights = jnp.asarray(window(self.window, self.size), framed.dtype).reshape(shape)
        added = self._added(framed * weights)[..., self._margin : self._margin + samples]
        return added / jnp.asarray(total, added.dtype).reshape((1,) * (added.ndim - 1) + (samples,))

    @property
    def _margin(self) -> int:
        """Zeros before the signal."""
        return self.size // 2 if self.centred else 0

    @property
    def _pieces(self) -> int:
        """Pieces of `hop` samples that hold a frame."""
        return -(-self.size // self.hop)

    def _added(self, framed: Float[Array, "*leading frames size"]) -> Float[Array, "*leading samples"]:
        """Frames added up where they overlap."""
        count, pieces = framed.shape[-2], self._pieces
        lead = [(0, 0)] * (framed.ndim - 2)
        filled = jnp.pad(framed, [*lead, (0, 0), (0, pieces * self.hop - self.size)])
        parts = filled.reshape(*framed.shape[:-1], pieces, self.hop)
        moved = [jnp.pad(parts[..., k, :], [*lead, (k, pieces - 1 - k), (0, 0)]) for k in range(pieces)]
        return functools.reduce(jnp.add, moved).reshape(*framed.shape[:-2], (count - 1 + pieces) * self.hop)

    def squares(self, samples: int) -> AnyFloat[np.ndarray, " samples"]:
        """The sum of squared windows at each of so many samples; an error where it is zero, and there is no inverse."""
        total = squares(self.size, self.hop, self.window, self.frames(samples))
        held = total[self._margin : self._margin + samples]
        held = np.pad(held, (0, samples - len(held)))
        empty = np.flatnonzero(held <= _NOTHING * total.max())
        if len(empty):
            remedy = "use a hop of at most half the window" + ("" if self.centred else ", and centred=True")
            raise ArgumentError(
                f"STFT.inverse: with window={self.window} of {self.size} samples and hop={self.hop} the sum of squared "
                f"windows is 0 at sample {empty[0]}: what is there cannot be restored",
                remedy=remedy,
            )
        return held


@functools.lru_cache(maxsize=64)
def squares(size: int, hop: int, name: str, frames: int) -> AnyFloat[np.ndarray, " samples"]:
    """The sum of squared windows, one every `hop` samples.

    >>> round(float(squares(1024, 256, "hann", 20)[4096]), 6)
    1.5
    """
    total = np.zeros((frames - 1) * hop + max(size, hop))
    own = np.square(window(name, size))
    for frame in range(frames):
        total[frame * hop : frame * hop + size] += own
    return total


def magnitude(spectrum: Complex[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Absolute values; their gradient at zero is zero."""
    return jnp.abs(spectrum)


def power(spectrum: Complex[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Squared absolute values."""
    return jnp.square(spectrum.real) + jnp.square(spectrum.imag)


def decibels(
    power: Float[Array, "*axes"], *, reference: float = 1.0, least: float = _LEAST
) -> Float[Array, "*axes"]:
    """`10 log10(power / reference)`; powers below `least` count as that.

    >>> [round(float(one), 2) for one in decibels(jnp.array([1.0, 100.0, 0.0]))]
    [0.0, 20.0, -100.0]
    """
    if reference <= 0 or least <= 0:
        raise ArgumentError(
            f"decibels(reference={reference}, least={least}): both must be above 0",
            remedy="reference is the power of 0 dB, least the smallest that is told apart from none",
        )
    return 10 / np.log(10) * (jnp.log(jnp.maximum(power, least)) - np.log(reference))


__all__ = ["STFT", "WINDOWS", "decibels", "magnitude", "power", "squares", "window"]
