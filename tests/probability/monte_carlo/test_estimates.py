"""Means and evidences from draws, against exact values; and what the cleverer draws gain."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability import Normal
from chainrule.probability.monte_carlo import control_variate, log_evidence, self_normalized, uniform_mean

KEY = jax.random.key(2)
EVIDENCE = -math.log(4 * math.pi) / 2 - 1  # x = 2 under N(0, 2)


def log_likelihood(z: jax.Array) -> jax.Array:
    return Normal(z, 1.0).log_prob(2.0)


def test_the_evidence_comes_from_draws_of_the_prior_and_of_a_proposal() -> None:
    for proposal in (None, Normal(0.5, 1.2)):
        report = log_evidence(log_likelihood, Normal(0.0, 1.0), KEY, proposal=proposal)
        assert abs(report.corrected - EVIDENCE) < 4 * report.standard_error
        assert 0 < report.standard_error < 0.02


def test_weights_of_the_exact_posterior_are_all_the_evidence() -> None:
    posterior = Normal(1.0, math.sqrt(0.5))
    report = log_evidence(log_likelihood, Normal(0.0, 1.0), KEY, proposal=posterior, draws=1000)
    assert report.log_mean == pytest.approx(EVIDENCE, abs=1e-6)
    assert report.effective_sample_size == pytest.approx(1000, rel=1e-9)
    assert report.pareto_k == -np.inf  # what rounding leaves is no tail


def test_a_proposal_too_narrow_is_warned_of() -> None:
    with pytest.warns(ChainruleWarning, match="Pareto k is"):
        log_evidence(log_likelihood, Normal(0.0, 1.0), KEY, proposal=Normal(1.0, 0.2))


def test_self_normalised_weights_give_moments_of_a_density_without_its_factor() -> None:
    z = np.random.default_rng(0).normal(size=20_000) * 2
    log_weights = -((z - 1) ** 2) / 2 + z**2 / 8 + 123.0
    found = self_normalized(np.stack([z, z**2], axis=1), log_weights)
    assert (np.abs(found.value - [1, 2]) < 4 * found.standard_error).all()
    low, high = found.interval()
    assert ((low < found.value) & (found.value < high)).all()


def test_a_control_variate_takes_off_what_it_explains() -> None:
    u = np.random.default_rng(0).uniform(size=4000)
    values = np.exp(u)
    found = control_variate(values, np.stack([u, u**2], axis=1), [1 / 2, 1 / 3])
    plain = values.std(ddof=1) / math.sqrt(len(u))
    assert abs(found.value - (math.e - 1)) < 4 * found.standard_error
    assert found.standard_error < plain / 50


def test_antithetic_and_quasi_random_draws_are_right_and_less_noisy() -> None:
    def f(u: jax.Array) -> jax.Array:
        return jnp.exp(u.sum() / 2)

    exact = (2 * (math.sqrt(math.e) - 1)) ** 3
    found = {m: uniform_mean(f, 3, KEY, draws=4096, method=m) for m in ("plain", "antithetic", "quasi")}
    for one in found.values():
        assert abs(one.value - exact) < 4 * one.standard_error
    errors = {method: float(one.standard_error) for method, one in found.items()}
    assert errors["antithetic"] < errors["plain"] / 4
    assert errors["quasi"] < errors["plain"] / 20


def test_normal_draws_are_reached_through_quantiles() -> None:
    found = uniform_mean(lambda u: jnp.square(jax.scipy.special.ndtri(u)).sum(), 2, KEY, draws=16 * 512)
    assert found.value == pytest.approx(2, abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uniform_mean(jnp.sum, 2, KEY, draws=1000), r"power of two of points\n +draws=1024"),
        (lambda: uniform_mean(jnp.sum, 2, KEY, method="sobol"), "method must be"),
        (lambda: uniform_mean(jnp.sum, 0, KEY), "dimensions must be"),
        (lambda: control_variate(np.ones(5), np.ones((4, 1)), [1.0]), "more draws than controls"),
        (lambda: self_normalized(np.ones(5), np.zeros(4)), "draws first"),
        (lambda: self_normalized(np.ones(5), np.full(5, -np.inf)), "all weights are zero"),
        (
            lambda: log_evidence(log_likelihood, Normal(), KEY, proposal=Normal(np.zeros(3))),
            "over the same z",
        ),
    ],
)
def test_what_makes_no_mean_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
