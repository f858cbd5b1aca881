"""Wavelet scattering against sums written out in space, its bound, and what a shift does to it."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.symmetry import invariance
from chainrule.nn import Scattering
from chainrule.nn.scattering import filters


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        jax.config.update("jax_disable_most_optimizations", True)  # programs here run once
        yield
        jax.config.update("jax_disable_most_optimizations", False)


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def wavelet(size: int, scale: int, turn: float, slant: float) -> np.ndarray:
    """A Morlet wavelet written down in space, on a torus of that many pixels a side; its scale is left open."""
    width, at = 0.8 * 2**scale, 0.75 * np.pi / 2**scale
    u = np.arange(-3 * size, 4 * size)
    down, right = np.meshgrid(u, u, indexing="ij")
    along = right * np.cos(turn) + down * np.sin(turn)
    across = down * np.cos(turn) - right * np.sin(turn)
    envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * width**2))
    wave = envelope * (np.exp(1j * at * along) - np.exp(-((width * at) ** 2) / 2))
    folded = wave.reshape(7, size, 7, size).sum(axis=(0, 2))
    return slant * folded / (2 * np.pi * width**2)  # the integral of the envelope is one


def around(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Convolution on a torus, by its definition."""
    size = len(image)
    at = (np.arange(size)[:, None] - np.arange(size)[None]) % size
    return np.einsum("ij,aibj->ab", image, kernel[at[:, :, None, None], at[None, None]])


def test_features_are_the_sums_written_out_in_space() -> None:
    size, scales, angles = 8, 2, 4
    image = noise(size, size)
    factor = (
        filters((size, size), scales, angles)[1][0].max() / np.fft.fft2(wavelet(size, 0, 0.0, 1.0)).real.max()
    )
    turns = [np.pi * angle / angles for angle in range(angles)]
    kernels = {
        (j, angle): factor * wavelet(size, j, turn, 1.0)
        for j in range(scales)
        for angle, turn in enumerate(turns)
    }
    u = np.arange(-3 * size, 4 * size)
    bell = np.exp(-np.square(u) / (2 * 1.6**2)).reshape(7, size).sum(axis=0)
    low = np.outer(bell, bell) / bell.sum() ** 2
    layer = Scattering(scales, angles)
    found = np.asarray(jax.jit(layer)(image[..., None]))
    for number, path in enumerate(layer.paths):
        expected = image
        for step in path:
            expected = np.abs(around(expected, kernels[step]))
        np.testing.assert_allclose(found[..., number], around(expected, low)[::4, ::4], atol=2e-4)


@pytest.mark.parametrize(("scales", "angles"), [(1, 3), (2, 2)])
def test_there_is_one_feature_for_the_mean_each_wavelet_and_each_pair_of_growing_scale(
    scales, angles
) -> None:
    layer = Scattering(scales, angles)
    count = 1 + scales * angles + angles**2 * scales * (scales - 1) // 2
    assert len(layer.paths) == len(set(layer.paths)) == count
    x = jnp.asarray(noise(2, 5, 7, 2))
    found = jax.jit(layer)(x)
    assert found.shape == (2, math.ceil(5 / 2**scales), math.ceil(7 / 2**scales), 2 * count)
    first = Scattering(scales, angles, order=1)
    alone = jax.jit(first)(x[:, :, :, 1:])
    np.testing.assert_allclose(alone, found[..., 1 : 2 * len(first.paths) : 2], atol=1e-12)


@pytest.mark.parametrize(("size", "scales"), [((8, 8), 1), ((16, 11), 3)])
def test_two_images_come_no_further_apart_and_no_frequency_is_amplified(size, scales) -> None:
    low, band = filters(size, scales, 4)
    turned = np.roll(band[:, ::-1, ::-1], (1, 1), axis=(1, 2))
    gain = low**2 + (band**2 + turned**2).sum(axis=0) / 2
    assert gain.max() == pytest.approx(1)
    np.testing.assert_array_equal(band[:, 0, 0], 0)
    a, b = (noise(*size, 1, seed=seed) for seed in (1, 2))
    smooth = 3 + 0.01 * noise(*size, 1)  # uses the bound almost up
    zero = np.zeros_like(a)
    pairs = [(a, b), (a, zero), (smooth, zero), (smooth, a)]
    xs, ys = (
        jax.jit(Scattering(scales, 4))(jnp.asarray(np.stack(side))) for side in zip(*pairs, strict=True)
    )
    for (x, y), apart in zip(pairs, np.asarray(xs - ys), strict=True):
        assert np.linalg.norm(apart) <= np.linalg.norm(x - y)


def test_a_wave_is_seen_by_the_wavelet_of_its_frequency_and_direction() -> None:
    size, layer = 32, Scattering(3, 4, order=1)
    phase = 2 * np.pi * np.arange(size) / size
    cases = [(scale, angle) for scale in (0, 1, 2) for angle in (0, 2)]
    waves = [np.cos(12 / 2**scale * phase) for scale, _ in cases]  # 3/4 π 2^-scale radians a pixel
    images = [
        np.tile(w, (size, 1)).T if angle else np.tile(w, (size, 1))
        for (_, angle), w in zip(cases, waves, strict=True)
    ]
    strength = np.asarray(jax.jit(layer)(jnp.asarray(np.stack(images))[..., None])).mean(axis=(1, 2))
    assert [layer.paths[1 + best] for best in strength[:, 1:].argmax(axis=1)] == [(case,) for case in cases]
    np.testing.assert_allclose(strength[:, 0], 0, atol=1e-12)


def test_the_larger_the_scale_the_less_a_shift_changes() -> None:
    x = jnp.asarray(noise(1, 16, 16, 1))
    change = [float(invariance(jax.jit(Scattering(j, 2)), x, [(1, 2)])[0]) for j in (1, 2, 3, 4)]
    assert change == sorted(change, reverse=True)
    assert change[0] > 0.2
    assert change[-1] < 0.05


def test_it_has_derivatives_also_where_a_modulus_is_zero() -> None:
    layer = jax.jit(Scattering(2, 2))
    image = jnp.asarray(noise(4, 5, 1))
    check_grads(lambda x: layer(jnp.asarray(x)).sum(), (image,), order=1, modes=["fwd", "rev"], rtol=1e-5)
    flat = jax.jit(jax.grad(lambda x: layer(x).sum()))(jnp.ones((4, 5, 1)))
    assert bool(jnp.isfinite(flat).all())


def test_settings_and_images_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"order=3.: must be between 1 and 2"):
        Scattering(2, order=3)
    with pytest.raises(ArgumentError, match=r"4 x 9 pixels is smaller than the 8 pixels(.|\n)*scales=2"):
        Scattering(3)(jnp.ones((4, 9, 1)))
