"""AR(p) against closed forms, SciPy and statsmodels."""

from collections.abc import Callable
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Schema
from chainrule.models.autoregressive.ar import AR, ARProcess, fit
from chainrule.models.autoregressive.ar.process import partial_autocorrelations, predictors

SERIES = jnp.array([[1.0, 0.5, -0.2]])


@pytest.fixture(scope="module")
def cubic() -> ARProcess:
    """A stationary process of order three."""
    return ARProcess(0.7, predictors(jnp.array([0.6, -0.5, 0.3])).weights[-1], 0.4)


def test_likelihoods_of_the_first_order_are_the_known_numbers() -> None:
    process = ARProcess(0.0, [0.8], 1.0)
    for start, expected in (("given", -2.062877), ("stationary", -3.672641), ("noise", -3.481816)):
        assert abs(float(process.log_prob(SERIES, start)[0]) - expected) < 1e-6, start
    assert abs(float(process.variances(3, "noise")[-1]) - 2.0496) < 1e-10
    assert abs(float(process.variances(3)[-1]) - 2.777778) < 1e-6
    assert np.allclose(process.autocovariances(4), 0.8 ** np.arange(5) / 0.36)


def test_the_stationary_likelihood_is_that_of_one_large_gaussian(cubic: ARProcess) -> None:
    x = np.random.default_rng(0).normal(size=(3, 9))
    covariance = scipy.linalg.toeplitz(cubic.autocovariances(8))
    distribution = scipy.stats.multivariate_normal(np.full(9, 0.7), covariance)
    assert np.allclose(cubic.log_prob(jnp.asarray(x)), distribution.logpdf(x), atol=1e-10)
    short = scipy.stats.multivariate_normal(np.full(2, 0.7), covariance[:2, :2])
    assert np.allclose(cubic.log_prob(jnp.asarray(x[:, :2])), short.logpdf(x[:, :2]), atol=1e-10)


def test_autocovariances_solve_the_yule_walker_equations(cubic: ARProcess) -> None:
    gamma = np.asarray(cubic.autocovariances(6))
    a = np.asarray(cubic.coefficients)
    for k in range(1, 7):
        assert np.isclose(gamma[k], sum(a[j] * gamma[abs(k - 1 - j)] for j in range(3)))
    assert np.isclose(gamma[0], a @ gamma[1:4] + 0.4)


def test_partial_autocorrelations_and_coefficients_are_two_names_of_one_thing(cubic: ARProcess) -> None:
    assert np.allclose(partial_autocorrelations(cubic.coefficients), [0.6, -0.5, 0.3])


def test_stationary_is_what_has_its_roots_outside_the_unit_circle(cubic: ARProcess) -> None:
    assert cubic.is_stationary
    assert (np.abs(cubic.roots()) > 1).all()
    walk = ARProcess(0.0, [1.0], 1.0)
    assert not walk.is_stationary
    for ask in (lambda: walk.log_prob(SERIES), lambda: walk.autocovariances(1), lambda: walk.variances(2)):
        with pytest.raises(ArgumentError, match=r"no stationary distribution.*\n.*use start='noise'"):
            ask()
    assert np.isfinite(walk.log_prob(SERIES, "noise")).all()
    assert walk.variances(4, "noise").tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("start", ["stationary", "noise"])
def test_samples_have_the_variances_of_their_start(cubic: ARProcess, start: str) -> None:
    x = np.asarray(cubic.sample(jax.random.key(0), 20_000, 6, start))
    expected = np.asarray(cubic.variances(6, start))
    assert (np.abs(x.var(axis=0) / expected - 1) < 5 * np.sqrt(2 / 20_000)).all()
    assert (np.abs(x.mean(axis=0) - 0.7) < 5 * np.sqrt(expected / 20_000)).all()


def test_a_forecast_is_the_mean_of_what_can_follow(cubic: ARProcess) -> None:
    history = jnp.array([[0.1, 2.0, -0.3, 1.1]])
    found = cubic.forecast(history, 5, level=0.9)
    many = np.asarray(
        cubic.sample(jax.random.key(1), 40_000, 5, "given", jnp.repeat(history, 40_000, axis=0))
    )
    assert (np.abs(many.mean(axis=0) - found.mean[0]) < 5 * found.std[0] / 200).all()
    inside = ((many > found.low) & (many < found.high)).mean(axis=0)
    assert (np.abs(inside - 0.9) < 0.01).all()
    assert found.truncated
    assert not cubic.forecast(history[:, :3], 1).truncated
    with pytest.raises(ArgumentError, match="a history of 2 values: order 3 looks back on 3"):
        cubic.forecast(history[:, :2], 1)
    with pytest.raises(ArgumentError, match="level must lie between 0 and 1"):
        cubic.forecast(history, 1, level=95)


