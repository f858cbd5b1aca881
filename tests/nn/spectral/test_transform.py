"""Time and frequency: exact inverses, the numbers of other libraries, derivatives, and errors that name the window."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.signal import ShortTimeFFT, get_window

from chainrule.core.errors import ArgumentError
from chainrule.nn.spectral import (
    STFT,
    decibels,
    griffin_lim,
    hertz_to_mel,
    magnitude,
    mel_filters,
    mel_spectrogram,
    mel_to_hertz,
    power,
    window,
)
from chainrule.nn.spectral.transform import WINDOWS, squares

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("size", [1, 7, 64])
def test_windows_are_those_of_scipy(name: str, size: int) -> None:
    np.testing.assert_allclose(window(name, size), get_window(name, size), atol=1e-12)


@pytest.mark.parametrize(
    ("size", "hop", "name", "centred"),
    [(64, 16, "hann", True), (63, 20, "hamming", False), (50, 25, "hann", True), (32, 32, "boxcar", False)],
)
def test_the_inverse_restores_signals_of_any_length(size: int, hop: int, name: str, centred: bool) -> None:
    transform = STFT(size, hop=hop, window=name, centred=centred)
    with jax.enable_x64(True):
        for samples in (1, size - 1, size, 5 * size + 3, int(RNG.integers(100, 1000))):
            x = jnp.asarray(RNG.normal(size=(2, samples)))
            there = transform(x)
            assert there.shape == (2, transform.bins, transform.frames(samples))
            np.testing.assert_allclose(transform.inverse(there, samples), x, atol=1e-10)


def test_in_single_precision_the_inverse_is_exact_to_a_millionth() -> None:
    x = RNG.normal(size=8191).astype(np.float32)
    transform = STFT(1024, hop=256)
    np.testing.assert_allclose(transform.inverse(transform(jnp.asarray(x)), 8191), x, atol=3e-6)


def test_the_spectrum_is_that_of_torch_and_of_scipy() -> None:
    x = RNG.normal(size=4096).astype(np.float32)
    ours = np.asarray(STFT(512, hop=128)(jnp.asarray(x)))
    hann = torch.hann_window(512)
    theirs = torch.stft(
        torch.from_numpy(x), 512, 128, window=hann, center=True, pad_mode="constant", return_complex=True
    ).numpy()
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    # SciPy's slices are centred too; its phases are counted from the middle of the window unless told otherwise.
    scipy = ShortTimeFFT(get_window("hann", 512), 128, 1.0, phase_shift=None)
    found = scipy.stft(x, p0=0, p1=ours.shape[1])
    np.testing.assert_allclose(ours, found, atol=2e-4)
    left = STFT(512, hop=128, centred=False)(jnp.asarray(x))
    theirs = torch.stft(torch.from_numpy(x), 512, 128, window=hann, center=False, return_complex=True).numpy()
    np.testing.assert_allclose(left[:, : theirs.shape[1]], theirs, atol=2e-4)


def test_numbers_known_in_closed_form() -> None:
    np.testing.assert_allclose(squares(1024, 256, "hann", 20)[2048:4096], 1.5, atol=1e-12)
    total = sum(np.roll(np.pad(window("hann", 1024), (0, 3072)), 256 * k) for k in range(16))
    np.testing.assert_allclose(total, 2.0, atol=1e-12)
    time = np.arange(22050) / 22050
    spectrum = STFT(1024, hop=256)(jnp.asarray(np.sin(2 * np.pi * 440 * time), jnp.float32))
    assert (np.asarray(magnitude(spectrum))[:, 4:-4].argmax(axis=0) == 20).all()
    assert hertz_to_mel(1000.0, "htk") == pytest.approx(999.9855, abs=1e-4)
    assert hertz_to_mel(1000.0, "slaney") == pytest.approx(15, abs=1e-12)


@pytest.mark.parametrize(
    ("transform", "samples"),
    [
        (STFT(64, hop=16, centred=False), 256),
        (STFT(64, hop=64), 256),
        (STFT(16, hop=32, window="boxcar", centred=False), 100),
    ],
)
def test_what_no_window_holds_is_an_error_that_names_window_and_hop(transform: STFT, samples: int) -> None:
    spectrum = transform(jnp.ones(samples))
    with pytest.raises(ArgumentError, match=rf"window={transform.window} .*hop={transform.hop}"):
        transform.inverse(spectrum, samples)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: STFT(0), "size must be a whole number"),
        (lambda: STFT(8, hop=0), "hop must be a whole number"),
        (lambda: STFT(8, window="han"), "window must be"),
        (lambda: STFT(8)(jnp.zeros(0)), "at least one real number"),
        (lambda: STFT(8).inverse(jnp.zeros((5, 3), jnp.complex64), 100), r"ends in \(5, 51\)"),
        (lambda: mel_filters(200, 33, 8000.0), "has none of the 33 bins"),
        (lambda: mel_filters(4, 33, 8000.0, high=5000.0), "half the rate, 4000 Hz"),
        (lambda: hertz_to_mel(-1.0), "below 0"),
        (lambda: decibels(jnp.ones(2), least=0.0), "above 0"),
    ],
)
def test_bad_arguments_are_named(make: object, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make()  # type: ignore[operator]


def test_derivatives_agree_with_differences_and_exist_in_silence() -> None:
    transform, direction = STFT(16, hop=4), RNG.normal(size=40)

    def loss(x: jax.Array) -> jax.Array:
        spectrum = transform(x)
        mel = mel_spectrogram(power(spectrum), 3, 8000.0)
        back = transform.inverse(spectrum * magnitude(spectrum), 40)
        return decibels(mel).sum() + jnp.square(back).sum() + magnitude(spectrum).sum()

    with jax.enable_x64(True):
        x = jnp.asarray(RNG.normal(size=40))
        value = eqx.filter_jit(loss)
        slope = jnp.vdot(jax.grad(loss)(x), direction)
        assert slope == pytest.approx(
            float(value(x + 1e-6 * direction) - value(x - 1e-6 * direction)) / 2e-6, rel=1e-6
        )
    assert np.isfinite(jax.grad(loss)(jnp.zeros(40))).all()


@pytest.mark.parametrize("scale", ["htk", "slaney"])
def test_mel_bands_are_triangles_between_corners_equally_spaced_in_mel(scale: str) -> None:
    filters = mel_filters(20, 2049, 16000.0, scale=scale, equal_area=False)
    corners = mel_to_hertz(np.linspace(0, hertz_to_mel(8000.0, scale), 22), scale)
    frequency = np.linspace(0, 8000, 2049)
    for band in range(20):
        triangle = np.interp(frequency, corners[band : band + 3], [0, 1, 0], left=0, right=0)
        np.testing.assert_allclose(filters[band], triangle, atol=1e-9)
    areas = mel_filters(20, 2049, 16000.0, scale=scale).sum(axis=1) * 8000 / 2048
    np.testing.assert_allclose(areas, 1, atol=0.02)
    np.testing.assert_allclose(mel_to_hertz(hertz_to_mel(frequency, scale), scale), frequency, atol=1e-9)


def test_griffin_lim_finds_a_signal_with_the_magnitudes_asked_for() -> None:
    time = jnp.arange(2048) / 8000
    x = jnp.sin(2 * jnp.pi * 440 * time) + 0.5 * jnp.sin(2 * jnp.pi * 1330 * time)
    transform = STFT(256, hop=64)
    wanted = magnitude(transform(x))
    distance = []
    for steps, momentum in ((1, 0.0), (30, 0.0), (60, 0.99)):
        made = griffin_lim(transform, wanted, 2048, key=jax.random.key(0), steps=steps, momentum=momentum)
        distance.append(float(jnp.linalg.norm(magnitude(transform(made)) - wanted) / jnp.linalg.norm(wanted)))
    assert distance[0] > distance[1] > distance[2]
    assert distance[2] < 0.05
    with pytest.raises(ArgumentError, match="momentum"):
        griffin_lim(transform, wanted, 2048, key=jax.random.key(0), momentum=1.0)
