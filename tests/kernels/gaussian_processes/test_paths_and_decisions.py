"""Drawn functions by Matheron's rule, and searches that decide by a Gaussian process."""

from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Constant, Matern
from chainrule.kernels.gaussian_processes import GaussianProcess, SurrogateSearch, draw_paths
from chainrule.kernels.gaussian_processes.decisions import (
    STRATEGIES,
    confidence_bound,
    expected_improvement,
    probability_of_improvement,
)

X = np.array([[-1.0], [0.0], [0.3], [2.0]])
Y = np.array([0.5, -0.2, 0.1, 1.0])
NEW = np.array([[-0.5], [0.1], [1.0], [4.0]])


def test_functions_drawn_from_the_prior_have_its_covariance() -> None:
    process = GaussianProcess(Constant(2.0) * Matern(1.5, 0.8))
    drawn = draw_paths(process, jax.random.key(0), 6000, size=1, features=256)(NEW)
    np.testing.assert_allclose(np.cov(drawn.T), process.kernel.gram(NEW), atol=0.25)


def test_functions_drawn_by_matherons_rule_are_those_of_the_posterior() -> None:
    posterior = GaussianProcess(RBF(0.7), 0.05, mean=0.3).fit(X, Y)
    drawn = draw_paths(posterior, jax.random.key(1), 6000, features=512)(NEW)
    mean, covariance = posterior.predict(NEW, "latent", covariance=True)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.1)


def test_a_drawn_function_is_the_same_wherever_it_is_evaluated() -> None:
    drawn = draw_paths(GaussianProcess(RBF(0.7), 0.05).fit(X, Y), jax.random.key(2), 2, features=64)
    np.testing.assert_allclose(drawn(NEW)[:, 1:2], drawn(NEW[1:2]), rtol=1e-10)
    with pytest.raises(ArgumentError, match=r"expected \(n, 1\)"):
        drawn(np.zeros((3, 2)))
    with pytest.raises(ArgumentError, match="give size="):
        draw_paths(GaussianProcess(RBF(0.7)), jax.random.key(2))


def test_improvements_are_means_of_a_normal_variable() -> None:
    z = np.linspace(-8, 8, 20_001)
    weight = scipy.stats.norm.pdf(z) * (z[1] - z[0])
    values = 0.4 + 0.9 * z
    np.testing.assert_allclose(
        expected_improvement([0.4], [0.81], 0.1), (weight * np.maximum(0.1 - values, 0)).sum(), rtol=1e-6
    )
    np.testing.assert_allclose(
        probability_of_improvement([0.4], [0.81], 0.1), scipy.stats.norm.cdf(-0.3 / 0.9)
    )
    np.testing.assert_allclose(confidence_bound([1.0], [4.0], 1.5), [-2.0])


def branin(point: dict[str, float]) -> float:
    a, b = point["a"], point["b"]
    bowl = b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6
    return float(bowl**2 + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_looks_near_the_least_value(strategy: str) -> None:
    search = SurrogateSearch({"x": (-2.0, 2.0)}, strategy, begin=5)
    for step in range(7):
        point = search.ask(jax.random.key(step))
        search = search.tell(point, (point["x"] - 0.7) ** 2)
    assert abs(search.best[0]["x"] - 0.7) < 0.2  # the first five points are a quarter of the box apart


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_search_finds_the_least_value_of_branins_function(strategy: str) -> None:
    search = SurrogateSearch({"a": (-5.0, 10.0), "b": (0.0, 15.0)}, strategy)
    for step in range(25):
        point = search.ask(jax.random.key(step))
        search = search.tell(point, branin(point))
    assert search.best[1] < 1.5  # the least is 0.398; of 25 random points the best is about 4


def test_logarithms_are_searched_as_such_and_bad_arguments_are_refused() -> None:
    search = SurrogateSearch({"rate": (1e-5, 1e-1)}, logarithmic=("rate",), begin=4)
    tried = []
    for step in range(4):
        tried.append(search.ask(jax.random.key(step))["rate"])
        search = search.tell({"rate": tried[-1]}, float("nan") if step == 1 else step)
    assert min(tried) < 1e-3 < max(tried)
    assert search.best[0]["rate"] == pytest.approx(tried[0])
    with pytest.raises(ArgumentError, match="0 < low < high"):
        SurrogateSearch({"rate": (0.0, 1.0)}, logarithmic=("rate",))
    with pytest.raises(ArgumentError, match="lies outside"):
        search.tell({"rate": 2.0}, 1.0)
    with pytest.raises(ArgumentError, match="are not the variables"):
        search.tell({"lr": 0.01}, 1.0)
    with pytest.raises(ArgumentError, match="nothing was tried"):
        _ = SurrogateSearch({"rate": (0.0, 1.0)}).best
    with pytest.raises(ArgumentError, match=r"expected_improvement\(variance\): variances are .* at least 0"):
        expected_improvement([0.0], [-1.0], 0.0)
    assert probability_of_improvement([0.0, 1.0], [0.0, 0.0], 0.5).tolist() == [
        1.0,
        0.0,
    ]  # nothing is uncertain
    with pytest.raises(ArgumentError, match="strategy must be"):
        SurrogateSearch({"rate": (0.0, 1.0)}, "luck")


def test_what_failed_is_the_worst_of_all_even_if_nothing_was_known_before() -> None:
    search = SurrogateSearch({"x": (0.0, 1.0)}, begin=2).tell({"x": 0.2}, float("nan"))
    with pytest.raises(ArgumentError, match=r"none of 1 values so far is finite(.|\n)*narrow the bounds"):
        _ = search.best
    assert search.tell({"x": 0.9}, float("inf")).ask(jax.random.key(0))
    search = search.tell({"x": 0.8}, 5.0).tell({"x": 0.7}, 4.0)
    assert search.best == ({"x": pytest.approx(0.7)}, 4.0)
    posterior = search.posterior()
    assert posterior.y[0] == posterior.y.max() == posterior.y[1]


@pytest.mark.slow
def test_a_search_tunes_runs(tmp_path: Path) -> None:
    data = cr.data.load("moons", n=300)
    search = SurrogateSearch({"lr": (1e-5, 1e-1)}, logarithmic=("lr",), begin=3)
    with jax.enable_x64(False):
        for step in range(5):
            point = search.ask(jax.random.key(step))
            model = cr.models.build("mlp", data, width=8, depth=1)
            run = cr.fit(model, data, run=tmp_path / str(step), steps=60, optimizer={"lr": point["lr"]})
            search = search.tell(point, run.status["best"]["loss"])
    assert search.best[0]["lr"] > 1e-3
    assert search.best[1] == min(search.values)
