"""Mixtures of sources made by rule: tones that sing beside drums that beat, and chirps and noise where they are wanted.

Tones are lines in a spectrogram, notes of several harmonics with vibrato; chirps are lines that sweep up or down. Drums
are spots and columns, kicks, snares and hats of noise that dies away; noise is a surface that swells. Each has a level
of its own, so that none is always the loudest. Tones have chirps among them unless these are a source of their own.
What a separator is to find is known exactly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import spell
from chainrule.data.loading.options import Option, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.readers.recordings import REMIX

SOURCES = ("tones", "chirps", "drums", "noise")
"""What mixtures can be made of."""
_USUAL = ("tones", "drums")
_LOUDEST = 0.9
"""The largest amplitude of a mixture."""
_DECIBELS = 3.0
"""How much louder or softer than the last a source may be, in energy."""
_SWEEPING = 0.3
"""The share of chirps among tones."""

Random: TypeAlias = np.random.Generator
Signal: TypeAlias = Float[np.ndarray, " samples"]
_Maker: TypeAlias = Callable[[Random, int, int], Signal]


@final
@dataclass(frozen=True)
class Mixes:
    """Tones and drums, or other sources."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The mixtures as a source of data."""
        options = {
            "n": Option(400, whole(10, 10**6), "number of mixtures"),
            "length": Option(8192, whole(256, 2**24), "samples of each"),
            "rate": Option(8192, whole(1000, 2**18), "samples a second"),
            "sources": Option(
                list(_USUAL),
                _sources,
                f"what they are mixed of: two or more of {', '.join(SOURCES)}; tones have chirps among them unless "
                "these are a source too",
            ),
            "remix": REMIX,
        }
        return SourceReader("mixes", "mixtures", options, _scan)


def _sources(value: Any) -> list[str]:
    """Two or more sources, none of them twice."""
    names = list(value) if isinstance(value, list | tuple) else [value]
    if len(names) < 2 or len(set(map(str, names))) < len(names) or not all(one in SOURCES for one in names):
        raise ValueError(f"two or more of {spell(SOURCES)}, none of them twice, such as tones,drums,noise")
    return names


def _scan(request: ReadRequest) -> Scan:
    n, length, rate, names = (request.options[name] for name in ("n", "length", "rate", "sources"))
    rng = np.random.default_rng(request.seed)
    makers = _makers(names)
    y = np.empty((n, len(names), length, 1), np.float32)
    for row in y:
        made = np.stack([make(rng, length, rate) for make in makers])
        made /= np.sqrt(np.square(made).mean(axis=1, keepdims=True))
        for one in made[:-1]:
            one *= 10 ** (rng.uniform(-_DECIBELS, _DECIBELS) / 20)
        row[..., 0] = _LOUDEST * made / max(np.abs(made).max(), np.abs(made.sum(axis=0)).max())
    contents = Contents(
        "audio", y.sum(axis=1), y, "sources", classes=tuple(names), rate=rate, remix=request.options["remix"]
    )
    return Scan(n, n, contents=contents)


def _makers(names: list[str]) -> list[_Maker]:
    """What makes each source; chirps that are a source of their own are not among the tones."""
    every: dict[str, _Maker] = {
        "tones": partial(tones, sweeping=0.0 if "chirps" in names else _SWEEPING),
        "chirps": partial(tones, sweeping=1.0),
        "drums": drums,
        "noise": noise,
    }
    return [every[name] for name in names]


def tones(rng: Random, length: int, rate: int, *, sweeping: float = _SWEEPING) -> Signal:
    """Notes one after the other, this share of them chirps; each of several harmonics, the higher the softer."""
    out = np.zeros(length)
    start = 0
    while start < length:
        span = int(rate * rng.uniform(0.15, 0.6))
        time = np.arange(min(span, length - start)) / rate
        low, high = 110 * 2 ** rng.uniform(0, 2.5, 2)
        sweeps = rng.random() < sweeping
        glide = (high - low) * time * rate / span if sweeps else 0.02 * low * np.sin(2 * np.pi * 5.5 * time)
        phase = 2 * np.pi * np.cumsum(low + glide) / rate
        count = 1 + int(0.45 * rate / max(low, high)) if sweeps else 1 + int(0.45 * rate / low)
        weights = rng.uniform(0.3, 1, min(count, 8)) / np.arange(1, min(count, 8) + 1)
        note = sum(w * np.sin((k + 1) * phase + rng.uniform(0, 6)) for k, w in enumerate(weights))
        rise = np.minimum(1, time * 50) * np.minimum(1, (span / rate - time) * 20)
        out[start : start + len(time)] += note * rise
        start += span
    return out


def drums(rng: Random, length: int, rate: int) -> Signal:
    """Beats in a regular time, each a kick, a snare or a hat, over a little noise."""
    out = 0.01 * rng.standard_normal(length)
    beat = rng.uniform(0.1, 0.3)
    start = rng.uniform(0, beat)
    while start * rate < length:
        first = int(start * rate)
        time = np.arange(min(int(0.25 * rate), length - first)) / rate
        noise = rng.standard_normal(len(time))
        which = rng.integers(3)
        if which == 0:  # a tone that falls quickly
            hit = 1.5 * np.sin(2 * np.pi * (50 * time - 8 * np.exp(-time * 25))) * np.exp(-time * 18)
        elif which == 1:
            hit = noise * np.exp(-time * 25)
        else:  # differences of noise are its high frequencies
            hit = np.diff(noise, prepend=0.0) * np.exp(-time * 60)
        out[first : first + len(time)] += rng.uniform(0.5, 1) * hit
        start += beat * rng.choice([1, 1, 2])
    return out


def noise(rng: Random, length: int, rate: int) -> Signal:
    """Noise of a colour of its own, from white to pink, that swells and ebbs."""
    spectrum = np.fft.rfft(rng.standard_normal(length))
    octaves = np.log2(np.maximum(np.arange(len(spectrum)), 1))
    even = np.fft.irfft(spectrum * 2 ** (-rng.uniform(0, 0.5) * octaves), length)
    time = np.arange(length) / rate
    return even * (1 + 0.5 * np.sin(2 * np.pi * (rng.uniform(0.5, 2) * time + rng.random())))


MIXES = {"mixes": Mixes("tones and chirps mixed with drums and noise, one second at 8,192 Hz")}

__all__ = ["MIXES", "SOURCES", "Mixes", "drums", "noise", "tones"]
