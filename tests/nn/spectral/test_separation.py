"""Masks and the ratio that judges separation: known numbers, their order on mixtures, policies for silence."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.spectral import (
    STFT,
    apply_mask,
    best_order,
    ideal_binary_mask,
    ideal_complex_mask,
    ideal_ratio_mask,
    si_sdr,
    si_sdr_bounded,
)

RNG = np.random.default_rng(0)


def test_orthogonal_noise_of_a_tenth_of_the_energy_gives_ten_decibels_at_any_scale() -> None:
    with jax.enable_x64(True):
        s, noise = RNG.normal(size=(2, 1000))
        noise -= s * (noise @ s) / (s @ s)
        noise *= np.sqrt(0.1 * (s @ s) / (noise @ noise))
        for scale in (1.0, 0.01, -3.0):
            for measure in (si_sdr, si_sdr_bounded):
                found = measure(jnp.asarray(scale * (s + noise)), jnp.asarray(s))
                assert float(found) == pytest.approx(10, abs=1e-4)


def test_the_ratio_is_that_of_its_definition_by_projection() -> None:
    with jax.enable_x64(True):
        e, s = RNG.normal(size=(2, 5, 400))
        for one, other, found in zip(e, s, np.asarray(si_sdr(jnp.asarray(e), jnp.asarray(s))), strict=True):
            share = np.linalg.lstsq(other[:, None], one, rcond=None)[0][0]
            ratio = np.square(share * other).sum() / np.square(one - share * other).sum()
            assert found == pytest.approx(10 * np.log10(ratio), abs=1e-9)


def test_silence_has_a_policy() -> None:
    ones, none = jnp.ones(8), jnp.zeros(8)
    assert np.isnan(si_sdr(ones, none))
    assert si_sdr(none, ones) == -np.inf
    assert si_sdr(ones, ones) == np.inf
    bounded = [
        float(si_sdr_bounded(*pair)) for pair in ((ones, none), (none, ones), (ones, ones), (none, none))
    ]
    np.testing.assert_allclose(bounded, [0, -60, 60, 0], atol=1e-3)
    for pair in ((ones, none), (none, ones), (ones, ones), (none, none)):
        assert np.isfinite(jax.grad(lambda e, s: si_sdr_bounded(e, s))(*pair)).all()
    with pytest.raises(ArgumentError, match="limit"):
        si_sdr_bounded(ones, ones, limit=0.0)


def sources() -> np.ndarray:
    """A hundred pairs: a tone of eight harmonics, and noise in short bursts."""
    time = np.arange(8192) / 8192
    found = []
    for _ in range(100):
        pitch = RNG.uniform(100, 400)
        tone = sum(np.sin(2 * np.pi * pitch * k * time + RNG.uniform(0, 6)) / k for k in range(1, 9))
        beats = np.exp(-np.mod(time - RNG.uniform(), 0.25) * 30)
        found.append([tone, 3 * beats * RNG.normal(size=8192)])
    return np.array(found)


def test_oracle_masks_restore_and_rank_as_they_should() -> None:
    """The amplitude ratio is not the better mask: power ratio, then binary, then amplitude ratio."""
    with jax.enable_x64(True):
        s = jnp.asarray(sources())
        mixed, transform = s.sum(axis=1), STFT(512, hop=128)
        parts, whole = transform(s), transform(mixed)
        found = {}
        for name, mask in {
            "power": ideal_ratio_mask(parts, 2),
            "binary": ideal_binary_mask(parts),
            "amplitude": ideal_ratio_mask(parts, 1),
            "complex": ideal_complex_mask(parts, whole),
        }.items():
            estimates = transform.inverse(apply_mask(mask, whole), s.shape[-1])
            np.testing.assert_allclose(mask.sum(axis=1), 1, atol=1e-6)
            np.testing.assert_allclose(estimates.sum(axis=1), mixed, atol=1e-6)
            found[name] = np.asarray(si_sdr(estimates, s))
        assert found["complex"].min() > 100
        means = [found[name].mean() for name in ("power", "binary", "amplitude")]
        assert means[0] > means[1] > means[2]
        assert means[2] > 10


def test_masks_of_silence_are_finite() -> None:
    nothing = jnp.zeros((2, 3, 4), jnp.complex64)
    assert np.allclose(ideal_ratio_mask(nothing), 0.5)
    assert np.allclose(ideal_binary_mask(nothing).sum(axis=0), 1)
    assert np.allclose(ideal_complex_mask(nothing, nothing[0]), 0)
    with pytest.raises(ArgumentError, match="exponent"):
        ideal_ratio_mask(nothing, 0.0)


def test_the_best_order_is_the_best_of_all() -> None:
    scores = RNG.normal(size=(6, 3, 3)).astype(np.float32)
    value, order = best_order(jnp.asarray(scores))
    for one, best, chosen in zip(scores, np.asarray(value), np.asarray(order), strict=True):
        tried = {o: np.mean([one[e, r] for r, e in enumerate(o)]) for o in itertools.permutations(range(3))}
        assert best == pytest.approx(max(tried.values()), rel=1e-5)
        assert tuple(chosen) == max(tried, key=tried.__getitem__)
    with pytest.raises(ArgumentError, match="up to 7"):
        best_order(jnp.zeros((2, 8, 8)))
