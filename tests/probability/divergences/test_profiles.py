"""Divergences beside transport distances, on densities, samples and smoothed samples."""

import math
from collections.abc import Iterator

import jax
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Bernoulli, Mixture, Normal
from chainrule.probability import divergences as d
from chainrule.probability.gaussian import distances as gaussian


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_two_normal_densities_have_their_closed_forms() -> None:
    found = d.slide(Normal(0.0, 1.0), Normal(0.0, 1.0), [3.0, 40.0])
    assert float(found.kl[0]) == pytest.approx(4.5, abs=1e-9)
    assert float(found.tv[0]) == pytest.approx(0.866386, abs=2e-6)
    assert float(found.hellinger[0]) == pytest.approx(
        float(gaussian.hellinger([0.0], [[1.0]], [3.0], [[1.0]]))
    )
    np.testing.assert_allclose(found.w1, [3, 40], atol=1e-5)
    np.testing.assert_allclose(found.w2, [3, 40], atol=1e-4)
    np.testing.assert_allclose(found.js[1], math.log(2), atol=1e-9)
    # E k(X, Y) of the kernel of squared scale 2 and a difference that is N(gap, 2)
    meeting = [math.sqrt(0.5) * math.exp(-(gap**2) / 8) for gap in (0, 3)]
    assert float(found.mmd[0]) == pytest.approx(math.sqrt(2 * meeting[0] - 2 * meeting[1]), abs=1e-3)


def test_a_stretched_density_keeps_its_mean() -> None:
    found = d.stretch(Normal(1.0, 1.0), Normal(1.0, 1.0), [1.0, 2.0])
    np.testing.assert_allclose(found.kl, [0, math.log(2) + 1 / 8 - 1 / 2], atol=1e-9)
    np.testing.assert_allclose(found.w2, [0, 1], atol=1e-4)
    np.testing.assert_allclose(found.w1, [0, math.sqrt(2 / math.pi)], atol=1e-5)


def test_disjoint_samples_look_alike_to_divergences_whatever_the_gap() -> None:
    x = np.array([0.0, 0.25, 1.0])
    found = d.slide(x, x, [0.0, 0.25, 7.0])
    np.testing.assert_allclose(found.kl, [0, math.inf, math.inf])
    np.testing.assert_allclose(found.tv, [0, 2 / 3, 1])  # two of three points meet no other at 0.25
    np.testing.assert_allclose(found.js, [0, 2 / 3 * math.log(2), math.log(2)])
    np.testing.assert_allclose(found.hellinger**2, [0, 2 / 3, 1], atol=1e-12)
    np.testing.assert_allclose(found.w1, [0, 0.25, 7])
    np.testing.assert_allclose(found.w2, [0, 0.25, 7])


def test_smoothing_makes_divergences_finite_and_the_bandwidth_decides_how_large() -> None:
    bandwidths = np.array([0.5, 1.0, 2.0])
    found = d.smooth([0.0], [3.0], bandwidths).profile
    np.testing.assert_allclose(found.kl, 9 / (2 * bandwidths**2), rtol=1e-9)
    np.testing.assert_allclose(found.reverse_kl, found.kl)
    np.testing.assert_allclose(found.tv, 2 * scipy.stats.norm.cdf(1.5 / bandwidths) - 1, atol=1e-5)
    np.testing.assert_allclose(found.w1, 3, atol=1e-9)


def test_smoothed_samples_are_mixtures_of_normals() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    found = d.profile(x, y + 0.5, bandwidth=0.7)
    mixtures = [Mixture(np.full(6, 1 / 6), Normal(points, 0.7)) for points in (x, y + 0.5)]
    assert float(found.js) == pytest.approx(float(d.js(*mixtures)), abs=1e-7)
    assert float(found.hellinger) == pytest.approx(float(d.hellinger(*mixtures)), abs=1e-7)
    wide = d.smooth(x, y + 0.5)
    assert wide.default == pytest.approx(math.sqrt(d.silverman(x) * d.silverman(y)))
    assert len(wide.bandwidths) == 21
    assert (np.diff(wide.profile.js) < 0).all()


def test_silvermans_rule_and_its_way_out_of_ties() -> None:
    x = np.random.default_rng(0).normal(size=1000)
    assert d.silverman(x) == pytest.approx(0.9 * 1000**-0.2, rel=0.05)
    assert d.silverman([0.0, 0.0, 0.0, 0.0, 10.0]) > 0  # quartiles that coincide
    assert d.silverman([1.0, 1.0]) == 0


def test_mean_discrepancy_is_the_double_sum_over_pairs() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 5, 3))
    gram = np.exp(
        -np.square(np.concatenate([x, y])[:, None] - np.concatenate([x, y])[None]).sum(axis=-1) / (2 * 4)
    )
    sign = np.repeat([1 / 5, -1 / 5], 5)
    assert float(d.mmd(x, y, scale=2.0)) == pytest.approx(math.sqrt(sign @ gram @ sign))
    assert float(d.mmd(x, x)) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: d.profile(Normal(0.0, 1.0), [0.0]), r"profile\(p\): a distribution .*\n.*sample"),
        (lambda: d.profile(Normal(0.0, 1.0), Bernoulli(0.5)), r"q\): Bernoulli is not one density"),
        (lambda: d.profile(Normal(0.0, 1.0), Normal(0.0, 1.0), bandwidth=1.0), "samples are smoothed"),
        (lambda: d.profile(np.zeros((3, 2)), [0.0]), "one column at a time"),
        (lambda: d.slide([0.0], [1.0], [math.inf]), "shifts"),
        (lambda: d.stretch([0.0], [1.0], [0.0]), "factors.* must be positive"),
        (lambda: d.profile([0.0], [1.0], bandwidth=-1.0), "bandwidth.* must be positive"),
        (lambda: d.profile([0.0], [1e6], bandwidth=1.0), r"too small .*\n.*use at least"),
        (lambda: d.smooth([0.0], [1.0]), "give bandwidths"),
        (lambda: d.mmd(np.zeros((3, 2)), np.zeros((3, 1))), "2 features and y has 1"),
    ],
)
def test_what_has_no_profile_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_the_remedy_for_a_small_bandwidth_works() -> None:
    with pytest.raises(ArgumentError, match="use at least") as caught:
        d.profile([0.0], [1e6], bandwidth=1.0)
    least = float(caught.value.remedy.split()[-1])
    assert float(d.profile([0.0], [1e6], bandwidth=1.2 * least).w1) == pytest.approx(1e6)
