"""Generated mixtures: repeatable, within the limits of sound, no source always the louder, of the sources asked for."""

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.data.generated.mixes import SOURCES, drums, noise, tones


def test_mixtures_are_sums_within_the_limits_and_the_same_every_time() -> None:
    data = cr.data.load("mixes", n=20, length=2048)
    assert data.describe().startswith(
        "20 sounds of 0.25 s (2,048 samples at 8,192 a second), mono, mixed of tones"
    )
    x, y = data.train.batch(np.arange(16))[:2]
    np.testing.assert_allclose(x, y.sum(axis=1), atol=1e-6)
    assert 0.3 < np.abs(x).max(axis=(1, 2)).min() <= np.abs(x).max() <= 0.91
    assert np.abs(y).max() <= 0.91
    energy = np.square(y).sum(axis=(2, 3))
    assert 0 < (energy[:, 0] > energy[:, 1]).mean() < 1
    again = cr.data.load("mixes", n=20, length=2048)
    assert again.hash == data.hash
    assert cr.data.load("mixes", n=20, length=2048, seed=1).hash != data.hash


def test_mixtures_are_of_the_sources_that_are_asked_for() -> None:
    usual = cr.data.load("mixes", n=20, length=2048)
    assert usual.schema.classes == ("tones", "drums")
    assert cr.data.load("mixes", n=20, length=2048, sources=["tones", "drums"]).hash == usual.hash
    data = cr.data.load("mixes", n=20, length=2048, sources=list(SOURCES))
    assert data.schema.classes == SOURCES
    assert data.schema.target_shape == (4, 2048, 1)
    x, y = data.train.batch(np.arange(16))[:2]
    np.testing.assert_allclose(x, y.sum(axis=1), atol=1e-6)
    assert 0.3 < np.abs(x).max(axis=(1, 2)).min() <= np.abs(x).max() <= 0.91
    assert len(set(np.square(y).sum(axis=(2, 3)).argmax(axis=1))) > 2


def test_default_mixtures_are_those_that_runs_before_were_trained_on() -> None:
    rng = np.random.default_rng(3)
    made = np.stack([make(rng, 512, 8192) for make in (tones, drums)])
    made /= np.sqrt(np.square(made).mean(axis=1, keepdims=True))
    made[0] *= 10 ** (rng.uniform(-3.0, 3.0) / 20)
    made *= 0.9 / max(np.abs(made).max(), np.abs(made.sum(axis=0)).max())
    data = cr.data.load("mixes", n=10, length=512, seed=3)
    every = np.concatenate([np.asarray(part.arrays["y"]) for part in (data.train, data.val, data.test)])
    assert np.abs(every[..., 0] - made).max(axis=(1, 2)).min() < 1e-6


def flatness(signal: np.ndarray) -> float:
    """The geometric over the arithmetic mean of the power in short windows: near 0 for lines, some 0.5 for noise."""
    frames = signal[: len(signal) // 256 * 256].reshape(-1, 256) * np.hanning(256)
    power = np.abs(np.fft.rfft(frames, axis=1))[:, 1:-1] ** 2 + 1e-12
    return float(np.median(np.exp(np.log(power).mean(axis=1)) / power.mean(axis=1)))


def path_of_pitch(signal: np.ndarray) -> float:
    """How far the strongest frequency wanders within notes, in bins from one short window to the next."""
    frames = signal[: len(signal) // 512 * 512].reshape(-1, 512) * np.hanning(512)
    return float(np.median(np.abs(np.diff(np.abs(np.fft.rfft(frames, 4096, axis=1)).argmax(axis=1)))))


def test_each_source_is_what_its_name_says() -> None:
    rngs = [np.random.default_rng(seed) for seed in range(8)]
    assert all(flatness(noise(rng, 8192, 8192)) > 0.1 for rng in rngs)
    steady = [path_of_pitch(tones(rng, 8192, 8192, sweeping=0.0)) for rng in rngs]
    swept = [path_of_pitch(tones(rng, 8192, 8192, sweeping=1.0)) for rng in rngs]
    assert np.median(swept) > 2 * np.median(steady)
    assert all(flatness(tones(rng, 8192, 8192, sweeping=1.0)) < 0.1 for rng in rngs)


@pytest.mark.parametrize(
    "sources",
    ["tones", ["tones"], ["tones", "tones"], ["tones", "voice"], [1, 2], None, [], [["tones"], "drums"]],
)
def test_sources_that_cannot_be_mixed_are_named(sources: Any) -> None:
    with pytest.raises(ArgumentError, match='two or more of "tones", "chirps", "drums" or "noise"'):
        cr.data.load("mixes", n=20, sources=sources)
