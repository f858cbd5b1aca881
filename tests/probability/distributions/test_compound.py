"""Distributions made of others: discretised, empirical, independent, transformed, singular, mixed."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.probability import (
    Bernoulli,
    Dirac,
    Discretized,
    Eigen,
    Empirical,
    Exponential,
    Gamma,
    Independent,
    Laplace,
    Logistic,
    LowRank,
    Mixture,
    MultivariateNormal,
    Normal,
    Transformed,
    Uniform,
    expect,
    kl,
    pushforward,
)

KEY = jax.random.key(2)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize(("make", "oracle"), [(Normal, scipy.stats.norm), (Logistic, scipy.stats.logistic)])
def test_a_discretised_density_has_the_probabilities_of_the_bins(make, oracle) -> None:
    values, mean, scale = np.arange(-2.0, 3.0), np.array([0.3, 40.0]), np.array([0.8, 1.0])
    p = Discretized(make(mean, scale), values)
    edges = np.array([-np.inf, -1.5, -0.5, 0.5, 1.5, np.inf])[:, None]
    frozen = oracle(mean, scale)
    # The survival function keeps its digits in the left tail of the second one.
    right = frozen.sf(edges[:-1]) - frozen.sf(edges[1:])
    wanted = np.where(edges[1:] > mean, right, np.diff(frozen.cdf(edges), axis=0))
    found = np.asarray(jax.jit(lambda: p.log_prob(values[:, None]))())
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-9)
    np.testing.assert_allclose(np.exp(found).sum(axis=0), 1, rtol=1e-12)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(p.mean, (values[:, None] * wanted).sum(axis=0))
    assert (np.asarray(p.log_prob(0.25)) == -np.inf).all()
    drawn = np.asarray(p.sample(KEY, 2000))
    counts = (drawn[:, :1] == values[None]).sum(axis=0)
    assert scipy.stats.chisquare(counts, 2000 * wanted[:, 0]).pvalue > 1e-3
    assert (drawn[:, 1] == 2).all()


def test_an_empirical_distribution_counts_what_repeats() -> None:
    points = np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 1.0], [4.0, -1.0]])
    p = Empirical(points)
    found = np.exp(p.log_prob([[0.0, 1.0], [4.0, -1.0], [0.0, 0.0]]))
    np.testing.assert_allclose(found, [0.5, 0.25, 0.0])
    np.testing.assert_allclose(p.mean, points.mean(axis=0))
    np.testing.assert_allclose(p.covariance, np.cov(points.T, bias=True))
    np.testing.assert_allclose(p.variance, points.var(axis=0))
    assert float(p.entropy()) == pytest.approx(1.5 * np.log(2))
    assert np.asarray(p.support.contains(p.sample(KEY, 50))).all()
    batch = Empirical([[0.0, 1.0], [2.0, 3.0]], [[1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(batch.mean, [0.0, 2.5])
    assert set(np.asarray(batch.sample(KEY, 40))[:, 1]) == {2.0, 3.0}


def test_a_point_is_certain() -> None:
    p = Dirac([1.0, 2.0])
    assert p.log_prob(1.0).tolist() == [0.0, -np.inf]
    assert p.sample(KEY, 3).tolist() == [[1.0, 2.0]] * 3
    assert float(kl(Dirac(1.0), Dirac(1.0))) == 0
    assert float(kl(Dirac(1.0), Dirac(2.0))) == float(kl(Dirac(1.0), Normal())) == np.inf


def test_independent_entries_add_up() -> None:
    p = Independent(Normal(np.array([0.0, 1.0, 2.0]), 2.0))
    same = MultivariateNormal([0.0, 1.0, 2.0], 4 * np.eye(3))
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(p.log_prob(x), same.log_prob(x))
    np.testing.assert_allclose(p.entropy(), same.entropy())
    np.testing.assert_allclose(p.covariance, same.covariance)
    other = Independent(Normal(np.zeros(3), 1.0))
    assert float(kl(p, other)) == pytest.approx(float(kl(same, MultivariateNormal(np.zeros(3), np.eye(3)))))
    coins = Independent(Bernoulli(np.array([0.5, 0.25])))
    assert float(expect(coins, lambda x: (x[0] == 1) & (x[1] == 0)).value) == pytest.approx(0.375)


def test_log_normals_are_scored_and_compared() -> None:
    p, q = (Transformed(normal, jnp.exp, jnp.log) for normal in (Normal(0.0, 1.0), Normal(1.0, 2.0)))
    x = np.array([-1.0, 0.0, 0.3, 2.0])
    np.testing.assert_allclose(p.log_prob(x), scipy.stats.lognorm(1.0).logpdf(x))
    assert float(kl(p, q)) == pytest.approx(0.443147, abs=1e-6)
    assert float(kl(p.base, q.base)) == pytest.approx(0.443147, abs=1e-6)
    given = Transformed(Normal(0.0, 1.0), jnp.exp, jnp.log, log_det=lambda x: x)
    np.testing.assert_allclose(given.log_prob(x), p.log_prob(x))
    assert np.isfinite(np.asarray(jax.vmap(jax.grad(lambda v: p.log_prob(v)))(jnp.asarray(x[1:])))[1:]).all()
    compiled = jax.jit(lambda one, x: one.log_prob(x))(p, x)
    np.testing.assert_allclose(compiled, p.log_prob(x))
    assert scipy.stats.kstest(np.asarray(p.sample(KEY, 2000)), scipy.stats.lognorm(1.0).cdf).pvalue > 1e-3


def test_a_linear_map_of_vectors_is_scored_by_its_determinant() -> None:
    matrix = jnp.array([[2.0, 1.0], [0.0, 3.0]])
    base = MultivariateNormal([0.0, 0.0], np.eye(2))
    p = pushforward(base, lambda x: matrix @ x, lambda y: jnp.linalg.solve(matrix, y))
    y = np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_allclose(p.log_prob(y), MultivariateNormal([0.0, 0.0], matrix @ matrix.T).log_prob(y))


def test_the_image_of_finitely_many_points_needs_no_inverse() -> None:
    dice = Empirical(np.arange(1.0, 7.0))
    parity = pushforward(dice, lambda x: x % 2)
    np.testing.assert_allclose(jnp.exp(parity.log_prob([0.0, 1.0, 2.0])), [0.5, 0.5, 0.0])
    with pytest.raises(CapabilityError, match="needs the inverse of square"):
        pushforward(Normal(), jnp.square).log_prob(1.0)
    squares = pushforward(Normal(), jnp.square)
    for name in ("mean", "variance", "covariance"):
        with pytest.raises(CapabilityError, match=rf"Transformed: its {name} has no closed form\n.*estimate"):
            getattr(squares, name)
    with pytest.raises(CapabilityError, match="entropy has no closed form"):
        squares.entropy()


def test_what_messages_say_about_estimates_is_right() -> None:
    p = Transformed(Normal(0.0, 0.5), jnp.exp, jnp.log)
    exact = scipy.stats.lognorm(0.5)
    drawn = p.sample(KEY, 10_000)
    assert float(expect(p, lambda x: x, key=KEY).value) == pytest.approx(exact.mean(), rel=0.03)
    assert float(drawn.var(axis=0)) == pytest.approx(exact.var(), rel=0.15)
    assert float(jnp.cov(drawn.T)) == pytest.approx(exact.var(), rel=0.15)
    assert float(-p.log_prob(drawn).mean(axis=0)) == pytest.approx(exact.entropy(), rel=0.03)


def test_singular_normals_draw_and_score_on_their_support() -> None:
    line = MultivariateNormal([1.0, 2.0], [[1.0, 2.0], [2.0, 4.0]])
    drawn = np.asarray(line.sample(KEY, 500))
    np.testing.assert_allclose(drawn[:, 1] - 2, 2 * (drawn[:, 0] - 1), atol=1e-12)
    along = scipy.stats.norm(0, np.sqrt(5)).logpdf(np.sqrt(5) * (drawn[:, 0] - 1))
    np.testing.assert_allclose(line.log_prob_on_support(drawn), along)
    assert float(line.log_prob_on_support([1.0, 3.0])) == -np.inf
    point = MultivariateNormal([1.0, 2.0], np.zeros((2, 2)))
    assert float(point.log_prob_on_support([1.0, 2.0])) == 0
    assert point.sample(KEY).tolist() == [1.0, 2.0]
    compiled = jax.jit(
        lambda c: MultivariateNormal(jnp.zeros(2), Eigen.of(c)).log_prob_on_support(jnp.ones(2))
    )
    assert float(compiled(jnp.ones((2, 2)))) == pytest.approx(
        scipy.stats.norm(0, np.sqrt(2)).logpdf(np.sqrt(2))
    )


def test_low_rank_covariances_never_need_the_matrix() -> None:
    random = np.random.default_rng(0)
    factor, variances, x = (
        random.normal(size=(2, 5, 2)),
        random.uniform(0.5, 2, (2, 5)),
        random.normal(size=(3, 2, 5)),
    )
    low = MultivariateNormal(np.zeros(5), LowRank(factor, variances))
    full = MultivariateNormal(np.zeros(5), factor @ factor.swapaxes(1, 2) + np.eye(5) * variances[:, None])
    np.testing.assert_allclose(low.log_prob(x), full.log_prob(x))
    np.testing.assert_allclose(low.entropy(), full.entropy())
    np.testing.assert_allclose(low.covariance, full.covariance)
    np.testing.assert_allclose(low.variance, full.variance)
    drawn = np.asarray(low.sample(KEY, 20_000))[:, 0]
    np.testing.assert_allclose(np.cov(drawn.T), full.covariance[0], atol=0.15)


def test_a_mixture_of_several_families() -> None:
    p = Mixture([0.25, 0.75], [Exponential(1.0), Normal(-1.0, 0.5)])
    x = np.array([-1.0, 0.5])
    wanted = 0.25 * scipy.stats.expon.pdf(x) + 0.75 * scipy.stats.norm(-1, 0.5).pdf(x)
    np.testing.assert_allclose(jnp.exp(p.log_prob(x)), wanted)
    np.testing.assert_allclose(p.responsibilities(x)[0], [0.0, 1.0])
    assert float(p.mean) == pytest.approx(-0.5)
    assert float(p.variance) == pytest.approx(0.25 * 1 + 0.75 * 0.25 + 0.25 * 0.75 * 4)

    def cdf(v: np.ndarray) -> np.ndarray:
        return 0.25 * scipy.stats.expon.cdf(v) + 0.75 * scipy.stats.norm(-1, 0.5).cdf(v)

    assert scipy.stats.kstest(np.asarray(p.sample(KEY, 2000)), cdf).pvalue > 1e-3
    assert np.asarray(p.support.contains(x)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Discretized(Uniform(), [0.0, 1.0]), "give a Normal or a Logistic"),
        (lambda: Discretized(Normal(), [0.0]), "values need the shape"),
        (lambda: Discretized(Normal(), [0.0, 0.0]), "values increase"),
        (lambda: Empirical([]), "points need the shape"),
        (lambda: Empirical([1.0, 2.0], [0.5, 0.25, 0.25]), "do not fit weights"),
        (lambda: Independent(Normal()), "has 0 axes"),
        (lambda: Transformed(Normal(), jnp.exp, log_det=lambda x: x), "give inverse="),
        (lambda: expect(Gamma(1.0), lambda x: x), r"give key="),
        (lambda: expect(Gamma(1.0), lambda x: x, method="quadrature"), 'method="auto"'),
        (lambda: Uniform(1.0, 1.0), "high - low is 0"),
    ],
)
def test_bad_arguments_are_named(make, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_expectations_say_how_they_were_found() -> None:
    assert float(expect(Bernoulli([0.25, 0.5]), lambda x: 3 * x).value[1]) == 1.5
    moments = expect(Normal(np.array([0.0, 1.0]), 1.0), lambda x: jnp.stack([x**2, jnp.cos(x)]))
    np.testing.assert_allclose(moments.value, [[1, np.exp(-0.5)], [2, np.cos(1) * np.exp(-0.5)]], rtol=1e-12)
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    found = expect(MultivariateNormal([0.0, 0.0], covariance), lambda x: x[0] ** 3 * x[1] ** 3)
    assert found.method == "quadrature"
    assert float(found.value) == pytest.approx(6.696, rel=1e-12)
    drawn = expect(Gamma(3.0, 2.0), lambda x: x, key=KEY)
    assert drawn.method == "monte-carlo"
    assert abs(float(drawn.value) - 1.5) < 4 * float(drawn.standard_error)
    assert float(drawn.standard_error) == pytest.approx(np.sqrt(0.75) / 100, rel=0.1)


def test_components_of_any_make_keep_what_has_no_batch() -> None:
    """A mixture chooses among distributions that share a grid or a function."""
    images = Independent(Discretized(Normal(np.array([[0.0, 1.0], [3.0, 2.0]]), 0.01), np.arange(5.0)))
    drawn = np.asarray(Mixture([0.5, 0.5], images).sample(KEY, 50))
    assert {tuple(row) for row in drawn} == {(0.0, 1.0), (3.0, 2.0)}
    doubled = Transformed(Normal(np.array([0.0, 5.0]), 0.01), eqx.nn.Lambda(lambda x: 2 * x))
    assert set(np.asarray(Mixture([0.5, 0.5], doubled).sample(KEY, 50)).round()) == {0.0, 10.0}
    nested = Mixture(
        [0.5, 0.5], Mixture([0.5, 0.5], [Normal([0.0, 10.0], 0.01), Laplace([20.0, 30.0], 0.01)])
    )
    assert set(np.asarray(nested.sample(KEY, 80)).round()) == {0.0, 10.0, 20.0, 30.0}


def test_the_ends_of_an_interval_belong_to_it() -> None:
    low = np.random.default_rng(0).uniform(size=100)
    high = low + np.random.default_rng(1).uniform(size=100)
    assert np.isfinite(np.asarray(Uniform(low, high).log_prob(high))).all()


_REGULAR = [[2.0, 0.5], [0.5, 1.0]]


@pytest.mark.parametrize("covariance", [_REGULAR, np.array(_REGULAR), jnp.array(_REGULAR), jnp.ones((2, 2))])
def test_a_normal_of_known_covariance_is_made_inside_compiled_code(covariance: Any) -> None:
    def added(total: jax.Array) -> jax.Array:
        return total + MultivariateNormal(jnp.zeros(2), covariance).log_prob_on_support(jnp.ones(2))

    carried, _ = jax.lax.scan(lambda total, _: (added(total), None), jnp.zeros(()), length=2)
    np.testing.assert_allclose(carried, 2 * added(jnp.zeros(())), rtol=1e-5)
