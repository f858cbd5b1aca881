"""Modes of convergence of known sequences; both limit theorems, and sources that break their hypotheses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import Bernoulli, Exponential, Normal, StudentT
from chainrule.probability.convergence import (
    EXAMPLES,
    RandomSequence,
    modes,
    running_means,
    standardized_sums,
)
from chainrule.probability.convergence.examples import block_of

KEY = jax.random.key(7)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("sliding-indicators", (False, True, True, True)),
        ("tall-indicators", (True, False, True, True)),
        ("mirrored", (False, False, False, True)),
        ("mean-of-signs", (True, True, True, True)),
    ],
)
def test_every_example_converges_in_its_modes_and_in_no_other(name: str, holds: tuple[bool, ...]) -> None:
    found = modes(EXAMPLES[name], KEY, steps=2000, paths=1500)
    names = ("almost surely", "in L^p", "in probability", "in distribution")
    assert dict(found.falls()) == dict(zip(names, holds, strict=True))
    # The implications, at every n: what is far now is far now or later; Markov's inequality.
    assert (found.in_probability <= found.almost_sure).all()
    assert (found.in_probability <= found.moment / found.epsilon + 1e-12).all()
    assert (found.wasserstein <= found.moment + 1e-9).all()


def test_the_ninth_sliding_indicator_is_one_of_four_and_every_path_is_met_again() -> None:
    assert block_of(jnp.array([9])).tolist() == [4]
    omega = (jnp.arange(4000) + 0.5) / 4000
    values = jax.vmap(lambda one: EXAMPLES["sliding-indicators"].values(one, jnp.arange(1, 10)))(omega)
    assert float(values[:, 8].mean()) == pytest.approx(1 / 4, abs=1e-3)
    assert values[:, 5:9].sum(axis=1).tolist() == [1.0] * 4000  # block 4 covers the interval once
    found = modes(EXAMPLES["sliding-indicators"], KEY, steps=1000, paths=2000)
    assert (found.almost_sure == 1).all()
    at = int(np.argmin(np.abs(found.n - 9)))
    assert found.n[at] == 9
    assert found.in_probability[at] == pytest.approx(1 / 4, abs=4 * np.sqrt(3 / 16 / 2000))


def test_the_curves_of_tall_indicators_are_the_known_ones() -> None:
    found = modes(EXAMPLES["tall-indicators"], KEY, steps=200, paths=20_000)
    np.testing.assert_allclose(found.in_probability, 1 / found.n, atol=0.015)
    assert (np.abs(found.moment - 1) < 4 * np.sqrt(found.n / 20_000)).all()
    np.testing.assert_allclose(found.almost_sure, found.in_probability)  # they never come back


def test_means_go_to_the_mean_within_their_band() -> None:
    found = running_means(Exponential(2.0), KEY, steps=2000, paths=400)
    assert found.broken == ""
    inside = (np.abs(found.means - found.mean) < found.band).mean(axis=0)
    assert inside[-1] == pytest.approx(0.95, abs=0.05)
    assert found.spread()[-1] < 0.05 * found.spread()[0]


def test_standardised_sums_become_normal() -> None:
    found = standardized_sums(Bernoulli(0.2), KEY, n=(1, 512), paths=2000)
    assert found.broken == ""
    assert found.deviation == pytest.approx(0.4)
    assert found.distance[0] > 0.3
    assert found.distance[1] < 0.06
    assert standardized_sums(Normal(3.0, 2.0), KEY, n=(5,), paths=2000).distance[0] < found.noise


def test_a_cauchy_source_fails_both_and_is_told_why() -> None:
    means = running_means(StudentT(1.0), KEY, steps=500, paths=200)
    assert "no mean" in means.broken
    assert means.spread()[-1] > 0.5 * means.spread()[0]  # the mean of n is as wide as one draw
    sums = standardized_sums(StudentT(1.0), KEY, n=(1, 64), paths=500)
    assert "no finite variance" in sums.broken
    assert sums.distance[1] > 0.3 > sums.distance[0]


def test_a_source_with_a_mean_and_no_variance_breaks_only_the_second() -> None:
    assert running_means(StudentT(2.0), KEY, steps=100, paths=20).broken == ""
    assert "no finite variance" in standardized_sums(StudentT(2.0), KEY, n=(4,), paths=50).broken


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: modes(EXAMPLES["mirrored"], KEY, epsilon=0.0), "above zero"),
        (lambda: modes(EXAMPLES["mirrored"], KEY, p=0.5), "p >= 1"),
        (lambda: modes(EXAMPLES["mirrored"], KEY, steps=3), "steps must be"),
        (
            lambda: modes(
                RandomSequence(jax.random.normal, lambda omega, n: omega, lambda omega: omega), KEY
            ),
            "one number for each n",
        ),
        (
            lambda: modes(
                RandomSequence(jax.random.normal, lambda omega, n: omega / (n - 1), lambda omega: omega), KEY
            ),
            "NaN or infinite",
        ),
        (lambda: running_means(Normal(np.zeros(3), 1.0), KEY), "not single numbers"),
        (lambda: standardized_sums(Normal(), KEY, n=()), "at least one number"),
    ],
)
def test_what_cannot_be_simulated_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
