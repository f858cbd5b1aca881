"""Every family against SciPy: densities, moments, entropy, and draws by Kolmogorov and Smirnov."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as s

from chainrule.probability import (
    Bernoulli,
    Beta,
    BetaBinomial,
    Binomial,
    Dirichlet,
    Distribution,
    Exponential,
    Gamma,
    Laplace,
    Logistic,
    MultivariateNormal,
    Normal,
    Poisson,
    StudentT,
    Uniform,
)

KEY = jax.random.key(1)
A, B = np.array([0.4, 1.0, 7.5]), np.array([2.0, 0.7, 3.0])
N = np.array([1, 4, 30])


class Case(NamedTuple):
    """A batch of three, and SciPy's."""

    make: Callable[..., Distribution]
    arguments: tuple[Any, ...]
    oracle: Any
    x: np.ndarray
    """Also off the support and at its ends."""


NUMBERS = np.array([-2.5, -0.3, 0.0, 0.2, 1.0, 3.7])[:, None]
COUNTS = np.array([-1.0, 0.0, 0.5, 1.0, 3.0, 29.0])[:, None]
CASES = {
    "normal": Case(Normal, (A, B), s.norm(A, B), NUMBERS),
    "laplace": Case(Laplace, (A, B), s.laplace(A, B), NUMBERS),
    "logistic": Case(Logistic, (A, B), s.logistic(A, B), NUMBERS),
    "student": Case(StudentT, (B + 1.5, A, B), s.t(B + 1.5, A, B), NUMBERS),
    "uniform": Case(Uniform, (A - 2, A + B), s.uniform(A - 2, B + 2), NUMBERS),
    "exponential": Case(Exponential, (B,), s.expon(scale=1 / B), NUMBERS),
    "gamma": Case(Gamma, (A, B), s.gamma(A, scale=1 / B), NUMBERS),
    "beta": Case(Beta, (A, B), s.beta(A, B), NUMBERS),
    "bernoulli": Case(Bernoulli, (np.array([0.0, 0.3, 1.0]),), s.bernoulli([0.0, 0.3, 1.0]), COUNTS),
    "binomial": Case(lambda p: Binomial(N, p), (A / 8,), s.binom(N, A / 8), COUNTS),
    "beta-binomial": Case(lambda a, b: BetaBinomial(N, a, b), (A, B), s.betabinom(N, A, B), COUNTS),
    "poisson": Case(Poisson, (A * 4,), s.poisson(A * 4), COUNTS),
}


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", CASES)
def test_a_family_agrees_with_scipy(name: str) -> None:
    case = CASES[name]

    @eqx.filter_jit
    def numbers(arguments: Any, x: Any) -> Any:
        p = case.make(*arguments)
        return p, p.log_prob(x), p.mean, p.variance, p.entropy(), p.sample(KEY, 1500)

    p, log_prob, mean, variance, entropy, drawn = numbers(case.arguments, case.x)
    oracle = case.oracle
    with np.errstate(divide="ignore"):
        wanted = oracle.logpmf(case.x) if p.support.is_discrete else oracle.logpdf(case.x)
    np.testing.assert_allclose(log_prob, wanted, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(mean, oracle.mean(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(variance, oracle.var(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(entropy, oracle.entropy(), rtol=1e-8, atol=1e-10)
    assert np.asarray(p.support.contains(drawn)).all()
    for k in range(3):
        if p.support.is_discrete:  # the test wants continuous numbers: spread each count over its step
            top = np.asarray(oracle.cdf(np.asarray(drawn)))[:, k]
            bottom = np.asarray(oracle.cdf(np.asarray(drawn) - 1))[:, k]
            ranks = bottom + (top - bottom) * np.random.default_rng(k).uniform(size=len(top))
        else:
            ranks = np.asarray(oracle.cdf(np.asarray(drawn)))[:, k]
        assert s.kstest(ranks, "uniform").pvalue > 1e-3


def test_a_poisson_of_any_rate_has_its_entropy() -> None:
    rates = np.array([1e-6, 30.0, 999.0, 1001.0, 1e5])
    found = np.asarray(Poisson(rates).entropy())
    counts = np.arange(110_000)[:, None]
    logs = s.poisson(rates).logpmf(counts)
    np.testing.assert_allclose(
        found, -(np.exp(logs) * np.where(np.exp(logs) > 0, logs, 0)).sum(axis=0), atol=1e-9
    )


def test_dirichlet_agrees_with_scipy() -> None:
    p, oracle = Dirichlet(A), s.dirichlet(A)
    inside = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(p.log_prob(inside), oracle.logpdf(inside), rtol=1e-12)
    assert float(p.log_prob([0.2, 0.5, 0.4])) == float(p.log_prob([-0.1, 0.6, 0.5])) == -np.inf
    np.testing.assert_allclose(p.mean, oracle.mean(), rtol=1e-12)
    np.testing.assert_allclose(p.variance, oracle.var(), rtol=1e-12)
    np.testing.assert_allclose(p.covariance, oracle.cov(), atol=1e-12)
    np.testing.assert_allclose(p.entropy(), oracle.entropy(), rtol=1e-12)
    drawn = np.asarray(p.sample(KEY, 4000))
    for k in range(3):  # every entry has a beta distribution
        assert s.kstest(drawn[:, k], s.beta(A[k], A.sum() - A[k]).cdf).pvalue > 1e-3


def test_a_multivariate_normal_agrees_with_scipy() -> None:
    covariance = np.array([[2.0, 0.6, 0.3], [0.6, 1.0, 0.2], [0.3, 0.2, 1.5]])
    p, oracle = MultivariateNormal(A, covariance), s.multivariate_normal(A, covariance)
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    np.testing.assert_allclose(p.log_prob(x), oracle.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(p.entropy(), oracle.entropy(), rtol=1e-12)
    np.testing.assert_allclose(p.covariance, covariance, rtol=1e-12)
    drawn = np.asarray(p.sample(KEY, 4000))
    ranks = s.norm.cdf(np.linalg.solve(np.linalg.cholesky(covariance), (drawn - A).T))
    for row in ranks:
        assert s.kstest(row, "uniform").pvalue > 1e-3


QUANTILES: dict[str, Any] = {
    "normal": s.norm,
    "laplace": s.laplace,
    "logistic": s.logistic,
    "uniform": lambda low, high: s.uniform(low, high - low),
    "exponential": lambda rate: s.expon(scale=1 / rate),
    "gamma": lambda a, rate: s.gamma(a, scale=1 / rate),
}


@pytest.mark.parametrize("name", QUANTILES)
def test_a_draw_moves_with_the_parameters_so_that_its_rank_stays(name: str) -> None:
    case, oracle = CASES[name], QUANTILES[name]
    arguments = [np.float64(argument[2]) for argument in case.arguments]
    drawn, slopes = jax.jit(
        lambda *given: jax.jvp(lambda *a: case.make(*a).sample(KEY, 5), given, (jnp.ones(()),) * len(given))
    )(*arguments)
    step = 1e-5
    after, before = (oracle(*(a + sign * step for a in arguments)).cdf(drawn) for sign in (1, -1))
    wanted = -(after - before) / (2 * step) / oracle(*arguments).pdf(drawn)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("draw", "at", "square"),
    [
        (lambda a: Beta(a, 2.0).sample(KEY, 5000), 0.7, lambda a: a * (a + 1) / ((a + 2) * (a + 3))),
        (lambda n: StudentT(n, 0.0, 1.0).sample(KEY, 5000), 9.0, lambda n: n / (n - 2)),
        pytest.param(
            lambda a: Dirichlet(jnp.stack([a, jnp.ones(()), jnp.ones(())])).sample(KEY, 5000)[:, 0],
            0.7,
            lambda a: a * (a + 1) / ((a + 2) * (a + 3)),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["beta", "student", "dirichlet"],
)
def test_derivatives_through_draws_have_the_derivative_of_the_moment_for_their_mean(draw, at, square) -> None:
    _, slopes = jax.jit(lambda a: jax.jvp(lambda v: jnp.square(draw(v)), (a,), (jnp.ones(()),)))(at)
    wanted = (square(at + 1e-5) - square(at - 1e-5)) / 2e-5
    slopes = np.asarray(slopes)
    assert abs(slopes.mean() - wanted) < 4 * slopes.std() / np.sqrt(len(slopes))
    assert slopes.std() > 0
