"""Importance weights: ratios of known densities, the quadratic program against SciPy, and honest effective sizes."""

from collections.abc import Callable
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.data import load
from chainrule.kernels import RBF
from chainrule.transfer import effective_size, importance_weights, match_means
from chainrule.transfer.importance import METHODS, normalised
from chainrule.transfer.mean_matching import lowest

RNG = np.random.default_rng(0)
SOURCE, TARGET = RNG.normal(size=(1000, 1)), RNG.normal(0.5, size=(1000, 1))


@pytest.mark.parametrize(("method", "least"), [("classifier", 0.98), ("least-squares", 0.9)])
def test_the_log_ratio_of_two_normals_is_found(method: str, least: float) -> None:
    found = importance_weights(SOURCE, TARGET, method, clip=100.0)
    usual = np.abs(SOURCE[:, 0]) < 2.5  # bumps at target points say nothing far from them
    exact = (0.5 * SOURCE[:, 0] - 0.125)[usual]
    assert np.corrcoef(np.log(found.values[usual] + 1e-12), exact)[0, 1] > least


@pytest.mark.parametrize("method", sorted(METHODS))
def test_weighted_means_of_the_source_are_those_of_the_target(method: str) -> None:
    found = importance_weights(SOURCE[:400], TARGET[:400], method)
    mean = float((found.values * SOURCE[:400, 0]).mean())
    error = float(np.std(found.values * (SOURCE[:400, 0] - mean)) / np.sqrt(400)) + 1 / np.sqrt(400)
    assert abs(mean - 0.5) < 3 * error
    assert abs(found.values.mean() - 1) < 1e-9
    assert 0.1 < found.effective_share <= 1.0


def test_kernel_mean_matching_solves_the_quadratic_program_of_scipy() -> None:
    n, x, y, kernel = 25, SOURCE[:25], TARGET[:30], RBF(1.0)
    bound, slack = 5.0, 0.1
    gram = np.exp(-((x - x.T) ** 2) / 2)
    pull = n / 30 * np.exp(-((x - y.T) ** 2) / 2).sum(axis=1)
    reference = optimize.minimize(
        lambda b: b @ gram @ b / 2 - pull @ b,
        np.ones(n),
        jac=lambda b: gram @ b - pull,
        bounds=[(0, bound)] * n,
        constraints=[{"type": "ineq", "fun": lambda b: [n * slack - b.sum() + n, b.sum() - n + n * slack]}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    found = match_means(x, y, kernel, bound=bound, slack=slack)
    assert abs(found.objective - reference.fun) < 1e-4
    assert found.objective - found.gap <= reference.fun + 1e-9
    assert found.weights.min() >= 0
    assert found.weights.max() <= bound + 1e-9
    assert abs(found.weights.sum() - n) <= n * slack + 1e-6


def test_no_weights_of_skada_have_a_lower_objective(oracle: Callable[[str], ModuleType]) -> None:
    skada = oracle("skada")
    x, y = SOURCE[:60], TARGET[:50]
    adapter = skada.KMMReweightAdapter(gamma=0.5, solver="scipy")
    adapter.fit(np.concatenate([x, y]), sample_domain=np.concatenate([np.ones(60), -2 * np.ones(50)]))
    theirs = adapter.source_weights_
    gram = np.exp(-((x - x.T) ** 2) / 2)
    pull = 60 / 50 * np.exp(-((x - y.T) ** 2) / 2).sum(axis=1)
    found = match_means(x, y, RBF(1.0))
    reached = float(theirs @ gram @ theirs / 2 - pull @ theirs)
    assert found.objective <= reached + found.gap
    assert abs(found.objective - reached) < 1e-3 * abs(reached)


def test_the_lowest_corner_is_that_of_a_linear_program() -> None:
    rng = np.random.default_rng(1)
    for least, most in ((2.0, 3.0), (0.0, 1.0), (6.0, 7.0)):
        slope = jnp.asarray(rng.normal(size=8))
        corner = np.asarray(lowest(slope, 1.0, least, most))
        box = optimize.linprog(
            slope, A_ub=[[1.0] * 8, [-1.0] * 8], b_ub=[most, -least], bounds=(0, 1.0), method="highs"
        )
        assert abs(float(slope @ corner) - box.fun) < 1e-5


def test_weights_with_a_mean_of_exactly_one_can_be_asked_for() -> None:
    found = match_means(SOURCE[:25], TARGET[:30], slack=0.0)
    assert abs(found.weights.mean() - 1) < 1e-5
    assert found.gap < 1e-6 * abs(found.objective)


def test_domains_that_barely_overlap_are_said_to() -> None:
    with pytest.warns(ChainruleWarning, match="supports barely overlap: 300 source examples count as"):
        found = importance_weights(SOURCE[:300], TARGET[:300] + 4.0, clip=100.0)
    assert found.effective_share < 0.1


@pytest.mark.parametrize("method", ["classifier", "least-squares"])
def test_domains_without_any_overlap_are_said_to_whatever_the_effective_size(method: str) -> None:
    with pytest.warns(ChainruleWarning, match="the ratio of densities is"):
        found = importance_weights(SOURCE[:100], TARGET[:100] + 30.0, method)
    assert not 1 / 3 <= found.mean_ratio <= 3
    assert found.effective_share > 0.1


def test_effective_size_clipping_and_bad_weights() -> None:
    assert effective_size([2.0, 2.0, 0.0, 0.0]) == 2.0
    heavy = np.ones(1000)
    heavy[0] = 1e6
    assert effective_size(heavy) < 1.01
    assert effective_size(normalised(heavy, 99.5)) > 999
    for bad in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(ArgumentError, match="none negative"):
            normalised(bad)
        with pytest.raises(ArgumentError, match="none negative"):
            effective_size(bad)


def test_weights_go_into_the_loss_of_a_model() -> None:
    data = load("shifted-gaussians", n=100, shift=0.0)
    target = load("shifted-gaussians", n=100, shift=1.0, seed=1)
    found = importance_weights(data.train.x, target.train.x)
    weighted = found.applied(data)
    np.testing.assert_allclose(weighted.train.batch([3, 5]).weights, found.values[[3, 5]], rtol=1e-6)
    with pytest.raises(ArgumentError, match="80 weights for 101 training examples"):
        found.applied(load("moons", n=125))


@pytest.mark.filterwarnings("ignore:supports barely overlap")
def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ArgumentError, match="clip=0"):
        importance_weights(SOURCE, TARGET, clip=0)
    with pytest.raises(ArgumentError, match="the source have 1 numbers, of the target 2"):
        importance_weights(SOURCE, np.ones((3, 2)))
    with pytest.raises(ArgumentError, match=r"target\): no examples"):
        importance_weights(SOURCE, np.ones((0, 1)))
    for method in ("classifier", "least-squares"):
        with pytest.raises(ArgumentError, match=r"300 source and 1 target|two or more of each"):
            importance_weights(SOURCE[:300], TARGET[:1], method)
    for method in (
        "classifier",
        "least-squares",
    ):  # fewer folds where there are fewer rows, unless they are asked for
        assert importance_weights(SOURCE[:30], SOURCE[:3], method).values.shape == (30,)
        with pytest.raises(ArgumentError, match="folds=5\\): between 2 and 3"):
            importance_weights(SOURCE[:30], SOURCE[:3], method, folds=5)
    with pytest.raises(ArgumentError, match=r"bound=0\.1"):
        match_means(SOURCE[:10], TARGET[:10], bound=0.1, slack=0.0)
