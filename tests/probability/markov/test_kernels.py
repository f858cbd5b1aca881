"""Chains on the line and in space: closed forms against products of steps, quadrature and draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Normal, markov


def test_a_gaussian_walk_spreads_with_the_number_of_steps() -> None:
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]], np.float32)
    walk = markov.GaussianWalk(covariance)
    found = walk.after(np.array([1.0, -1.0]), 7)
    np.testing.assert_allclose(found.covariance, 7 * covariance, rtol=1e-5)
    paths = np.asarray(walk.sample(jax.random.key(0), np.array([1.0, -1.0]), 7, (4000,)))
    assert paths.shape == (4000, 8, 2)
    assert (paths[:, 0] == [1.0, -1.0]).all()
    np.testing.assert_allclose(np.cov(paths[:, -1].T), 7 * covariance, rtol=0.1)


def test_a_simple_walk_has_binomial_steps() -> None:
    found = markov.SimpleWalk(0.3).after(2.0, 5)
    expected = scipy.stats.binom.logpmf([0, 3, 5], 5, 0.3)
    np.testing.assert_allclose([found.log_prob(2.0 + 2 * k - 5) for k in (0, 3, 5)], expected, rtol=1e-4)
    path = np.asarray(markov.SimpleWalk(0.3).sample(jax.random.key(0), 0.0, 200))
    assert set(np.abs(np.diff(path))) == {1.0}


def test_steps_of_an_autoregression_compose_to_its_closed_form() -> None:
    chain = markov.AR1(0.8, 0.5, mean=1.0)
    mean, variance = 3.0, 0.0
    for _ in range(6):
        mean, variance = 1.0 + 0.8 * (mean - 1.0), 0.64 * variance + 0.25
    found = chain.after(3.0, 6)
    assert float(found.mean) == pytest.approx(mean, rel=1e-5)
    assert float(found.variance) == pytest.approx(variance, rel=1e-5)
    still = chain.stationary()
    assert float(still.variance) == pytest.approx(0.64 * float(still.variance) + 0.25, rel=1e-5)


def test_an_ornstein_uhlenbeck_step_is_two_of_half_its_length() -> None:
    whole, half = (markov.ornstein_uhlenbeck(1.5, 0.7, dt, mean=2.0) for dt in (0.4, 0.2))
    once, twice = whole.after(0.0, 1), half.after(0.0, 2)
    np.testing.assert_allclose([once.mean, once.variance], [twice.mean, twice.variance], rtol=1e-5)


def test_a_kernel_of_ones_own_is_normalised_over_where_it_goes() -> None:
    kernel = markov.FunctionKernel(lambda x: Normal(jnp.sin(x), 0.1 + x**2))
    grid = jnp.linspace(-30.0, 30.0, 20_001)
    for x in (0.5, 2.0):
        total = float(jnp.exp(kernel.step(jnp.asarray(x)).log_prob(grid)).sum() * (grid[1] - grid[0]))
        assert total == pytest.approx(1, abs=1e-3)
    path = np.array([0.5, 0.2, -0.1])
    expected = scipy.stats.norm.logpdf(path[1:], np.sin(path[:-1]), 0.1 + path[:-1] ** 2).sum()
    assert float(kernel.log_prob(path)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: markov.FunctionKernel(lambda x: x).sample(jax.random.key(0), 0.0, 1), "not a distribution"),
        (lambda: markov.SimpleWalk(1.5), "lie between 0 and 1"),
        (lambda: markov.AR1(1.0).stationary(), "no stationary distribution"),
        (lambda: markov.AR1(0.5).log_prob([1.0]), "at least two states"),
        (lambda: markov.ornstein_uhlenbeck(-1.0, 1.0, 0.1), "rate must be positive"),
        (lambda: markov.GaussianWalk([[1.0, 2.0], [2.0, 1.0]]), "eigenvalue"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
