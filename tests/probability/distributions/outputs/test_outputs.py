"""Output distributions: densities of other libraries, probabilities that add up, draws that follow them."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from chainrule.core.errors import ArgumentError, DataError
from chainrule.probability.distributions import outputs
from chainrule.probability.distributions.outputs import (
    BernoulliOutput,
    BetaBinomialOutput,
    ContinuousBernoulliOutput,
    DiscretizedLogisticOutput,
    EntryScale,
    FixedScale,
    GaussianMixtureOutput,
    GaussianOutput,
    LaplaceOutput,
    LevelsOutput,
    LogisticMixtureOutput,
    OutputDistribution,
    PoissonOutput,
    SharedScale,
    check_support,
    likelihood,
)

torch = pytest.importorskip("torch")
TORCH = torch.distributions
LEVELS = 256
SHARED = SharedScale(0.7)


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


class Case(NamedTuple):
    output: OutputDistribution
    parameters: np.ndarray
    """A row for each entry."""
    x: np.ndarray
    expected: Callable[[Any, Any], Any]
    """From parameters and values to log-densities, of another library."""


def bins(x: Any, cdf: Callable[[Any], Any]) -> Any:
    """Log-density of levels as the bins of a distribution, from differences."""
    half = 0.5 / (LEVELS - 1)
    upper = torch.where(x > 1 - half, torch.ones(()).double(), cdf(x + half))
    lower = torch.where(x < half, torch.zeros(()).double(), cdf(x - half))
    return (upper - lower).log() + math.log(LEVELS - 1)


def scale(raw: Any) -> Any:
    return 1e-3 + torch.exp(7 * torch.tanh(raw / 7))


def mixture_of_logistic(p: Any, x: Any) -> Any:
    logits, means, raw = p.chunk(3, dim=-1)
    each = torch.stack(
        [bins(x, lambda v, i=i: torch.sigmoid((v - means[:, i]) / scale(raw[:, i]))) for i in range(2)]
    )
    return torch.logsumexp(each.T + logits.log_softmax(-1), dim=-1)


GREY = np.array([0, 1, 100, 254, 255]) / 255
CASES = {
    "bernoulli": Case(
        BernoulliOutput(),
        np.array([[-30.0], [-1.0], [0.0], [2.0], [30.0]]),
        np.array([0.0, 1.0, 1.0, 0.0, 1.0]),
        lambda p, x: TORCH.Bernoulli(logits=p[:, 0]).log_prob(x),
    ),
    "continuous bernoulli": Case(
        ContinuousBernoulliOutput(),
        np.array([[-20.0], [-0.15], [1e-3], [0.25], [5.0]]),
        np.array([0.0, 0.2, 0.7, 0.4, 1.0]),
        lambda p, x: TORCH.ContinuousBernoulli(logits=p[:, 0], lims=(0.4999, 0.5001)).log_prob(x),
    ),
    "fixed gaussian": Case(
        GaussianOutput(FixedScale(0.3)),
        np.array([[-2.0], [0.5], [40.0]]),
        np.array([1.0, 0.4, -3.0]),
        lambda p, x: TORCH.Normal(p[:, 0], 0.3).log_prob(x),
    ),
    "shared gaussian": Case(
        GaussianOutput(SHARED),
        np.array([[-2.0], [0.5], [40.0]]),
        np.array([1.0, 0.4, -3.0]),
        lambda p, x: TORCH.Normal(p[:, 0], scale(torch.tensor(float(SHARED.raw)).double())).log_prob(x),
    ),
    "gaussian": Case(
        GaussianOutput(EntryScale()),
        np.array([[-2.0, -50.0], [0.5, 1.0], [2.0, 50.0]]),
        np.array([-2.003, 0.4, -3.0]),
        lambda p, x: TORCH.Normal(p[:, 0], scale(p[:, 1])).log_prob(x),
    ),
    "laplace": Case(
        LaplaceOutput(EntryScale()),
        np.array([[-2.0, 0.2], [0.5, 1.0], [2.0, -1.0]]),
        np.array([1.0, 0.4, -3.0]),
        lambda p, x: TORCH.Laplace(p[:, 0], scale(p[:, 1])).log_prob(x),
    ),
    "poisson": Case(
        PoissonOutput(LEVELS),
        np.array([[-3.0], [0.0], [1.5], [3.0]]),
        np.array([0, 1, 9, 30]) / (LEVELS - 1),
        lambda p, x: (
            TORCH.Poisson(torch.exp(12 * torch.tanh(p[:, 0] / 12))).log_prob(torch.round(x * (LEVELS - 1)))
            + math.log(LEVELS - 1)
        ),
    ),
    "categorical": Case(
        LevelsOutput(LEVELS),
        np.random.default_rng(0).normal(size=(5, LEVELS)),
        GREY,
        lambda p, x: TORCH.Categorical(logits=p).log_prob(torch.round(x * 255)) + math.log(255),
    ),
    "beta-binomial": Case(
        BetaBinomialOutput(LEVELS),
        np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 3.0], [3.0, -2.0], [9.0, 0.3]]),
        GREY,
        lambda p, x: (
            scipy.stats.betabinom.logpmf(np.rint(255 * x.numpy()), 255, *np.exp(5 * np.tanh(p.numpy().T / 5)))
            + math.log(255)
        ),
    ),
    "discretised logistic": Case(
        DiscretizedLogisticOutput(LEVELS, EntryScale()),
        np.array([[0.2, -2.0], [0.1, -3.0], [0.4, -3.0], [0.9, -3.5], [0.99, -4.0]]),
        GREY,
        lambda p, x: bins(x, lambda v: torch.sigmoid((v - p[:, 0]) / scale(p[:, 1]))),
    ),
    "mixture of discretised logistic": Case(
        LogisticMixtureOutput(2, LEVELS),
        np.random.default_rng(1).normal(size=(5, 6)) * [1, 1, 0.3, 0.3, 0.3, 0.3] + [0, 0, 0.4, 0.6, -2, -3],
        GREY,
        mixture_of_logistic,
    ),
    "mixture of gaussians": Case(
        GaussianMixtureOutput(2),
        np.random.default_rng(2).normal(size=(3, 6)),
        np.array([-1.0, 0.2, 4.0]),
        lambda p, x: TORCH.MixtureSameFamily(
            TORCH.Categorical(logits=p[:, :2]),
            TORCH.Normal(p[:, 2:4], torch.exp(7 * torch.tanh(p[:, 4:] / 7))),
        ).log_prob(x),
    ),
}
LISTED = {name for name, case in CASES.items() if case.output.probable_levels == LEVELS}
DRAWS = 1000


class Found(NamedTuple):
    log_prob: np.ndarray
    mean: np.ndarray
    drawn: np.ndarray
    """Many values for each entry."""
    likeliest: np.ndarray
    """Values at temperature zero."""
    of_levels: np.ndarray
    """The log-density of each level."""


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    """What every family says, each from one compiled program."""

    @eqx.filter_jit
    def ask(output: OutputDistribution, parameters: jax.Array, x: jax.Array, key: jax.Array) -> Found:
        many = jnp.broadcast_to(parameters, (DRAWS, *parameters.shape))
        drawn, likeliest = jax.vmap(output.sample, (None, None, 0))(many, key, jnp.array([1.0, 0.0]))
        levels = jnp.arange(LEVELS, dtype=x.dtype)[:, None] / (LEVELS - 1)
        values = jnp.concatenate([x[None], jnp.broadcast_to(levels, (LEVELS, len(x)))])
        log_prob = output.log_prob(many[: len(values)], values)
        return Found(log_prob[0], output.mean(parameters), drawn, likeliest[0], log_prob[1:])

    with jax.enable_x64(True):
        return {
            name: jax.tree.map(
                np.asarray,
                ask(case.output, jnp.asarray(case.parameters), jnp.asarray(case.x), jax.random.key(3)),
            )
            for name, case in CASES.items()
        }


@pytest.mark.parametrize("name", CASES)
def test_log_densities_are_those_of_another_library(name: str, found: dict[str, Found]) -> None:
    case = CASES[name]
    expected = np.asarray(case.expected(torch.as_tensor(case.parameters), torch.as_tensor(case.x)))
    np.testing.assert_allclose(found[name].log_prob, expected, rtol=1e-9, atol=1e-9)
    assert case.output.parameter_count == case.parameters.shape[1] == len(case.output.initial_parameters())


@pytest.mark.parametrize("name", sorted(LISTED))
def test_probabilities_of_levels_add_up_to_one(name: str, found: dict[str, Found]) -> None:
    total = np.exp(found[name].of_levels).sum(axis=0) / (LEVELS - 1)
    np.testing.assert_allclose(total, 1, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_draws_follow_the_density(name: str, found: dict[str, Found]) -> None:
    drawn, mean = found[name].drawn, found[name].mean
    error = drawn.std(axis=0) / math.sqrt(DRAWS) + 1e-12
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * error).all()
    low, high = CASES[name].output.support
    assert (drawn >= low).all()
    assert (drawn <= high).all()


@pytest.mark.parametrize("name", sorted(LISTED))
def test_draws_have_the_probabilities_of_their_levels(name: str, found: dict[str, Found]) -> None:
    """Many levels below the median, as many draws as expected."""
    probabilities = np.exp(found[name].of_levels) / (LEVELS - 1)
    levels = np.arange(LEVELS)[:, None] / (LEVELS - 1)
    below = levels <= found[name].mean
    expected = (probabilities * below).sum(axis=0)
    share = (found[name].drawn <= found[name].mean).mean(axis=0)
    assert (np.abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / DRAWS) + 1e-9).all()


@pytest.mark.parametrize("name", sorted(LISTED - {"mixture of discretised logistic"}))
def test_at_temperature_zero_the_likeliest_level_is_drawn(name: str, found: dict[str, Found]) -> None:
    chosen = np.rint(found[name].likeliest * (LEVELS - 1)).astype(int)
    drawn = np.take_along_axis(found[name].of_levels, chosen[None], axis=0)[0]
    np.testing.assert_allclose(drawn, found[name].of_levels.max(axis=0), atol=1e-6)


def test_at_temperature_zero_a_density_gives_its_peak(found: dict[str, Found]) -> None:
    for name in ("fixed gaussian", "shared gaussian", "gaussian", "laplace"):
        np.testing.assert_array_equal(found[name].likeliest, found[name].mean)
    for name in ("bernoulli", "continuous bernoulli"):
        sides = np.sign(CASES[name].parameters[:, 0])
        decided = sides != 0
        np.testing.assert_allclose(found[name].likeliest[decided], (sides[decided] + 1) / 2, atol=1e-5)


def test_gradients_are_finite_at_extreme_parameters() -> None:
    """Also where a series takes over, and where probabilities round to zero or one."""
    extremes = np.array([-1e3, -1e-9, 0.0, 1e-9, 1e3])

    @eqx.filter_jit
    def slopes(output: OutputDistribution, parameters: jax.Array, x: jax.Array) -> jax.Array:
        return jax.grad(lambda p: output.log_prob(p, x).sum())(parameters)

    for name, case in CASES.items():
        parameters = np.repeat(extremes[:, None], case.parameters.shape[1], axis=1)
        for x in (0.0, 1.0):
            found = slopes(case.output, jnp.asarray(parameters), jnp.full(len(extremes), x))
            assert np.isfinite(found).all(), (name, x)


def test_the_series_of_the_continuous_bernoulli_meets_the_formula() -> None:
    output = ContinuousBernoulliOutput()
    rates = np.array([0.2 - 1e-9, 0.2 + 1e-9, -0.2 + 1e-9, -0.2 - 1e-9])[:, None]

    @eqx.filter_jit
    def values(rates: jax.Array) -> tuple[jax.Array, jax.Array]:
        return output.mean(rates), output.log_prob(rates, jnp.full(len(rates), 0.3))

    mean, log_prob = map(np.asarray, values(jnp.asarray(rates)))
    np.testing.assert_allclose(mean[::2], mean[1::2], atol=1e-9)
    np.testing.assert_allclose(log_prob[::2], log_prob[1::2], atol=1e-9)


def test_the_likeliest_shared_scale_is_the_root_mean_squared_error() -> None:
    random = np.random.default_rng(0)
    means, x = jnp.asarray(random.normal(size=(50, 1))), jnp.asarray(random.normal(size=50))
    best = GaussianOutput(SharedScale()).with_likeliest_scale(means, x)
    total = eqx.filter_jit(lambda output: output.log_prob(means, x).sum())
    slope = eqx.filter_jit(eqx.filter_grad(lambda output: output.log_prob(means, x).sum()))(best)
    assert abs(float(slope.scale.raw)) < 1e-9
    assert float(total(best)) > float(
        total(GaussianOutput(SharedScale(1.1 * float(best.scale.of(means[0, 1:])))))
    )


def test_dequantised_levels_come_back_and_give_a_bound_in_bits() -> None:
    levels, many = 4, 20_000
    x = np.tile(np.arange(levels) / (levels - 1), many // levels)
    output = ContinuousBernoulliOutput()

    @eqx.filter_jit
    def ask(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        noisy = outputs.dequantized(x, levels, jax.random.key(0))
        density = output.log_prob(jnp.full((many, 1), 2.0), noisy) + outputs.log_cell_ratio(levels)
        return outputs.quantized(noisy, levels), density

    back, density = map(np.asarray, ask(jnp.asarray(x)))
    np.testing.assert_allclose(back, x, atol=1e-12)
    cells = np.diff(np.expm1(2 * np.arange(levels + 1) / levels) / np.expm1(2))
    exact = np.log(cells).mean() + math.log(levels - 1)
    assert -0.05 < density.mean() - exact < 0


@pytest.mark.parametrize(
    ("name", "x", "levels", "message"),
    [
        (
            "bernoulli",
            [0, 255],
            0,
            r'got data outside \[0,1\] \(max 255\): rescale or use likelihood="discret',
        ),
        ("bernoulli", [-1.5, 0.2], 0, r'outside \[0,1\] \(min -1.5\): rescale or use likelihood="gaussian"'),
        ("continuous_bernoulli", [0.1, 1.5], 0, r"outside \[0,1\] \(max 1.5\)"),
        ("categorical", [0.0, 255.0], 256, r'max 255\): rescale or use likelihood="gaussian"'),
        ("poisson", [-1.0, 2.0], 3, r"outside \[0,inf\) \(min -1\)"),
        ("bernoulli", [np.nan, 0.5], 0, "min nan"),
        ("beta_binomial", [0.5], 0, "is for data with levels; these are continuous"),
    ],
)
def test_data_outside_of_the_support_are_refused(name: str, x: list, levels: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_support(name, np.array(x), levels)


def test_data_within_the_support_are_accepted() -> None:
    check_support("bernoulli", np.array([0, 1, 0.5]))
    check_support("discretized_logistic", np.array([0, 1]), 256)
    check_support("gaussian", np.array([-1e6, 3]))
    check_support("bernoulli", np.zeros((0, 3)))


def test_every_name_makes_its_distribution() -> None:
    names = ["bernoulli", "continuous_bernoulli", "gaussian", "laplace", "discretized_logistic"]
    names += ["logistic_mixture", "beta_binomial", "categorical", "poisson"]
    assert {type(likelihood(name, 256)) for name in names} == {
        type(case.output) for case in CASES.values()
    } - {GaussianMixtureOutput}
    with pytest.raises(ArgumentError, match="did you mean 'bernoulli'"):
        likelihood("bernouli")
    with pytest.raises(ArgumentError, match='scale must be "fixed", "global" or "entry"'):
        likelihood("gaussian", scale="pixel")
    with pytest.raises(ArgumentError, match=r"a scale is at least 0\.001"):
        likelihood("gaussian", scale="fixed", sigma=1e-5)


def test_only_probabilities_of_the_data_s_levels_are_likelihoods_of_them() -> None:
    assert likelihood("bernoulli").is_likelihood_of(2)
    assert not likelihood("bernoulli").is_likelihood_of(256)
    assert not likelihood("bernoulli").is_likelihood_of(0)
    assert likelihood("categorical", 256).is_likelihood_of(256)
    assert not likelihood("categorical", 16).is_likelihood_of(256)
    assert likelihood("gaussian").is_likelihood_of(0)
    assert likelihood("gaussian").is_likelihood_of(256)
