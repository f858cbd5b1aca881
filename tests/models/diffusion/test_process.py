"""Processes, schedules, targets and the posterior: published numbers and exact identities."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.models.diffusion import posterior as step_back
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.process import (
    Level,
    Rectified,
    VarianceExploding,
    VariancePreserving,
    bridge,
    noised,
)
from chainrule.models.diffusion.targets import TARGETS, convert, error_ratio, truth
from chainrule.models.diffusion.tweedie import posterior_covariance
from chainrule.models.diffusion.weights import FOLLOWS, weights
from chainrule.probability.gaussian import linear_posterior


def test_the_linear_schedule_has_its_published_values() -> None:
    bar = schedules.linear().alpha_bar
    np.testing.assert_allclose(bar[[0, 499, 999]], [0.9999, 0.0785872, 4.03583e-5], rtol=2e-6)
    assert np.sqrt(1 / bar[-1] - 1) == pytest.approx(157.407, rel=1e-5)
    np.testing.assert_allclose(np.cumprod(schedules.linear().alpha), bar, rtol=1e-10)
    short = schedules.linear(50)
    assert 1 - short.alpha[-1] == pytest.approx(0.4, rel=1e-9)


def test_the_cosine_schedule_has_its_published_values() -> None:
    bar = schedules.cosine().alpha_bar
    np.testing.assert_allclose(bar[[0, 499, 998]], [0.9999587, 0.4938436, 2.42877e-6], rtol=2e-6)
    assert 1 - schedules.cosine().alpha[-1] == pytest.approx(0.999, rel=1e-9)


def test_continuous_schedules_have_their_published_values() -> None:
    assert float(schedules.VPLinear().level(1.0).a ** 2) == pytest.approx(4.31857e-5, rel=2e-6)
    found = schedules.grid(schedules.Karras(), 10).s
    expected = [80, 42.4152, 21.1087, 9.7232, 4.0661, 1.5017, 0.46998, 0.11664, 0.020435, 0.002, 0]
    np.testing.assert_allclose(found, expected, rtol=5e-5)
    ladder = schedules.grid(schedules.LogLinear(low=0.02, high=10), 5, clean=False).s
    np.testing.assert_allclose(ladder[1:] / ladder[:-1], (0.02 / 10) ** 0.25, rtol=1e-9)


@pytest.mark.parametrize("name", list(schedules.schedules))
def test_rates_are_the_derivatives_of_the_levels(name: str) -> None:
    schedule = schedules.schedule(name)
    t, h = jnp.array([0.2004, 0.5004, 0.9004]), 1e-7
    rates = schedule.rates(t)
    ahead, behind = schedule.level(t + h), schedule.level(t - h)
    np.testing.assert_allclose(rates.a, (ahead.a - behind.a) / (2 * h), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(rates.s, (ahead.s - behind.s) / (2 * h), rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(rates.lam, (ahead.lam - behind.lam) / (2 * h), rtol=1e-5)
    assert (rates.lam < 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.from_alpha_bar([0.9, 0.5, 0.6]), "index 2"),
        (lambda: schedules.from_beta([0.1, 1.2]), r"beta\[1\]=1.2"),
        (lambda: schedules.from_beta([]), "beta"),
        (lambda: schedules.from_sigma([0.1, -1.0]), r"sigma\[1\]"),
        (lambda: schedules.from_sigma([1.0, 0.1]), "index 1"),
        (lambda: schedules.linear(10), "at least 21"),
        (lambda: schedules.schedule("cosin"), "did you mean 'cosine'"),
        (lambda: schedules.schedule("karras", count=3), "karras"),
        (lambda: schedules.grid(schedules.cosine(), 0), "steps=0"),
        (lambda: schedules.grid(schedules.cosine(100), 101), "100 levels"),
        (lambda: schedules.grid(schedules.cosine(), 10, "even"), "uniform-t"),
    ],
    ids=range(11),
)
def test_impossible_schedules_and_grids_are_refused(make, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("spacing", schedules.SPACINGS)
def test_grids_run_from_the_noisiest_level_to_no_noise(spacing: str) -> None:
    table = schedules.cosine()
    levels = schedules.grid(table, 7, spacing)
    lams = np.asarray(Level(levels.a[:-1], levels.s[:-1]).lam)
    assert (np.diff(lams) > 0).all()
    np.testing.assert_allclose(lams[[0, -1]], table.lams[[-1, 0]], rtol=1e-9)
    assert (levels.a[-1], levels.s[-1]) == (1, 0)


def test_a_grid_of_all_levels_is_the_table_itself() -> None:
    table = schedules.linear()
    levels = schedules.grid(table, 1000, clean=False)
    np.testing.assert_allclose(levels.a**2, table.alpha_bar[::-1], rtol=1e-10)


@pytest.mark.parametrize("process", [VariancePreserving(), VarianceExploding(), Rectified()])
def test_processes_agree_on_the_signal_to_noise_ratio_and_are_bridged_exactly(process) -> None:
    lam = jnp.linspace(-12.0, 12.0, 9)
    level = process.level(lam)
    np.testing.assert_allclose(level.lam, lam, atol=1e-9)
    np.testing.assert_allclose(level.snr * level.sigma**2, 1, rtol=1e-12)
    x0, eps = jax.random.normal(jax.random.key(0), (2, 9, 3))
    x = noised(x0, eps, level)
    moved, there = bridge(x, level, VarianceExploding())
    np.testing.assert_allclose(moved, x0 + jnp.exp(-lam / 2)[:, None] * eps, rtol=1e-9, atol=1e-9)
    mixture = MixtureDenoiser([0.3, 0.7], [[-2.0, 0, 0], [1.0, 0, 0]], [0.25, 0.5])
    ratio = jnp.asarray(level.a)[:, None]
    np.testing.assert_allclose(
        mixture.predict(moved, there), ratio * mixture.predict(x, level), rtol=1e-8, atol=1e-10
    )


def test_every_target_converts_to_every_other_and_back() -> None:
    keys = jax.random.split(jax.random.key(1), 3)
    a, s = jax.random.uniform(keys[0], (2, 20), minval=0.1, maxval=2.0)
    level = Level(a, s)
    x0, eps = jax.random.normal(keys[1], (2, 20, 4))
    x = noised(x0, eps, level)
    for source in TARGETS:
        value = truth(source, x0, eps, level)
        for target in TARGETS:
            there = convert(value, source, target, x, level)
            np.testing.assert_allclose(there, truth(target, x0, eps, level), rtol=0, atol=1e-12)
            np.testing.assert_allclose(convert(there, target, source, x, level), value, rtol=0, atol=1e-12)


def test_errors_of_targets_have_the_stated_ratio() -> None:
    level = Level(jnp.array([0.6]), jnp.array([0.8]))
    x0, eps, off = jnp.ones((1, 2)), jnp.full((1, 2), 0.5), jnp.full((1, 2), 0.1)
    x = noised(x0, eps, level)
    for target in TARGETS:
        wrong = convert(eps + off, "eps", target, x, level) - truth(target, x0, eps, level)
        ratio = jnp.square(off).sum() / jnp.square(wrong).sum()
        assert float(error_ratio(target, level)[0]) == pytest.approx(float(ratio), rel=1e-9)


def test_conversions_that_divide_by_zero_are_refused() -> None:
    x = jnp.ones((1, 2))
    with pytest.raises(
        ArgumentError, match=r"target='eps' is undefined at alpha_bar=0[\s\S]*target='v' or 'x0'"
    ):
        convert(x, "eps", "x0", x, Level(0.0, 1.0))
    with pytest.raises(ArgumentError, match="without noise"):
        convert(x, "x0", "eps", x, Level(1.0, 0.0))
    np.testing.assert_allclose(convert(x, "v", "eps", x, Level(0.0, 1.0)), x)
    np.testing.assert_allclose(convert(x, "v", "x0", x, Level(0.0, 1.0)), -x)


def test_weights_are_those_of_the_literature() -> None:
    lam, rate = jnp.array([-3.0, 0.0, 4.0]), jnp.array([2.0, 3.0, 4.0])
    snr = np.exp(np.asarray(lam))
    assert np.array_equal(weights["simple"](lam, rate), weights["score"](lam, rate))
    np.testing.assert_allclose(weights["min-snr"](lam, rate), np.minimum(snr, 5) / snr)
    np.testing.assert_allclose(weights["bound"](lam, rate), rate / 2)
    level = VariancePreserving().level(lam)
    np.testing.assert_allclose(weights["velocity"](lam, rate) * error_ratio("v", level), 1, rtol=1e-12)


@pytest.mark.parametrize("noise", ["linear", "cosine", "rectified"])
def test_levels_drawn_evenly_give_the_mean_of_even_times_with_a_fraction_of_its_spread(noise: str) -> None:
    path = schedules.schedule(noise)

    def estimate(key: jax.Array, evenly_in_lam: bool) -> jax.Array:
        times, chance = schedules.drawn_times(path, 8, key, jnp.float64, evenly_in_lam=evenly_in_lam)
        lam, rate = path.lam(times), -path.rates(times).lam
        error = 1 / (1 + jnp.exp(-lam))  # that of eps, for normal data
        return (weights["bound"](lam, rate) / chance * error).mean()

    both = jax.jit(jax.vmap(lambda key: jnp.stack([estimate(key, way) for way in (False, True)])))
    even, drawn = np.asarray(both(jax.random.split(jax.random.key(0), 4000))).T
    error = np.hypot(even.std(), drawn.std()) / math.sqrt(len(even))
    assert abs(even.mean() - drawn.mean()) < 4 * error
    assert drawn.std() < even.std() / 2


@pytest.mark.parametrize("target", TARGETS)
def test_the_weight_that_follows_a_target_has_no_level_drown_the_others(target) -> None:
    lam = jnp.linspace(-19.8, 0, 20)  # to the noisy end of the cosine schedule
    level = VariancePreserving().level(lam)
    found = weights[FOLLOWS[target]](lam, jnp.ones_like(lam)) * error_ratio(target, level)
    assert float(found.max()) <= 4.01


def test_the_mixture_denoiser_has_the_numbers_of_quadrature() -> None:
    mixture = MixtureDenoiser([0.3, 0.7], [[-2.0], [1.0]], [0.25, 0.25])
    y, level = jnp.array([[0.2]]), Level(1.0, 0.5)
    estimate = mixture.estimate(y, level)
    assert float(mixture.predict(y, level)[0, 0]) == pytest.approx(1.561686, abs=1e-6)
    assert float(estimate.x0[0, 0]) == pytest.approx(0.590422, abs=1e-6)
    assert float(estimate.eps[0, 0]) == pytest.approx(-0.780843, abs=1e-6)
    assert float(mixture.covariance(y, level)[0, 0, 0]) == pytest.approx(0.139276, abs=1e-6)
    assert float(posterior_covariance(mixture, y, level)[0, 0, 0]) == pytest.approx(0.139276, abs=1e-6)


def test_scores_and_covariances_of_a_mixture_are_derivatives_of_its_density() -> None:
    noise = np.random.default_rng(0)
    root = noise.normal(size=(2, 3, 3))
    mixture = MixtureDenoiser(
        [1, 2], noise.normal(size=(2, 3)), root @ root.transpose(0, 2, 1), labels=[0, 1]
    )
    x, level = jnp.asarray(noise.normal(size=(5, 3))), Level(jnp.full(5, 0.7), jnp.linspace(0.2, 1, 5))
    slope = jax.grad(lambda x: mixture.log_density(x, level).sum())(x)
    np.testing.assert_allclose(mixture.predict(x, level), slope, atol=1e-10)
    np.testing.assert_allclose(
        mixture.covariance(x, level), posterior_covariance(mixture, x, level), atol=1e-10
    )
    one = jnp.ones(5, int)
    logs = mixture.log_density(x, level, one) + np.log(2 / 3) - mixture.log_density(x, level)
    np.testing.assert_allclose(mixture.class_log_prob(x, level, one), logs, atol=1e-10)
    np.testing.assert_allclose(mixture.shares(x, level)[:, 1], np.exp(logs), atol=1e-10)


def test_the_posterior_is_that_of_bayes_and_its_mean_has_three_forms() -> None:
    table = schedules.linear()
    bar, alpha = table.alpha_bar, table.alpha[499]
    here, there = (Level(np.sqrt(bar[i]), np.sqrt(1 - bar[i])) for i in (499, 498))
    x, x0 = jnp.array([[0.3]]), jnp.array([[-0.7]])
    mean, variance = step_back.posterior(x, x0, here, there)
    assert float(variance) == pytest.approx(0.01003136, rel=1e-6)
    one = jnp.ones((1, 1))
    bayes_mean, bayes_cov = linear_posterior(
        there.a * x0[0], one / (1 - bar[498]), np.sqrt(alpha) * one, jnp.zeros(1), one / (1 - alpha), x[0]
    )
    np.testing.assert_allclose([mean[0, 0], variance], [bayes_mean[0], bayes_cov[0, 0]], rtol=1e-12)
    eps = convert(x0, "x0", "eps", x, here)
    np.testing.assert_allclose(step_back.mean_from_eps(x, eps, here, there), mean, rtol=1e-12)
    np.testing.assert_allclose(step_back.mean_from_score(x, -eps / here.s, here, there), mean, rtol=1e-12)
    snr = bar / (1 - bar)
    found = [
        0.5 * (snr[498] - snr[499]),
        0.5 * (snr[498] / snr[499] - 1),
        (1 - alpha) ** 2 / (2 * float(variance) * alpha),
    ]
    np.testing.assert_allclose(found, [4.69794e-4, 5.50820e-3, 5.07532e-3], rtol=2e-6)


def test_a_mixture_needs_weights_and_variances_that_make_sense() -> None:
    with pytest.raises(ArgumentError, match="2 components need 2 positive weights"):
        MixtureDenoiser([1.0], [[0.0], [1.0]], [1, 1])
    with pytest.raises(ArgumentError, match="negative eigenvalue"):
        MixtureDenoiser([1.0], [[0.0]], [[[-1.0]]])
    with pytest.raises(ArgumentError, match="no labels"):
        MixtureDenoiser([1.0], [[0.0]], [1.0]).predict(jnp.zeros((1, 1)), Level(1.0, 1.0), 0)
