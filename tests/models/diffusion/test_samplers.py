"""Samplers against exact denoisers: orders, families, guidance, inversion, and the rules all of them keep."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError, DivergedError
from chainrule.core.types import Array
from chainrule.models.diffusion import inversion, samplers, schedules
from chainrule.models.diffusion.denoiser import Denoiser, DenoiserEstimate
from chainrule.models.diffusion.denoisers.guided import ClassifierGuided, guided
from chainrule.models.diffusion.denoisers.learned_variance import divergence
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.process import Level, VarianceExploding, VariancePreserving, bridge
from chainrule.models.diffusion.samplers import (
    DDIM,
    Ancestral,
    AnnealedLangevin,
    DormandPrince,
    DPMSolver,
    DPMSolver2S,
    DPMSolver3M,
    DPMSolverSDE,
    EulerAncestral,
    GradientEstimation,
    Heun,
    NamedSampler,
    ReverseSDE,
    RungeKutta,
    SamplerStep,
    SigmaFamily,
    Span,
    UniPC,
    WatchedSampler,
    implied_eta,
    on_host,
    walk,
)
from chainrule.probability.monte_carlo.langevin import langevin
from chainrule.probability.samples import kernel_distance

KEY = jax.random.key(3)


@pytest.fixture(scope="module")
def narrow() -> MixtureDenoiser:
    return MixtureDenoiser([1.0], [[0.0]], [0.25])


@pytest.fixture(scope="module")
def two() -> MixtureDenoiser:
    """One mode in five at -4, the others at 4."""
    return MixtureDenoiser([0.2, 0.8], [[-4.0], [4.0]], [0.25, 0.25], labels=[0, 1])


@pytest.mark.parametrize(
    ("sampler", "errors"),
    [
        (DDIM(), (0.0415, 0.0210, 0.0105)),
        (GradientEstimation(2.0), (0.0370, 0.0198, 0.0103)),
        (GradientEstimation(1.5), (1.63e-3, 4.0e-4, 1.0e-4)),
        (Heun(), (3.24e-3, 7.97e-4, 1.98e-4)),
        (DPMSolver(), (3.33e-3, 8.05e-4, 1.98e-4)),
    ],
    ids=["ddim", "g=2", "g=1.5", "heun", "2m"],
)
def test_deterministic_samplers_converge_at_their_order(narrow: MixtureDenoiser, sampler, errors) -> None:
    exact = 10 * np.sqrt((0.25 + 0.01**2) / (0.25 + 10**2))
    for steps, error in zip((40, 80, 160), errors, strict=True):
        levels = schedules.grid(schedules.Karras(low=0.01, high=10), steps + 1, clean=False)
        found = float(walk(narrow, jnp.array([[10.0]]), levels, sampler, KEY).samples[0, 0])
        assert abs(found / exact - 1) == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize(
    ("sampler", "order"),
    [
        (DPMSolver2S(), 2),
        (DPMSolver3M(), 3),
        (DPMSolverSDE(eta=0.0), 2),
        (EulerAncestral(eta=0.0), 1),
        (UniPC(), 3),
        (UniPC(order=3), 4),
        (UniPC(correct=False), 2),
        (RungeKutta(), 2),
    ],
    ids=["2s", "3m", "sde", "euler", "unipc", "unipc-3", "unipc-p", "rk-2"],
)
def test_errors_fall_with_the_power_of_the_steps_that_a_sampler_promises(
    narrow: MixtureDenoiser, sampler, order: int
) -> None:
    exact = 10 * np.sqrt((0.25 + 0.01**2) / (0.25 + 10**2))
    errors = []
    for steps in (40, 80):
        levels = schedules.grid(schedules.Karras(low=0.01, high=10), steps + 1, clean=False)
        found = walk(narrow, jnp.array([[10.0]]), levels, sampler, KEY).samples
        errors.append(abs(float(found[0, 0]) / exact - 1))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


@pytest.mark.parametrize(("order", "steps"), [(2, 16), (3, 16), (4, 16), (5, 16)])
def test_runge_kutta_steps_on_straight_paths_are_of_their_order(
    narrow: MixtureDenoiser, order: int, steps: int
) -> None:
    """Down to no noise at all: N(0, 1/4) by the flow of straight paths is the noise halved."""
    path, x = schedules.RectifiedSchedule(), jnp.array([[1.3]])
    errors = []
    for count in (steps, 2 * steps):
        times = np.linspace(0.9, 0.1, count + 1)
        levels = path.level(jnp.asarray(times))
        found = walk(narrow, x, levels, RungeKutta(order=order).for_process(path.process), KEY).samples
        first, last = (np.sqrt(0.25 * (1 - t) ** 2 + t**2) for t in (0.9, 0.1))
        errors.append(abs(float(found[0, 0]) - 1.3 * last / first))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.4)


def test_adaptive_steps_keep_to_their_tolerance_from_one_end_to_the_other(narrow: MixtureDenoiser) -> None:
    path = schedules.RectifiedSchedule()
    levels = Level(np.array([0.1, 0.95]), np.array([0.9, 0.05]))
    exact = 1.3 * np.sqrt(0.25 * 0.95**2 + 0.05**2) / np.sqrt(0.25 * 0.1**2 + 0.9**2)
    for tolerance in (1e-3, 1e-6):
        sampler = DormandPrince(tolerance=tolerance).for_process(path.process)
        found = float(walk(narrow, jnp.array([[1.3]]), levels, sampler, KEY).samples[0, 0])
        assert found == pytest.approx(exact, abs=10 * tolerance)


def test_the_second_order_sde_has_the_spread_of_the_data_sooner_than_ancestral_sampling(
    narrow: MixtureDenoiser,
) -> None:
    start = np.sqrt(100.25) * jax.random.normal(KEY, (50_000, 1))
    errors: dict[str, list[float]] = {"dpm-solver-sde": [], "euler-ancestral": []}
    for steps in (20, 40):
        levels = schedules.grid(schedules.Karras(low=0.01, high=10), steps + 1, clean=False)
        for name, found in errors.items():
            drawn = walk(narrow, start, levels, samplers.sampler(name), KEY).samples
            found.append(abs(float(drawn.std()) / np.sqrt(0.2501) - 1))
    assert errors["dpm-solver-sde"][0] > 3 * errors["dpm-solver-sde"][1]
    assert errors["euler-ancestral"][1] > 5 * errors["dpm-solver-sde"][1]


@pytest.mark.parametrize("name", sorted(samplers.samplers))
def test_every_sampler_walks_the_rectified_path(narrow: MixtureDenoiser, name: str) -> None:
    path = schedules.RectifiedSchedule()
    levels = schedules.grid(path, 60)
    start = jax.random.normal(KEY, (400, 1)) * path.process.prior_std(levels.at(0))
    options = {"moves": 20} if name == "langevin" else {}
    sampler = samplers.sampler(name, **options).for_process(path.process)
    assert float(walk(narrow, start, levels, sampler, KEY).samples.std()) == pytest.approx(0.5, rel=0.12)


def test_churn_is_kept_to_its_limits_and_its_noise_has_its_size(narrow: MixtureDenoiser) -> None:
    x, key = jnp.array([[1.0]]), jax.random.key(0)
    here, there = Level(jnp.array(1.0), jnp.array(2.0)), Level(jnp.array(1.0), jnp.array(1.0))
    span = Span(here, there, jnp.array(0), jnp.array(10))

    def stirred(**limits: float) -> tuple[float, float]:
        moved, level = Heun(churn=1.0, **limits)._stirred(x, span, key)
        return float(moved[0, 0]) - 1, float(level.s)

    added, raised = stirred()
    assert raised == pytest.approx(2.2)
    assert stirred(churn_noise=1.5)[0] == pytest.approx(1.5 * added)
    for outside in ({"churn_min": 3.0}, {"churn_max": 1.0}):
        assert stirred(**outside) == pytest.approx((0, 2))


def test_adams_bashforth_is_of_second_order(narrow: MixtureDenoiser) -> None:
    exact = 10 * np.sqrt((0.25 + 0.01**2) / (0.25 + 10**2))
    errors = []
    for steps in (80, 160):
        levels = schedules.grid(schedules.Karras(low=0.01, high=10), steps + 1, clean=False)
        found = walk(narrow, jnp.array([[10.0]]), levels, GradientEstimation("ab2"), KEY).samples
        errors.append(abs(float(found[0, 0]) / exact - 1))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)


def test_inversion_error_halves_when_steps_double(two: MixtureDenoiser) -> None:
    x = jnp.array([[4.3], [-3.6]])
    errors = []
    for steps in (100, 200):
        levels = schedules.grid(schedules.LogLinear(), steps, clean=False)
        code = inversion.encode(two, x, levels, DDIM())
        errors.append(float(jnp.abs(inversion.decode(two, code, levels, DDIM()) - x).max()))
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.15)
    with pytest.raises(CapabilityError, match="eta=0, mu=0"):
        inversion.encode(two, x, levels, DDIM(eta=0.5))


def test_eta_one_and_mu_one_half_are_ancestral_sampling() -> None:
    x, x0 = jax.random.normal(KEY, (2, 6, 3))
    process = VariancePreserving()
    for high, low in ((-9.0, -8.5), (-1.0, 3.0), (6.0, 6.1)):
        here, there = (process.level(jnp.array(lam)) for lam in (high, low))
        guess = DenoiserEstimate(x0, (x - here.a * x0) / here.s)
        expected = Ancestral().moments(x, guess, here, there)
        for sampler in (DDIM(eta=1.0), SigmaFamily(mu=0.5), EulerAncestral()):
            for one, other in zip(sampler.moments(x, guess, here, there), expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        nothing = DDIM().moments(x, guess, here, there)
        same = SigmaFamily(mu=0.0).moments(x, guess, here, there)
        np.testing.assert_allclose(same[0], nothing[0], rtol=1e-11, atol=1e-12)
    ratio = np.array([0.2, 0.5, 0.9])
    np.testing.assert_allclose(implied_eta(1 / 3, ratio), 1 / np.sqrt(1 + ratio), rtol=1e-12)
    np.testing.assert_allclose(implied_eta(1 / 2, ratio), 1, rtol=1e-12)


def textbook(
    alpha_bar: np.ndarray, t: int, before: int, x: np.ndarray, eps: np.ndarray
) -> dict[str, tuple[np.ndarray, float]]:
    """Mean and standard deviation of steps from t to `before`, as in the papers: products of alpha, nothing else."""
    bar, bar_before = alpha_bar[t], alpha_bar[before]
    alpha = bar / bar_before
    beta = 1 - alpha
    small = (1 - bar_before) / (1 - bar) * beta
    mean = (x - beta / np.sqrt(1 - bar) * eps) / np.sqrt(alpha)
    x0 = (x - np.sqrt(1 - bar) * eps) / np.sqrt(bar)
    found = {"small": (mean, np.sqrt(small)), "large": (mean, np.sqrt(beta))}
    for eta in (0.0, 0.5, 1.0):
        sigma = eta * np.sqrt((1 - bar_before) / (1 - bar)) * np.sqrt(1 - bar / bar_before)
        found[f"eta={eta}"] = (
            np.sqrt(bar_before) * x0 + np.sqrt(1 - bar_before - sigma**2) * eps,
            sigma,
        )
    return found


def test_steps_are_those_of_the_papers_for_neighbours_and_for_skipped_levels() -> None:
    alpha_bar = np.cumprod(1 - np.linspace(1e-4, 0.02, 1000))
    own = {"small": Ancestral(), "large": Ancestral("large")}
    own |= {f"eta={eta}": DDIM(eta) for eta in (0.0, 0.5, 1.0)}
    draw = np.random.default_rng(0)
    for t, before in ((999, 998), (999, 899), (500, 499), (500, 250), (20, 0), (1, 0)):
        x, eps = draw.normal(size=(2, 3, 4))
        here, there = (Level(np.sqrt(alpha_bar[i]), np.sqrt(1 - alpha_bar[i])) for i in (t, before))
        noisy, noise = jnp.asarray(x), jnp.asarray(eps)
        guess = DenoiserEstimate((noisy - here.s * noise) / here.a, noise)
        for name, (mean, std) in textbook(alpha_bar, t, before, x, eps).items():
            found = own[name].moments(noisy, guess, here, there)
            np.testing.assert_allclose(found[0], mean, rtol=1e-9, atol=1e-9, err_msg=f"{name} {t} {before}")
            np.testing.assert_allclose(found[1], std, rtol=1e-9, atol=1e-12, err_msg=f"{name} {t} {before}")


class _KnowsVariance(Denoiser):
    """The exact denoiser of Gaussian data, with the variance that is best by the divergence of a step."""

    inner: MixtureDenoiser
    width: float
    target: str = "score"

    def predict(self, x, level, condition=None):
        return self.inner.predict(x, level)

    def share(self, x, level, condition=None):
        # log(1 + (SNR' - SNR) var(x0|x)) over 2 log(s/s'), for levels of this distance in lam.
        there = VariancePreserving().level(level.lam + self.width)
        unknown = 0.25 / (1 + 0.25 * level.snr)
        best = jnp.log1p((there.snr - level.snr) * unknown) / (2 * jnp.log(level.s / there.s))
        return jnp.full_like(x, best)


def test_the_learned_variance_is_best_where_it_is_exact_and_few_steps_then_keep_the_spread(
    narrow: MixtureDenoiser,
) -> None:
    lams = np.linspace(-8.0, 8.0, 9)
    levels = Level(*(np.asarray(part) for part in VariancePreserving().level(lams)))
    here, there = levels.at(4), levels.at(5)
    exact = _KnowsVariance(narrow, 2.0)
    x = jnp.zeros((1, 1))
    share = exact.share(x, here)
    unknown = jnp.sqrt(jnp.full((1, 1), 0.25 / (1 + 0.25 * here.snr)))
    slope = jax.grad(lambda share: divergence(unknown, share, here, there).sum())(share)
    assert 0 < float(share[0, 0]) < 1
    assert abs(float(slope[0, 0])) < 1e-12
    start = jnp.sqrt(levels.s[0] ** 2 + levels.a[0] ** 2 / 4) * jax.random.normal(KEY, (20000, 1))
    best, small = (walk(exact, start, levels, Ancestral(name), KEY).samples for name in ("learned", "small"))
    wanted = np.sqrt(levels.s[-1] ** 2 + levels.a[-1] ** 2 / 4)
    assert float(best.std()) == pytest.approx(wanted, rel=0.02)
    assert float(small.std()) < 0.93 * wanted
    with pytest.raises(CapabilityError, match="train with variance=learned"):
        walk(narrow, start, levels, Ancestral("learned"), KEY)


def test_one_program_serves_walks_of_every_length() -> None:
    asked = 0

    @final
    class Counting(Denoiser):
        target: str = "x0"

        def predict(self, x: Array, level: Level, condition: Any = None) -> Array:
            nonlocal asked
            asked += 1  # once for every program that is compiled
            return 0.5 * x

    x = jnp.ones((2, 1))
    drawn = [
        walk(Counting(), x, schedules.grid(schedules.cosine(), steps), DPMSolver(), KEY).samples
        for steps in (3, 20, 500)
    ]
    assert asked == 1
    assert len({float(one[0, 0]) for one in drawn}) == 3


def test_with_few_steps_walks_without_noise_are_nearer_to_the_data() -> None:
    angles = 2 * np.pi * np.arange(5) / 5
    ring = MixtureDenoiser([1.0] * 5, np.stack([np.cos(angles), np.sin(angles)], axis=1), [0.01] * 5)
    draw = np.random.default_rng(0)
    real = np.asarray(ring.mixture.means)[draw.integers(0, 5, 2000)] + 0.1 * draw.normal(size=(2000, 2))
    start = jax.random.normal(KEY, (2000, 2))
    for steps in (10, 20):
        levels = schedules.grid(schedules.cosine(), steps)
        still, noisy = (
            kernel_distance(np.asarray(walk(ring, start, levels, DDIM(eta), KEY).samples), real).value
            for eta in (0.0, 1.0)
        )
        assert still < noisy / 2


def test_processes_give_the_same_samples_from_matched_noise(two: MixtureDenoiser) -> None:
    lams = np.linspace(-9.0, 9.0, 40)
    preserving, exploding = (
        Level(*(np.asarray(part) for part in process.level(lams)))
        for process in (VariancePreserving(), schedules.LogLinear().process)
    )
    x = jax.random.normal(KEY, (50, 1))
    moved, _ = bridge(x, preserving.at(0), schedules.LogLinear().process)
    for sampler in (DDIM(), SigmaFamily(mu=0.5), Heun(), DPMSolver()):
        one = walk(two, x, preserving, sampler, KEY).samples / preserving.a[-1]
        np.testing.assert_allclose(walk(two, moved, exploding, sampler, KEY).samples, one, atol=1e-10)


@pytest.mark.parametrize(
    ("sampler", "steps"),
    [
        (DDIM(), 100),
        (Ancestral(), 200),
        (SigmaFamily(mu=0.25), 200),
        (Heun(), 40),
        (Heun(churn=20), 80),
        (DPMSolver(), 40),
        (GradientEstimation("ab2"), 60),
        (ReverseSDE(), 400),
        (ReverseSDE(corrections=1), 200),
    ],
    ids=["ddim", "ddpm", "sigma", "heun", "churn", "2m", "ab2", "sde", "corrected"],
)
def test_every_sampler_draws_the_mixture(two: MixtureDenoiser, sampler, steps: int) -> None:
    levels = schedules.grid(schedules.LogLinear(low=0.01, high=50), steps)
    x = 50 * jax.random.normal(KEY, (4000, 1))
    drawn = np.asarray(walk(two, x, levels, sampler, KEY).samples)[:, 0]
    assert (drawn > 0).mean() == pytest.approx(0.8, abs=0.03)
    assert drawn[drawn > 0].mean() == pytest.approx(4, abs=0.05)
    assert drawn[drawn > 0].std() == pytest.approx(0.5, abs=0.04)


def test_churn_stirs_in_as_much_noise_as_the_raised_level_has_more(narrow: MixtureDenoiser) -> None:
    # N(0, 1/4) with noise 1, raised to 1.25 by a share of 1/4: 1/4 + 1.25², whatever the process.
    x = jnp.sqrt(1.25) * jax.random.normal(KEY, (40000, 1))
    for process in (VarianceExploding(), VariancePreserving()):
        here = process.level(jnp.zeros(()))
        span = Span(here, process.level(jnp.ones(())), jnp.zeros((), int), jnp.asarray(8))
        moved, raised = Heun(churn=2.0, process=process)._stirred(here.a * x, span, jax.random.key(7))
        assert float(raised.sigma) == pytest.approx(1.25)
        assert float((moved / raised.a).var()) == pytest.approx(0.25 + 1.25**2, rel=0.02)
    assert Heun().deterministic
    assert not Heun(churn=2.0).deterministic
    assert float(Heun(churn=99.0)._stirred(x, span, KEY)[1].sigma) == pytest.approx(np.sqrt(2))


def test_a_ladder_of_langevin_finds_the_weights_of_modes_that_one_level_misses(two: MixtureDenoiser) -> None:
    levels = schedules.grid(schedules.LogLinear(low=0.1, high=10), 20)
    x = 10 * jax.random.normal(KEY, (2000, 1))
    drawn = walk(two, x, levels, AnnealedLangevin(), KEY).samples
    assert float((drawn > 0).mean()) == pytest.approx(0.79, abs=0.03)
    plain = langevin(
        lambda x: two.predict(x, Level(1.0, 0.1)),
        jax.random.uniform(KEY, (2000, 1), minval=-8, maxval=8),
        0.02,
        300,
        KEY,
    )
    assert float((plain > 0).mean()) == pytest.approx(0.51, abs=0.03)


def test_guidance_sharpens_more_than_tilting_would() -> None:
    conditional, unconditional = (
        MixtureDenoiser([1.0], [[1.0]], [1.0]),
        MixtureDenoiser([1.0], [[0.0]], [4.0]),
    )
    levels = schedules.grid(schedules.LogLinear(low=1e-3, high=300), 1000)
    quantiles = jax.scipy.stats.norm.ppf((jnp.arange(2000) + 0.5) / 2000)
    x = 300 * quantiles[:, None]
    drawn = walk(guided(conditional, 2.0, unconditional), x, levels, DDIM(), KEY).samples
    assert float(drawn.std()) == pytest.approx(0.500, abs=0.01)
    assert float(drawn.mean()) == pytest.approx(1.380, abs=0.01)


def test_guidance_is_the_gradient_of_the_class_probability(two: MixtureDenoiser) -> None:
    x, level = jnp.linspace(-5.0, 5.0, 11)[:, None], Level(0.8, 0.6)
    ones = jnp.ones(11, int)
    conditional, unconditional = two.value("eps", x, level, ones), two.value("eps", x, level)
    slope = jax.grad(lambda x: two.class_log_prob(x, level, ones).sum())(x)
    np.testing.assert_allclose(-(conditional - unconditional) / level.s, slope, atol=1e-10)
    for weight in (0.5, 3.0):
        mixed = weight * conditional + (1 - weight) * unconditional
        free = guided(two, weight).value("eps", x, level, ones)
        np.testing.assert_allclose(free, mixed, atol=1e-10)
        by_classifier = ClassifierGuided(two, two.class_log_prob, weight)
        np.testing.assert_allclose(by_classifier.value("eps", x, level, ones), mixed, atol=1e-10)
    outside = guided(two, 3.0, interval=(5.0, 9.0)).value("eps", x, level, ones)
    np.testing.assert_allclose(outside, conditional, atol=1e-10)


def test_weights_one_and_zero_are_the_plain_denoisers_bit_for_bit(two: MixtureDenoiser) -> None:
    x, level, ones = jnp.linspace(-5.0, 5.0, 11)[:, None], Level(0.8, 0.6), jnp.ones(11, int)
    assert np.array_equal(guided(two, 1).predict(x, level, ones), two.predict(x, level, ones))
    assert np.array_equal(guided(two, 0).predict(x, level, ones), two.predict(x, level))
    with pytest.raises(ArgumentError, match="guidance=-1"):
        guided(two, -1)


def test_the_same_key_gives_the_same_bits_and_a_trajectory_changes_nothing(two: MixtureDenoiser) -> None:
    levels = schedules.grid(schedules.cosine(), 10)
    x = jax.random.normal(KEY, (5, 1))
    plain = walk(two, x, levels, Ancestral(), KEY).samples
    watched = walk(two, x, levels, Ancestral(), KEY, trajectory=True)
    assert np.array_equal(plain, walk(two, x, levels, Ancestral(), KEY).samples)
    assert not np.array_equal(plain, walk(two, x, levels, Ancestral(), jax.random.key(9)).samples)
    np.testing.assert_allclose(watched.samples, plain, rtol=1e-12)
    assert watched.path.shape == watched.guesses.shape == (10, 5, 1)
    np.testing.assert_allclose(watched.guesses[-1], plain, rtol=1e-9)  # the last step returns the estimate


@pytest.mark.parametrize("clip", ["static", "dynamic"])
def test_clipping_keeps_estimates_in_range(two: MixtureDenoiser, clip: str) -> None:
    levels = schedules.grid(schedules.cosine(), 10)
    drawn = walk(two, jax.random.normal(KEY, (5, 1)), levels, DDIM(), KEY, clip=clip)
    assert float(jnp.abs(drawn.samples).max()) <= 1


def test_a_value_that_is_not_finite_is_named(two: MixtureDenoiser) -> None:
    levels = schedules.grid(schedules.cosine(), 10)
    x = jnp.zeros((3, 1)).at[1].set(jnp.nan)
    with pytest.raises(DivergedError, match=r"step 1 \(lam=-19.8\), sample 1 first"):
        walk(two, x, levels, DDIM(), KEY)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: samplers.sampler("ddimm"), "did you mean 'ddim'"),
        (lambda: samplers.sampler("heun", eta=1.0), "does not take eta"),
        (lambda: Heun(churn=-1.0), "churn=-1.0"),
        (lambda: DDIM(eta=-1.0), "eta=-1.0"),
        (lambda: SigmaFamily(mu=1.0), "mu=1.0"),
        (lambda: GradientEstimation(0.5), "g=0.5"),
        (lambda: AnnealedLangevin(moves=0), "moves=0"),
        (lambda: ReverseSDE(noise=-1.0), "noise=-1.0"),
        (lambda: DDIM(eta=3.0).check(schedules.grid(schedules.cosine(), 5)), "more noise than its level"),
    ],
    ids=range(9),
)
def test_samplers_that_cannot_work_are_refused(make, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


ASKED: list[int] = []


@final
class _Counted(Denoiser):
    """N(0, 1), and a count of how often it was asked."""

    target: str = eqx.field(static=True, default="eps")

    def predict(self, x: jax.Array, level: Level, condition: Any = None) -> jax.Array:
        del condition
        jax.debug.callback(lambda: ASKED.append(1))
        return jnp.asarray(level.s) * x


@pytest.mark.parametrize(
    ("sampler", "steps", "wasted"),
    [
        (DDIM(), 7, 0),
        (UniPC(), 7, 0),
        (Heun(), 4, 0),
        (RungeKutta(), 3, 1),
        (RungeKutta(order=5), 1, 1),
        (DPMSolver2S(), 4, 0),
        (ReverseSDE(corrections=2), 3, 0),
        (AnnealedLangevin(2), 2, 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, NamedSampler) else None,
)
def test_so_many_evaluations_suffice_for_the_steps_that_a_sampler_says(
    sampler: NamedSampler, steps: int, wasted: int
) -> None:
    path = schedules.schedule("vp-linear")
    sampler = sampler.for_process(path.process)
    assert sampler.steps_within(7) == steps
    ASKED.clear()
    walk(_Counted(), jnp.ones((1, 2)), schedules.grid(path, steps), sampler, KEY)
    jax.effects_barrier()
    assert len(ASKED) == 7 - wasted


def test_a_callback_sees_every_step_and_what_it_returns_is_gone_on_with(narrow: MixtureDenoiser) -> None:
    levels, start = schedules.grid(schedules.schedule("vp-linear"), 5), jnp.array([[0.5], [1.5]])
    plain = walk(narrow, start, levels, DPMSolver(), KEY, trajectory=True)
    seen: list[SamplerStep] = []
    watched = walk(narrow, start, levels, WatchedSampler(DPMSolver(), on_host(seen.append)), KEY)
    jax.effects_barrier()
    np.testing.assert_array_equal(watched.samples, plain.samples)
    assert [int(step.number) for step in seen] == list(range(5))
    assert {int(step.total) for step in seen} == {5}
    np.testing.assert_allclose([step.x for step in seen], plain.path, rtol=1e-12)
    np.testing.assert_allclose([step.x0 for step in seen], plain.guesses, rtol=1e-12)
    np.testing.assert_allclose([step.level.s for step in seen], levels.s[1:], rtol=1e-12)


@pytest.mark.parametrize("host", [False, True])
def test_a_callback_may_replace_the_examples(narrow: MixtureDenoiser, host: bool) -> None:
    def held(step: SamplerStep) -> Any:  # the second example stays at the first one's mirror image
        return step.x * np.array([[1.0], [0.0]]) - step.x[:1] * np.array([[0.0], [1.0]])

    callback = on_host(held) if host else held
    levels, start = schedules.grid(schedules.schedule("vp-linear"), 5), jnp.array([[0.5], [1.5]])
    found = walk(narrow, start, levels, WatchedSampler(DDIM(), callback), KEY).samples
    np.testing.assert_allclose(found[1], -found[0], rtol=1e-12)
    np.testing.assert_allclose(found[0], walk(narrow, start, levels, DDIM(), KEY).samples[0], rtol=1e-12)


def test_a_callback_that_returns_another_shape_is_refused(narrow: MixtureDenoiser) -> None:
    levels = schedules.grid(schedules.schedule("vp-linear"), 2)
    with pytest.raises(ArgumentError, match=r"callback: returned an array of shape \(1,\) for examples of"):
        walk(narrow, jnp.ones((2, 1)), levels, WatchedSampler(DDIM(), lambda step: step.x[0]), KEY)
