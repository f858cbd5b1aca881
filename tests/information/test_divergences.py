"""Divergences from two samples alone: between normals with known values, honest halves, and what is said of them."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import information
from chainrule.core.errors import ArgumentError
from chainrule.information import DivergenceEstimate, divergence_estimate
from chainrule.information.critics import Critic
from chainrule.probability import Normal
from chainrule.probability.divergences import f_divergences, js

# Between N(0, 1) and N(1, 2²), by quadrature.
KNOWN = {
    "KL": 0.4431472,
    "reverse KL": 1.3068528,
    "Pearson chi-square": 0.7440263,
    "full squared Hellinger": 0.2983891,
    "2 JSD": 2 * 0.1281750,
    "total variation": 0.3900657,
}
BOUNDED = ("2 JSD", "full squared Hellinger", "total variation")


@pytest.fixture(scope="module")
def normals() -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(0).normal(size=(2, 20_000))
    return draws[0], 1 + 2 * draws[1]


@pytest.fixture(scope="module")
def doubled(normals) -> DivergenceEstimate:
    """2 JSD with little training."""
    return divergence_estimate(*normals, "2 JSD", steps=400, every=50, width=32, batch=256)


def test_the_bound_is_below_the_divergence_and_near_it(doubled) -> None:
    assert 0.85 * KNOWN["2 JSD"] < doubled.value < KNOWN["2 JSD"] + 3 * doubled.error
    assert doubled.counts == (10_000, 10_000)
    assert doubled.scored_on == "the half it never saw"
    assert 0.001 < doubled.error < 0.02
    assert "2 JSD of at least 0.2" in str(doubled)
    assert len(doubled.curve) == doubled.steps // 50
    assert doubled.best_step <= doubled.steps


def test_the_critic_learns_the_slope_of_f_at_the_ratio_of_densities(doubled) -> None:
    x = np.linspace(-2, 2.5, 61)
    log_p, log_q = -(x**2) / 2, -(((x - 1) / 2) ** 2) / 2 - np.log(2)
    wanted = np.asarray(doubled.divergence.critic(log_p, log_q))
    assert np.sqrt(np.mean((doubled.critic(x) - wanted) ** 2)) < 0.15
    assert (doubled.critic(np.linspace(-1e4, 1e4, 11)) < doubled.divergence.below).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(KNOWN))
def test_twenty_thousand_points_bound_every_divergence(name, normals) -> None:
    found = divergence_estimate(*normals, name)
    assert found.value < KNOWN[name] + 3 * found.error
    if name in BOUNDED:
        assert found.value > 0.85 * KNOWN[name]


def test_scoring_on_the_fitted_half_is_asked_for_and_exceeds() -> None:
    """Eighty points in ten dimensions, of laws one apart: a network learns some of those it is fitted on by heart."""
    draws = np.random.default_rng(1).normal(size=(2, 160, 10))
    draws[1, :, 0] += 1.0
    truth = 2 * float(js(Normal(0.0, 1.0), Normal(1.0, 1.0)))
    options: dict[str, Any] = {"steps": 200, "every": 10, "width": 32, "batch": 64, "lr": 1e-2}
    found = {
        fitted: divergence_estimate(*draws, "2 JSD", **options, score_on_fitted=fitted)
        for fitted in (False, True)
    }
    assert found[True].scored_on == "the half it was fitted on"
    assert "may exceed the true divergence" in " ".join(found[True].remarks)
    assert found[True].value == found[True].on_fitted > truth + 3 * found[True].error
    assert found[True].counts == (80, 80)
    assert found[False].value < truth + 3 * found[False].error


def test_a_start_claims_nothing() -> None:
    critic = Critic(f_divergences["KL"], jnp.zeros(2), jnp.ones(2), key=jax.random.key(0))
    under_p, under_q = critic.terms(*np.random.default_rng(0).normal(size=(2, 9, 2)).astype(np.float32))
    np.testing.assert_allclose(under_p, 1.0, atol=1e-5)
    assert under_p.mean() - under_q.mean() == pytest.approx(0, abs=1e-5)


def test_equal_laws_are_not_told_apart_and_points_may_have_any_shape() -> None:
    draws = np.random.default_rng(2).normal(size=(2, 200, 2, 3))
    found = divergence_estimate(*draws, "GAN", steps=20, every=10, width=8, batch=32)
    assert "2 JSD - 2 log 2" in found.remarks[0]
    assert "told apart" in found.remarks[1] or "tell them apart" in found.remarks[1]
    again = divergence_estimate(*draws, f_divergences["GAN"], steps=20, every=10, width=8, batch=32)
    assert again.value == found.value
    assert dataclasses.is_dataclass(again)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: divergence_estimate(x, x[:, :1]), "points of x have 2 entries, those of y 1"),
        (lambda x: divergence_estimate(x[:7], x), r"x\): 7 points are too few.*\n.*at least 20"),
        (
            lambda x: divergence_estimate(x, np.where(x > 2, np.nan, x)),
            r"y\): point \d+ has an entry that is not",
        ),
        (lambda x: divergence_estimate(x, x, "jsd"), "unknown f-divergence 'jsd'.*\n.*known: KL, reverse KL"),
        (lambda x: divergence_estimate(x, x, steps=0), r"steps=0"),
        (lambda x: divergence_estimate(x, x, lr=0), r"lr=0"),
    ],
)
def test_what_cannot_be_estimated_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call(np.random.default_rng(0).normal(size=(100, 2)))


def test_the_package_is_reached_lazily() -> None:
    import chainrule as cr

    assert cr.information is information
