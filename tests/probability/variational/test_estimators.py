"""Gradient estimators against gradients that are known, and what `compare_estimators` says of them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.probability import (
    Categorical,
    Diagonal,
    Distribution,
    Exponential,
    Gamma,
    Laplace,
    MultivariateNormal,
    Normal,
)
from chainrule.probability.variational import (
    ElboProblem,
    EstimatorRow,
    ExpectationProblem,
    GaussianIdentities,
    GumbelSoftmax,
    Pathwise,
    PathwiseAnalytic,
    PlainMonteCarlo,
    ScoreFunction,
    StraightThrough,
    compare_estimators,
    exact_gradient,
)

KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def rows(*args: Any, **options: Any) -> dict[str, EstimatorRow]:
    return {row.label: row for row in compare_estimators(*args, KEY, **options).rows}


def square(guide: Callable[[Any], Distribution]) -> ExpectationProblem:
    return ExpectationProblem(guide, lambda z: z**2)


def test_variances_of_the_gradient_of_a_mean_square_are_the_known_ones() -> None:
    found = rows(
        square(lambda mu: Normal(mu, 1.0)),
        jnp.array(1.0),
        estimators=[Pathwise(), ScoreFunction(baseline=False), GaussianIdentities()],
        samples=1,
        repeats=20_000,
        exact=jnp.array(2.0),
    )
    for row in found.values():
        assert abs(row.bias[0]) < 4 * row.bias_error[0], row.label
    assert found["pathwise"].variance[0] == pytest.approx(4, rel=0.05)
    assert found["score function"].variance[0] == pytest.approx(30, rel=0.15)
    assert found["Gaussian identities"].variance[0] == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize(
    ("guide", "phi", "gradient"),
    [
        (lambda rate: Exponential(rate), 1.5, -4 / 1.5**3),  # E z² = 2 / rate²
        (lambda scale: Laplace(1.0, scale), 0.8, 4 * 0.8),  # 1 + 2 scale²
        (lambda a: Gamma(a, 2.0), 1.3, (2 * 1.3 + 1) / 4),  # a (a + 1) / rate²
    ],
)
def test_paths_of_other_families_give_the_gradient_of_their_second_moment(
    guide: Any, phi: float, gradient: float
) -> None:
    row = rows(
        square(guide),
        jnp.array(phi),
        estimators=[Pathwise()],
        samples=4,
        repeats=2000,
        exact=jnp.array(gradient),
    )["pathwise"]
    assert abs(row.bias[0]) < 4.5 * row.bias_error[0]


def gaussian_elbo() -> tuple[ElboProblem, dict[str, jax.Array], dict[str, np.ndarray]]:
    """z ~ N(0, I), x | z ~ N(W z, I): a guide, its parameters, and the exact gradient."""
    random = np.random.default_rng(0)
    w, x = random.normal(size=(3, 2)), random.normal(size=3)
    mean, log_scale = np.array([0.3, -0.5]), np.array([-0.2, 0.4])
    prior = MultivariateNormal(np.zeros(2), Diagonal(np.ones(2)))

    def log_joint(z: jax.Array) -> jax.Array:
        errors = jnp.asarray(x) - jnp.asarray(w) @ z
        return prior.log_prob(z) - 0.5 * jnp.square(errors).sum() - 1.5 * math.log(2 * math.pi)

    def guide(phi: dict[str, jax.Array]) -> MultivariateNormal:
        return MultivariateNormal(phi["mean"], Diagonal(jnp.exp(2 * phi["log_scale"])))

    precision = np.eye(2) + w.T @ w
    exact = {
        "mean": w.T @ x - precision @ mean,
        "log_scale": 1 - np.diag(precision) * np.exp(2 * log_scale),
    }
    phi = {"mean": jnp.asarray(mean), "log_scale": jnp.asarray(log_scale)}
    return ElboProblem(guide, log_joint, prior), phi, exact


def test_every_estimator_of_a_gaussian_guide_is_right_on_average() -> None:
    problem, phi, exact = gaussian_elbo()
    found = rows(problem, phi, samples=4, repeats=1000, exact=exact)
    assert set(found) == {
        "pathwise",
        "pathwise, analytic KL",
        "Gaussian identities",
        "score function",
        "score function, baseline",
    }
    for row in found.values():
        assert (np.abs(row.bias) < 4.5 * row.bias_error + 1e-12).all(), row.label
        assert row.operations > 0
    total = {name: row.variance.sum() for name, row in found.items()}
    assert total["pathwise, analytic KL"] < total["score function, baseline"] < total["score function"]
    # The Hessian of a quadratic is the same everywhere: no noise is left in the gradient of the scale.
    assert found["Gaussian identities"].variance[:2] == pytest.approx(0, abs=1e-20)
    assert found["Gaussian identities"].variance[2:].min() > 0


def test_without_the_exact_gradient_a_long_run_stands_in_for_it() -> None:
    problem, phi, exact = gaussian_elbo()
    found = compare_estimators(problem, phi, KEY, estimators=[PathwiseAnalytic()], repeats=500)
    expected = np.concatenate([exact["log_scale"], exact["mean"]])
    assert (found.exact_error > 0).all()
    assert (np.abs(found.exact - expected) < 5 * found.exact_error).all()
    text = str(found)
    assert "pathwise, analytic KL" in text
    assert "2 draws for a gradient, 500 gradients each" in text


TABLE = np.log(np.random.default_rng(0).dirichlet(np.ones(4)))
SLOPE = np.array([0.5, -1.0, 2.0, 0.3])


def discrete() -> tuple[ElboProblem, jax.Array]:
    """A guide of four classes; the likelihood is a smooth function of the one-hot code."""

    def log_joint(z: jax.Array) -> jax.Array:
        return (z * jnp.asarray(TABLE)).sum() - jnp.square((z * jnp.asarray(SLOPE)).sum() - 1)

    problem = ElboProblem(lambda logits: Categorical(logits=logits), log_joint, Categorical(np.exp(TABLE)))
    return problem, jnp.array([0.1, -0.4, 0.3, 0.0])


def test_classes_are_summed_over_for_the_exact_gradient() -> None:
    problem, logits = discrete()
    q = np.exp(logits) / np.exp(logits).sum()
    terms = TABLE - np.square(SLOPE - 1) - np.log(q)
    expected = q * (terms - q @ terms)  # that of log q has the mean zero
    np.testing.assert_allclose(exact_gradient(problem, logits), expected, atol=1e-12)
    with pytest.raises(ArgumentError, match="Normal has no list of values"):
        exact_gradient(square(lambda mu: Normal(mu, 1.0)), jnp.array(1.0))


def test_of_a_categorical_guide_score_functions_are_unbiased_and_relaxations_are_not() -> None:
    problem, logits = discrete()
    found = rows(problem, logits, samples=4, repeats=4000)
    relaxed = {"Gumbel-softmax 0.5", "straight-through 0.5"}
    assert set(found) == {"score function", "score function, baseline", *relaxed}
    for name in set(found) - relaxed:
        assert (np.abs(found[name].bias) < 4.5 * found[name].bias_error).all(), name
    for name in relaxed:
        assert (np.abs(found[name].bias) > 4.5 * found[name].bias_error).any(), name
        assert found[name].variance.sum() < found["score function"].variance.sum()
    assert [e.is_biased for e in (ScoreFunction(), GumbelSoftmax(), StraightThrough())] == [False, True, True]


@pytest.mark.slow
def test_relaxations_come_closer_as_the_temperature_falls() -> None:
    problem, logits = discrete()
    warm, cold = (
        compare_estimators(
            problem, logits, KEY, estimators=[GumbelSoftmax(temperature)], samples=4, repeats=4000
        ).rows[0]
        for temperature in (1.0, 0.1)
    )
    assert np.linalg.norm(cold.bias) < np.linalg.norm(warm.bias)
    assert cold.variance.sum() > warm.variance.sum()


def test_straight_through_gives_values_at_the_classes() -> None:
    problem = ExpectationProblem(
        lambda logits: Categorical(logits=logits), lambda z: jnp.where((z == 1).any(), 1.0, jnp.nan)
    )
    assert float(StraightThrough().value(problem, jnp.zeros(3), KEY, 50)) == 1.0


def test_the_plain_mean_has_a_value_and_refuses_its_gradient() -> None:
    problem, phi = square(lambda mu: Normal(mu, 1.0)), jnp.array(1.0)
    value = jax.jit(lambda phi: PlainMonteCarlo().value(problem, phi, KEY, 4000))(phi)
    assert float(value) == pytest.approx(2, abs=0.2)
    with pytest.raises(CapabilityError, match="no gradient in phi: its draws are fixed numbers"):
        PlainMonteCarlo().value_and_gradient(problem, phi, KEY, 10)
    with pytest.raises(CapabilityError, match="no gradient in phi"):
        jax.grad(lambda phi: PlainMonteCarlo().value(problem, phi, KEY, 10))(phi)


@pytest.mark.parametrize(
    ("estimator", "guide", "phi", "message"),
    [
        (Pathwise(), lambda p: Categorical(logits=p), np.zeros(3), "draws whole numbers.* use ScoreFunction"),
        (PathwiseAnalytic(), lambda p: Categorical(logits=p), np.zeros(3), "draws whole numbers"),
        (
            GaussianIdentities(),
            lambda p: Categorical(logits=p),
            np.zeros(3),
            "the identities hold for Normal",
        ),
        (GumbelSoftmax(), lambda p: Normal(p, 1.0), 0.0, "only Categorical is relaxed"),
        (StraightThrough(), lambda p: Normal(p, 1.0), 0.0, "only Categorical is relaxed"),
    ],
)
def test_guides_that_do_not_fit_are_named(estimator: Any, guide: Any, phi: Any, message: str) -> None:
    with pytest.raises(CapabilityError, match=message):
        estimator.value_and_gradient(square(guide), jnp.asarray(phi), KEY)


def test_arguments_that_cannot_be_used_are_named() -> None:
    problem = square(lambda mu: Normal(mu, 1.0))
    with pytest.raises(ArgumentError, match="samples must be a whole number of at least 2"):
        ScoreFunction().value(problem, jnp.array(1.0), KEY)
    with pytest.raises(ArgumentError, match="samples must be a whole number of at least 2"):
        compare_estimators(problem, jnp.array(1.0), KEY, samples=1)
    with pytest.raises(ArgumentError, match="exact has 2 numbers, phi has 1"):
        compare_estimators(problem, jnp.array(1.0), KEY, exact=np.zeros(2))
    with pytest.raises(ArgumentError, match=r"must be one distribution, not \(2,\)"):
        Pathwise().value(problem, jnp.zeros(2), KEY)
    with pytest.raises(ArgumentError, match="temperature=0"):
        GumbelSoftmax(0)
