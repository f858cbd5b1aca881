"""The Bayes classifier and its error: closed forms, enumeration, draws."""

import equinox as eqx
import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.probability.classification import bayes

P = cr.probability
KEY = jax.random.key(0)


def by_scipy(prior: list[float], densities: list) -> float:
    """One minus the integral of the largest weighted density."""
    x = np.linspace(-60, 60, 2_400_001)
    joint = np.stack([w * d.pdf(x) for w, d in zip(prior, densities, strict=True)])
    return float(scipy.integrate.trapezoid(joint.sum(axis=0) - joint.max(axis=0), x))


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.2, 0.8], [0.02, 0.98]])
def test_two_normals_of_one_variance_have_the_error_of_the_textbook(prior: list[float]) -> None:
    numbers = P.bayes_classifier(prior, P.Normal([0.0, 2.0], 1.0)).error()
    cut = 1 + np.log(prior[0] / prior[1]) / 2  # where both are as likely
    wrong = prior[0] * scipy.stats.norm.sf(cut) + prior[1] * scipy.stats.norm.cdf(cut - 2)
    np.testing.assert_allclose(numbers.value, wrong, rtol=1e-7)
    vectors = P.bayes_classifier(
        prior, P.MultivariateNormal(np.array([[0.0, 0, 0], [0, 0, 4.0]]), np.diag([1.0, 1.0, 4.0]))
    ).error()
    assert numbers.method == vectors.method == "exact"
    np.testing.assert_allclose(vectors.value, wrong, rtol=1e-7)


def test_numbers_of_different_spread_have_two_borders() -> None:
    found = P.bayes_classifier([0.4, 0.3, 0.3], P.Normal([0.0, 0.0, 3.0], [1.0, 3.0, 0.5])).error()
    densities = [scipy.stats.norm(0, 1), scipy.stats.norm(0, 3), scipy.stats.norm(3, 0.5)]
    assert found.method == "exact"
    np.testing.assert_allclose(found.value, by_scipy([0.4, 0.3, 0.3], densities), atol=1e-7)


def test_densities_without_distribution_functions_are_integrated() -> None:
    found = P.bayes_classifier([0.5, 0.5], [P.Exponential(1.0), P.Uniform(0.0, 2.0)]).error()
    assert found.method == "quadrature"
    cut = np.log(2)  # e^-x against 1/2 on [0, 2]
    np.testing.assert_allclose(found.value, 0.5 * (cut / 2 + (np.exp(-cut) - np.exp(-2))), rtol=1e-6)


def test_points_of_the_plane_agree_with_the_closed_form_and_with_draws() -> None:
    means = np.array([[0.0, 0.0], [2.0, 1.0]])
    same = P.bayes_classifier([0.3, 0.7], P.MultivariateNormal(means, np.array([[1.0, 0.3], [0.3, 2.0]])))
    with jax.enable_x64(True):
        wide = P.bayes_classifier([0.3, 0.7], P.MultivariateNormal(means, np.array([[1.0, 0.3], [0.3, 2.0]])))
        on_grid = bayes._plane(wide.mixture)
    assert on_grid is not None
    np.testing.assert_allclose(on_grid.value, same.error().value, rtol=1e-5)
    other = P.bayes_classifier(
        [0.3, 0.7],
        P.MultivariateNormal(means, np.array([[[1.0, 0.3], [0.3, 2.0]], [[2.0, 0.0], [0.0, 0.5]]])),
    )
    found = other.error()
    assert found.method == "quadrature"
    x, y = other.sample(KEY, 50_000)
    wrong = np.asarray(eqx.filter_jit(other.classify)(x) != y)
    assert abs(wrong.mean() - float(found.value)) < 4 * wrong.std() / np.sqrt(len(wrong))


def test_other_vectors_are_drawn_and_the_error_bar_holds() -> None:
    means = np.array([[0.0, 0, 0], [2.0, 0, 0]])
    truth = scipy.stats.norm.cdf(-1)
    covariances = np.stack([np.eye(3), np.eye(3) * (1 + 1e-6)])  # not quite the same, so not the closed form
    found = P.bayes_classifier([0.5, 0.5], P.MultivariateNormal(means, covariances)).error(key=KEY)
    assert found.method == "monte-carlo"
    assert abs(float(found.value) - truth) < 4 * float(found.standard_error)
    assert 0 < float(found.standard_error) < 1e-3
    with pytest.raises(ArgumentError, match="need a key"):
        P.bayes_classifier([0.5, 0.5], P.MultivariateNormal(means, covariances)).error()


def test_finitely_many_points_are_summed() -> None:
    table = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    prior = np.array([0.4, 0.6])
    found = P.bayes_classifier(prior, P.Categorical(table)).error()
    assert found.method == "enumeration"
    np.testing.assert_allclose(found.value, 1 - (prior[:, None] * table).max(axis=0).sum(), rtol=1e-6)


def test_the_posterior_is_that_of_bayes_rule() -> None:
    two = P.bayes_classifier([0.2, 0.8], P.Normal([0.0, 1.0], [1.0, 2.0]))
    x = np.array([-1.0, 0.5, 4.0])
    joint = np.stack([0.2 * scipy.stats.norm(0, 1).pdf(x), 0.8 * scipy.stats.norm(1, 2).pdf(x)], axis=1)
    np.testing.assert_allclose(two.posterior(x), joint / joint.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(two.log_prob(x), np.log(joint.sum(axis=1)), rtol=1e-5)


def test_more_than_one_axis_of_classes_is_refused() -> None:
    with pytest.raises(ArgumentError, match="one axis"):
        P.bayes_classifier([0.5, 0.5], P.Normal(np.zeros((3, 2)), 1.0))
