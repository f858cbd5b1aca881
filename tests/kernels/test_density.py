"""Kernel density estimates against SciPy, scikit-learn and numerical integration; widths that data choose; draws."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats
from sklearn.neighbors import KernelDensity as Theirs

from chainrule.core.errors import ArgumentError, DataError
from chainrule.kernels import density
from chainrule.kernels.bumps import BUMPS
from chainrule.kernels.density import KernelDensity, factor_of, search_width, width_profile

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.5]])
NEW = RNG.normal(size=(20, 3))
NAMES = {"gaussian": "gaussian", "epanechnikov": "epanechnikov", "uniform": "tophat", "triangular": "linear"}
NAMES["exponential"] = "exponential"


@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_rules_of_thumb_are_those_of_scipy(rule) -> None:
    theirs = stats.gaussian_kde(X.T, rule)
    np.testing.assert_allclose(KernelDensity(rule).fit(X).log_prob(NEW), theirs.logpdf(NEW.T), rtol=1e-9)
    assert factor_of(rule, 80, 3) == pytest.approx(theirs.factor)


@pytest.mark.parametrize("bump", list(BUMPS))
def test_bumps_are_those_of_scikit_learn(bump) -> None:
    ours = KernelDensity(1.7, "sphere", bump).fit(X).log_prob(NEW)
    theirs = Theirs(bandwidth=1.7, kernel=NAMES[bump]).fit(X).score_samples(NEW)
    near = np.isfinite(ours)
    np.testing.assert_allclose(ours[near], theirs[near], rtol=1e-9)
    assert (theirs[~near] < -1e6).all()


@pytest.mark.parametrize("bump", list(BUMPS))
def test_densities_integrate_to_one(bump) -> None:
    estimate = KernelDensity(0.5, "sphere", bump).fit([0.0, 2.0])
    middles = np.arange(-12, 14, 0.005) + 0.0025
    assert np.exp(estimate.log_prob(middles)).sum() * 0.005 == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("bump", list(BUMPS))
@pytest.mark.parametrize("features", [1, 3])
def test_draws_have_the_density_of_the_bump(bump, features) -> None:
    lengths = np.linalg.norm(BUMPS[bump].draw(jax.random.key(0), 2000, features), axis=1)
    r = np.linspace(1e-6, 14 if bump in ("gaussian", "exponential") else 1 - 1e-9, 8001)
    values = np.exp(np.asarray(BUMPS[bump].log_value(jnp.asarray(r**2), features)))
    surface = 2 * math.pi ** (features / 2) / math.gamma(features / 2)
    shares = integrate.cumulative_trapezoid(values * surface * r ** (features - 1), r, initial=0)
    assert shares[-1] == pytest.approx(1, abs=2e-3)
    assert stats.kstest(lengths, lambda at: np.interp(at, r, shares)).pvalue > 1e-3


def test_samples_have_the_mean_and_spread_of_the_estimate() -> None:
    estimate = KernelDensity().fit(X)
    drawn = np.asarray(estimate.sample(jax.random.key(1), 20_000))
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.06)
    expected = np.cov(X.T, ddof=0) + estimate.lower @ estimate.lower.T
    np.testing.assert_allclose(np.cov(drawn.T), expected, atol=0.15)
    columns = KernelDensity(0.5, "columns").fit(X)
    drawn = np.asarray(columns.sample(jax.random.key(1), 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), X.var(axis=0) + columns.lower**2, rtol=0.05)


def test_columns_have_widths_of_their_own() -> None:
    wide = KernelDensity(0.4, "columns").fit(X * [1, 10, 100])
    plain = KernelDensity(0.4, "columns").fit(X)
    np.testing.assert_allclose(
        wide.log_prob(NEW * [1, 10, 100]) + math.log(1000), plain.log_prob(NEW), rtol=1e-9
    )


def test_the_profile_of_widths_is_the_mean_log_density_without_each_point() -> None:
    found = width_profile(X, np.eye(3), [0.5, 1.0])
    for factor, value in zip((0.5, 1.0), found, strict=True):
        squares = np.square(X[:, None] - X[None]).sum(axis=-1) / factor**2
        others = squares[~np.eye(80, dtype=bool)].reshape(80, 79)
        logs = (
            special.logsumexp(-0.5 * others, axis=1) - math.log(79) - 1.5 * math.log(2 * math.pi * factor**2)
        )
        assert value == pytest.approx(logs.mean())
    held = width_profile(X, 2 * np.eye(3), [0.25], held=NEW)
    assert held[0] == pytest.approx(KernelDensity(0.5, "sphere").fit(X).log_prob(NEW).mean())


def test_the_width_that_data_choose_is_the_best_of_its_neighbours() -> None:
    unit = np.linalg.cholesky(np.cov(X.T))
    best = search_width(X, unit)
    at, *others = width_profile(X, unit, best * np.array([1.0, 0.9, 1.1, 0.5, 2.0]))
    assert (at > np.array(others)).all()
    assert best == pytest.approx(factor_of("scott", 80, 3), rel=0.3)  # these are normal data
    fitted = KernelDensity("leave-one-out").fit(X)
    np.testing.assert_allclose(fitted.lower, best * unit, rtol=1e-12)
    two = np.concatenate([RNG.normal(-10, 0.5, 100), RNG.normal(10, 0.5, 100)])
    narrow, thumb = (KernelDensity(w).fit(two).lower.item() for w in ("leave-one-out", "scott"))
    assert narrow < 0.2 * thumb


def test_tiles_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    x, new = X[:41], NEW[:17]
    whole = KernelDensity().fit(x).log_prob(new), width_profile(x, np.eye(3), [0.5])
    monkeypatch.setattr(density, "TILE", 41 * 5)
    jax.clear_caches()
    parts = KernelDensity().fit(x).log_prob(new), width_profile(x, np.eye(3), [0.5])
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("bump", ["gaussian", "triangular", "exponential"])
def test_derivatives_are_those_of_differences_and_finite_at_the_points(bump) -> None:
    estimate = KernelDensity(1.5, "sphere", bump).fit(X)
    slope = jax.jit(jax.grad(lambda x: estimate.log_prob(x).sum()))
    at, step = X[:5] + 0.01, 1e-6 * RNG.normal(size=(5, 3))
    change = estimate.log_prob(at + step).sum() - estimate.log_prob(at - step).sum()
    assert float((np.asarray(slope(jnp.asarray(at))) * step).sum()) == pytest.approx(change / 2, rel=1e-5)
    assert np.isfinite(slope(jnp.asarray(X[:5]))).all()


def test_estimates_can_be_compiled_in_single_precision() -> None:
    with jax.enable_x64(False):
        estimate = KernelDensity().fit(X)
        logs = eqx.filter_jit(estimate.log_prob)(NEW.astype(np.float32))
        assert logs.dtype == np.float32
        assert estimate.sample(jax.random.key(0), 2).dtype == np.float32
    np.testing.assert_allclose(logs, estimate.log_prob(NEW), rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: KernelDensity(0.0), "width must be positive and finite"),
        (lambda: KernelDensity("wide"), 'width must be "scott", "silverman" or "leave-one-out"'),
        (lambda: KernelDensity(shape="cube"), 'shape must be "covariance", "columns" or "sphere"'),
        (lambda: KernelDensity(bump="spike"), "bump must be"),
        (lambda: KernelDensity().fit(X[:1]), "one point has no spread"),
        (lambda: KernelDensity(shape="columns").fit(X * [1, 0, 1]), "column 1 is constant"),
        (lambda: KernelDensity().fit(X[:3]), 'singular, .*\n.*shape="columns"'),
        (lambda: KernelDensity(shape="sphere").fit(np.ones((4, 2))), "all rows are the same"),
        (lambda: KernelDensity("leave-one-out").fit(np.repeat(X, 2, axis=0)), "rows that occur twice"),
        (lambda: KernelDensity().fit(np.zeros((0, 2))), "a density needs points"),
        (lambda: KernelDensity().fit(X).log_prob(NEW[:, :2]), "2 features, the density is one of 3"),
        (lambda: KernelDensity().fit([np.nan, 1.0]), "row 0, column 0 is nan"),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises((ArgumentError, DataError), match=words):
        call()


def test_remedies_work() -> None:
    assert np.isfinite(KernelDensity(width=0.5, shape="sphere").fit(X[:1]).log_prob(X[:1])).all()
    assert np.isfinite(KernelDensity(shape="columns").fit(X[:3]).log_prob(NEW)).all()
    assert np.isfinite(KernelDensity(0.5, shape="sphere").fit(X * [1, 0, 1]).log_prob(NEW)).all()
