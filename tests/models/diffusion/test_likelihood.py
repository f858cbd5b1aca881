"""Bounds, likelihoods and score matching against closed forms and quadrature."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from chainrule.core.errors import ArgumentError
from chainrule.models.diffusion import bounds, matching, schedules
from chainrule.models.diffusion.chain import chain_terms
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.likelihood import flow_log_prob
from chainrule.models.diffusion.posterior import posterior
from chainrule.models.diffusion.process import Level, VarianceExploding, VariancePreserving

KEY = jax.random.key(5)
VP, VE = VariancePreserving(), VarianceExploding()
# For a linear denoiser squared errors are quadratic in (x0, eps): four points with the right moments average exactly.


def signs() -> jax.Array:
    return jnp.array([[1.0], [1.0], [-1.0], [-1.0]])


def other() -> jax.Array:
    return jnp.array([[1.0], [-1.0], [1.0], [-1.0]])


@pytest.fixture(scope="module")
def narrow() -> MixtureDenoiser:
    return MixtureDenoiser([1.0], [[0.0]], [0.25])


def _ladder(lams: np.ndarray) -> Level:
    return Level(*(jnp.asarray(part) for part in VP.level(jnp.asarray(lams))))


def test_the_continuous_bound_of_a_gaussian_is_its_entropy_and_a_little(narrow: MixtureDenoiser) -> None:
    x0 = 0.5 * signs()
    nodes, weights = np.polynomial.legendre.leggauss(60)
    errors = jax.vmap(
        lambda lam: bounds.continuous_term(narrow, x0, other()[None], jnp.full((1, 4), lam), VP, 1.0).mean()
    )(jnp.asarray(10 * nodes))
    diffusion = 10 * float((errors * weights).sum())
    prior = float(bounds.prior_term(x0, VP.level(jnp.array(-10.0)), VP).mean())
    rebuilt = float(bounds.gaussian_reconstruction(x0, VP.level(jnp.array(10.0))).mean())
    assert prior == pytest.approx(5.675e-6, rel=1e-3)
    assert diffusion == pytest.approx(4.306938, abs=1e-6)
    assert rebuilt == pytest.approx(-3.581061, abs=1e-6)


@pytest.mark.parametrize(("count", "gap"), [(100, 0.4100), (1000, 0.03844), (10_000, 0.00390)])
def test_the_discrete_bound_closes_with_the_number_of_levels(
    narrow: MixtureDenoiser, count: int, gap: float
) -> None:
    x0 = 0.5 * signs()
    levels = _ladder(np.linspace(10, -10, count))
    eps = jnp.broadcast_to(other()[None], (count - 1, 4, 1))
    diffusion = float(bounds.step_terms(narrow, x0, eps, levels).sum(axis=0).mean())
    prior = float(bounds.prior_term(x0, levels.at(-1), VP).mean())
    rebuilt = float(bounds.gaussian_reconstruction(x0, levels.at(0)).mean())
    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.25)
    assert entropy == pytest.approx(0.725791, abs=1e-6)
    assert prior + diffusion + rebuilt - entropy == pytest.approx(gap, rel=2e-3)


def test_the_prior_of_each_process_is_the_distribution_its_samplers_start_from() -> None:
    x0 = jnp.array([[0.5, -2.0]])
    exploding = bounds.prior_term(x0, Level(1.0, 50.0), VE)
    assert float(exploding[0]) == pytest.approx(4.25 / (2 * 50**2), rel=1e-12)
    bar = 0.01
    preserving = bounds.prior_term(x0, Level(math.sqrt(bar), math.sqrt(1 - bar)), VP)
    by_hand = 0.5 * (bar * 4.25 - 2 * bar - 2 * math.log(1 - bar))
    assert float(preserving[0]) == pytest.approx(by_hand, rel=1e-9)


def test_a_few_random_steps_estimate_all_of_them_without_bias(narrow: MixtureDenoiser) -> None:
    x0 = 0.5 * jnp.ones((2000, 1))
    levels = _ladder(np.linspace(5, -5, 11))
    whole = bounds.diffusion_term(narrow, x0, KEY, levels)
    keys = jax.random.split(KEY, 200)
    some = jax.jit(jax.vmap(lambda key: bounds.diffusion_term(narrow, x0[:10], key, levels, draws=3).mean()))(
        keys
    )
    error = float(some.std()) / math.sqrt(len(some))
    assert float(some.mean()) == pytest.approx(float(whole.mean()), abs=4 * error)
    # The examples of one estimate are independent, so that their spread tells its standard error.
    each = jax.jit(jax.vmap(lambda key: bounds.diffusion_term(narrow, x0[:50], key, levels, draws=1)))(keys)
    said = float(each.std(axis=1).mean()) / math.sqrt(50)
    assert float(each.mean(axis=1).std()) == pytest.approx(said, rel=0.2)
    with pytest.raises(ArgumentError, match="draws=11"):
        bounds.diffusion_term(narrow, x0, KEY, levels, draws=11)


def test_terms_by_noise_are_terms_by_data_and_divergences_of_gaussians(narrow: MixtureDenoiser) -> None:
    x0, eps = jnp.array([[0.7]]), jnp.array([[-0.4]])
    levels = _ladder(np.array([1.0, 0.2]))
    found = float(bounds.step_terms(narrow, x0, eps[None], levels)[0, 0])
    cleaner, here = levels.at(0), levels.at(1)
    x = here.a * x0 + here.s * eps
    guess = narrow.value("x0", x, here)
    by_data = 0.5 * (cleaner.snr - here.snr) * jnp.square(guess - x0).sum()
    (mean, variance), (other, _) = (posterior(x, clean, here, cleaner) for clean in (x0, guess))
    assert found == pytest.approx(float(by_data), rel=1e-10)
    assert found == pytest.approx(float((jnp.square(mean - other) / (2 * variance))[0, 0]), rel=1e-10)


class _Biased(Denoiser):
    """0.05 + 0.9 times the exact estimate for data of variance 1/4."""

    inner: MixtureDenoiser
    target: str = "x0"

    def predict(self, x, level, condition=None):
        return 0.05 + 0.9 * self.inner.value("x0", x, level)


def test_the_direct_and_the_divergence_form_of_the_bound_agree(narrow: MixtureDenoiser) -> None:
    bar = jnp.cumprod(jnp.array([0.9, 0.8, 0.7, 0.6, 0.3]))
    levels = Level(jnp.sqrt(bar), jnp.sqrt(1 - bar))
    model = _Biased(narrow)
    x0 = jnp.full((400_000, 1), 0.8)
    terms = chain_terms(model, x0, levels, KEY, process=VP, reconstruction_variance=0.02)
    direct = np.asarray(terms.sum(axis=0))
    x1 = levels.a[0] * x0 + levels.s[0] * jax.random.normal(KEY, x0.shape)
    rebuilt = stats.norm.logpdf(0.8, np.asarray(model.predict(x1, levels.at(0))), math.sqrt(0.02))[:, 0]
    steps = bounds.diffusion_term(model, x0, KEY, levels)
    matched = rebuilt - np.asarray(steps) - np.asarray(bounds.prior_term(x0, levels.at(-1), VP))
    for values in (direct, matched):
        error = values.std() / math.sqrt(len(values))
        assert error < 0.01
        assert values.mean() == pytest.approx(-3.05, abs=0.01 + 3 * error)
    assert len(terms) == 6


def test_probabilities_of_levels_sum_to_one() -> None:
    values = jnp.linspace(-1, 1, 17)
    z = jnp.full((17, 1), 0.31)
    index = jnp.arange(17)[:, None]
    cost = bounds.level_reconstruction(z, index, values, Level(0.9, 0.2))
    assert float(jnp.exp(-cost).sum()) == pytest.approx(1, abs=1e-12)
    assert float(bounds.bits_per_dim(jnp.array(0.0), 64, 17, density=True)) == pytest.approx(3.0875, abs=1e-4)
    with pytest.raises(ArgumentError, match="levels=0"):
        bounds.bits_per_dim(jnp.array(0.0), 64)


@pytest.fixture(scope="module")
def two() -> MixtureDenoiser:
    return MixtureDenoiser([0.2, 0.8], [[-4.0], [4.0]], [0.25, 0.25])


LAMS = (-2 * math.log(1e-3), -2 * math.log(50.0))


def test_the_flow_gives_the_density_and_says_what_the_prior_costs(two: MixtureDenoiser) -> None:
    x = jnp.array([[4.5]])
    top = Level(1.0, 50.0)
    exact = flow_log_prob(two, x, VE, LAMS, terminal=lambda z: two.log_density(z, top), tolerance=1e-7)
    assert float(exact.log_prob[0]) == pytest.approx(-0.94893, abs=2e-5)
    plain = flow_log_prob(two, x, VE, LAMS, tolerance=1e-7)
    assert float(plain.log_prob[0]) == pytest.approx(-1.00573, abs=2e-5)
    assert float(exact.prior_mismatch[0]) == pytest.approx(-1.00573 + 0.94893, abs=2e-5)
    assert float(exact.round_trip[0]) < 1e-4
    assert float(exact.stderr[0]) == 0
    fixed = flow_log_prob(two, x, VE, LAMS, steps=400)
    assert float(fixed.log_prob[0]) == pytest.approx(float(plain.log_prob[0]), abs=1e-4)
    assert fixed.evaluations == 1600


def test_another_solver_finds_the_same_code(two: MixtureDenoiser) -> None:
    found = flow_log_prob(two, jnp.array([[4.5]]), VE, LAMS, tolerance=1e-7)
    slope = jax.jit(
        lambda log_sigma, y: jnp.exp(log_sigma) * two.value("eps", y[None], Level(1.0, jnp.exp(log_sigma)))[0]
    )
    ends = (math.log(1e-3), math.log(50.0))
    peer = integrate.solve_ivp(lambda t, y: np.asarray(slope(t, y)), ends, [4.5], rtol=1e-8, atol=1e-8)
    assert float(found.noise[0, 0]) == pytest.approx(peer.y[0, -1], rel=1e-5)


@pytest.mark.slow  # an integral for each process
def test_densities_of_the_flow_integrate_to_one_whatever_the_process() -> None:
    mixture = MixtureDenoiser([1, 1], [[-1.0, 0.0], [1.0, 0.5]], [0.3, 0.2])
    axis = jnp.linspace(-5.0, 5.0, 41)
    points = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    top = VP.level(jnp.array(-9.0))
    found = flow_log_prob(
        mixture, points, VP, (8.0, -9.0), terminal=lambda z: mixture.log_density(z, top), steps=60
    )
    assert float(jnp.exp(found.log_prob).sum()) * 0.25**2 == pytest.approx(1, abs=1e-3)
    low = VP.level(jnp.array(8.0))
    inside = jnp.abs(points).max(axis=1) < 2
    np.testing.assert_allclose(found.log_prob[inside], mixture.log_density(points, low)[inside], atol=2e-3)


@pytest.mark.slow  # thousands of probes
def test_random_probes_agree_with_the_exact_divergence() -> None:
    root = np.random.default_rng(0).normal(size=(3, 3))
    mixture = MixtureDenoiser([1, 1], [[-1.0, 0, 0], [1.0, 0.5, 0]], np.stack([root @ root.T, np.eye(3)]))
    x = jnp.array([[0.3, -0.2, 0.5], [1.0, 1.0, 0.0]])
    exact = flow_log_prob(mixture, x, VP, (6.0, -9.0), steps=40)
    probed = flow_log_prob(mixture, x, VP, (6.0, -9.0), steps=40, probes=64, key=KEY)
    assert (probed.stderr > 0).all()
    assert (jnp.abs(probed.log_prob - exact.log_prob) < 3 * probed.stderr).all()
    with pytest.raises(ArgumentError, match="need a key"):
        flow_log_prob(mixture, x, VP, (6.0, -9.0), probes=2)
    with pytest.raises(ArgumentError, match="clean end"):
        flow_log_prob(mixture, x, VP, (-9.0, 6.0))


def test_implicit_score_matching_is_explicit_matching_up_to_a_constant() -> None:
    x = signs()  # mean square one, as of the standard normal distribution
    for slope in (0.5, 1.0, 1.7):
        found = float(matching.implicit_loss(lambda x, slope=slope: -slope * x, x))
        assert found == pytest.approx(-slope + slope**2 / 2, abs=1e-12)
        explicit = float(matching.explicit_loss(lambda x, slope=slope: -slope * x, lambda x: -x, x))
        assert found - explicit / 2 == pytest.approx(-0.5, abs=1e-12)
        sliced = float(matching.sliced_loss(lambda x, slope=slope: -slope * x, x, KEY, 4))
        assert sliced == pytest.approx(found, abs=1e-12)  # in one dimension signs are exact
        energy = matching.energy_score(lambda x, slope=slope: slope * jnp.square(x[:, 0]) / 2)
        assert float(matching.implicit_loss(energy, x)) == pytest.approx(found, abs=1e-12)


def test_denoising_differs_from_matching_the_noised_score_by_a_constant() -> None:
    sigma = 0.5
    exact = lambda x: -x / (1 + sigma**2)  # noqa: E731
    gaps = []
    for slope in (0.4, 0.8, 1.3):
        score = lambda x, slope=slope: -slope * x  # noqa: E731
        denoising = matching.denoising_loss(score, signs(), other(), sigma)
        explicit = matching.explicit_loss(score, exact, signs() + sigma * other())
        gaps.append(float(denoising - explicit))
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-12)


def test_noise_levels_that_cannot_teach_a_score_are_warned_about() -> None:
    x = np.linspace(0, 1, 11)[:, None]
    with pytest.warns(UserWarning, match="in the gaps"):
        matching.check_sigma(x, 0.005)
    with pytest.warns(UserWarning, match="little of them is left"):
        matching.check_sigma(x, 5.0)
    matching.check_sigma(x, 0.1)


def test_the_bound_depends_on_the_ends_of_the_schedule_only(narrow: MixtureDenoiser) -> None:
    x0 = 0.5 * signs()
    nodes, weights = np.polynomial.legendre.leggauss(200)
    totals = []
    for schedule in (schedules.LogSNRLinear(high=8.0, low=-8.0), _Bent()):
        t = jnp.asarray((nodes + 1) / 2)
        rate = -schedule.rates(t).lam
        errors = jax.vmap(
            lambda lam: bounds.continuous_term(
                narrow, x0, other()[None], jnp.full((1, 4), lam), VP, 1.0
            ).mean()
        )(schedule.lam(t))
        totals.append(float((errors * rate * weights).sum()) / 2)
    assert totals[0] == pytest.approx(totals[1], abs=1e-6)


class _Bent(schedules.Schedule):
    """From 8 to -8 on a curve."""

    process, first, count = VP, 0.0, None

    def lam(self, t):
        return 8 - 16 * (0.3 * t + 0.7 * jnp.square(t))