def test_every_method_finds_the_process_that_made_the_series(cubic: ARProcess) -> None:
    x = np.asarray(cubic.sample(jax.random.key(2), 1, 20_000))[0]
    for method in ("least-squares", "yule-walker", "likelihood"):
        found = fit(x, 3, method)
        assert np.allclose(found.coefficients, cubic.coefficients, atol=0.04), method
        assert abs(float(found.variance) - 0.4) < 0.02


def test_nothing_near_it_is_likelier_than_the_maximum_likelihood_process(cubic: ARProcess) -> None:
    x = cubic.sample(jax.random.key(3), 4, 40)
    found = fit(np.asarray(x), 3, "likelihood")
    best = float(found.log_prob(x).sum())
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, m, v = rng.normal(size=3), rng.normal(), rng.normal()
        near = ARProcess(
            found.mean + 1e-3 * m, found.coefficients + 1e-3 * a, found.variance * (1 + 1e-3 * v)
        )
        assert float(near.log_prob(x).sum()) < best


@pytest.mark.filterwarnings("ignore:yule_walker currently returns:FutureWarning")
def test_fits_agree_with_statsmodels(cubic: ARProcess, oracle: Callable[[str], ModuleType]) -> None:
    x = np.asarray(cubic.sample(jax.random.key(4), 1, 400))[0]
    auto = oracle("statsmodels.tsa.ar_model").AutoReg(x, 3).fit()
    ours = fit(x, 3)
    assert np.allclose(ours.coefficients, auto.params[1:], atol=1e-8)
    assert np.isclose(ours.mean * (1 - ours.coefficients.sum()), auto.params[0], atol=1e-8)
    a, sigma = oracle("statsmodels.regression.linear_model").yule_walker(x, 3, method="mle")[:2]
    assert np.allclose(fit(x, 3, "yule-walker").coefficients, a, atol=1e-8)
    assert np.isclose(fit(x, 3, "yule-walker").variance, sigma**2, atol=1e-8)
    exact = oracle("statsmodels.tsa.arima.model").ARIMA(x, order=(3, 0, 0)).fit()
    likely = fit(x, 3, "likelihood")
    assert np.isclose(float(likely.log_prob(jnp.asarray(x[None]))[0]), exact.llf, atol=1e-3)
    assert np.allclose(likely.coefficients, exact.params[1:4], atol=1e-3)
    ahead = exact.get_forecast(6)
    at_theirs = ARProcess(exact.params[0], exact.params[1:4], exact.params[4])
    found = at_theirs.forecast(jnp.asarray(x[None]), 6)
    assert np.allclose(found.mean[0], ahead.predicted_mean, atol=1e-8)
    assert np.allclose(np.stack([found.low[0], found.high[0]], axis=1), ahead.conf_int(alpha=0.05), atol=1e-6)


def test_series_that_are_too_short_or_constant_are_refused() -> None:
    with pytest.raises(ArgumentError, match="a series of 6 values fits orders from 1 to 2"):
        fit(np.arange(6.0), 3)
    with pytest.raises(ArgumentError, match="the series is constant"):
        fit(np.ones(9), 2, "yule-walker")


def test_the_model_is_built_for_one_number_in_time() -> None:
    with pytest.raises(CapabilityError, match="these sequences have 2"):
        cr.models.build("ar", Schema("sequence", (8, 2)))
    with pytest.raises(ArgumentError, match="sequences of 2 steps fit orders below 2"):
        cr.models.build("ar", Schema("sequence", (2, 1)))


@pytest.mark.parametrize("start", ["stationary", "noise", "given"])
def test_the_model_scores_samples_and_forecasts_like_its_process(start: str) -> None:
    model = cr.models.build("ar", Schema("sequence", (8, 1)), order=2, start=start)
    assert isinstance(model, AR)
    model = jax.tree.map(lambda leaf: leaf + 0.3, model)
    x = model.sample(jax.random.key(0), 3)
    assert x.shape == (3, 8, 1)
    assert model.sample(jax.random.key(0), 2, length=1).shape == (2, 1, 1)
    log_prob = np.asarray(eqx.filter_jit(model.log_prob)(x))
    assert np.allclose(log_prob, model.process.log_prob(x[..., 0], start))
    scored = 6 if start == "given" else 8
    loss, _ = eqx.filter_jit(model.loss)(cr.data.Batch(x), jax.random.key(0))
    assert np.isclose(loss, -log_prob.mean() / scored)
    assert model.forecast(x, 4).mean.shape == (3, 4)


def test_pictures_compare_the_process_with_the_data() -> None:
    data = cr.data.load("cycles", n=60)
    model = cr.models.build("ar", data)
    assert isinstance(model, AR)
    pictures = {picture.name: picture for picture in model.pictures(data, jax.random.key(0))}
    assert set(pictures) == {"autocorrelation", "stationarity", "forecast", "coefficients", "roots"}
    curve = pictures["autocorrelation"].series["the process"][1]
    assert np.allclose(curve, np.eye(len(curve))[0])  # a fresh model is white noise
    least_squares = pictures["coefficients"].rows[1]
    assert np.allclose(least_squares[1:3], [1.6454, -0.9025], atol=0.03)
