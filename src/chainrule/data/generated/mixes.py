"""Mixtures of two sources, made by rule: tones that sing beside drums that beat.

The one is lines in a spectrogram: notes of several harmonics with vibrato, and chirps that sweep up or down. The other
is spots and columns: kicks, snares and hats of noise that dies away. Each has a level of its own, so that neither is
always the louder one. What a separator is to find is known exactly.
"""

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from jaxtyping import Float

from chainrule.data.loading.options import Option, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.readers.recordings import REMIX

SOURCES = ("tones", "drums")
_LOUDEST = 0.9
"""The largest amplitude of a mixture."""
_DECIBELS = 3.0
"""How much louder or softer than the other a source may be, in energy."""

Random: TypeAlias = np.random.Generator
Signal: TypeAlias = Float[np.ndarray, " samples"]


@final
@dataclass(frozen=True)
class Mixes:
    """Tones and drums."""

    summary: str

    @property
    def reader(self) -> SourceReader:
        """The mixtures as a source of data."""
        options = {
            "n": Option(400, whole(10, 10**6), "number of mixtures"),
            "length": Option(8192, whole(256, 2**24), "samples of each"),
            "rate": Option(8192, whole(1000, 2**18), "samples a second"),
            "remix": REMIX,
        }
        return SourceReader("mixes", "mixtures", options, _scan)


def _scan(request: ReadRequest) -> Scan:
    n, length, rate = (request.options[name] for name in ("n", "length", "rate"))
    rng = np.random.default_rng(request.seed)
    y = np.empty((n, len(SOURCES), length, 1), np.float32)
    for row in y:
        made = np.stack([make(rng, length, rate) for make in (tones, drums)])
        made /= np.sqrt(np.square(made).mean(axis=1, keepdims=True))
        made[0] *= 10 ** (rng.uniform(-_DECIBELS, _DECIBELS) / 20)
        row[..., 0] = _LOUDEST * made / max(np.abs(made).max(), np.abs(made.sum(axis=0)).max())
    contents = Contents(
        "audio", y.sum(axis=1), y, "sources", classes=SOURCES, rate=rate, remix=request.options["remix"]
    )
    return Scan(n, n, contents=contents)


def tones(rng: Random, length: int, rate: int) -> Signal:
    """Notes one after the other, some of them chirps; each of several harmonics, the higher the softer."""
    out = np.zeros(length)
    start = 0
    while start < length:
        span = int(rate * rng.uniform(0.15, 0.6))
        time = np.arange(min(span, length - start)) / rate
        low, high = 110 * 2 ** rng.uniform(0, 2.5, 2)
        sweeps = rng.random() < 0.3
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


MIXES = {"mixes": Mixes("tones and chirps mixed with drums and noise, one second at 8,192 Hz")}

__all__ = ["MIXES", "SOURCES", "Mixes", "drums", "tones"]
