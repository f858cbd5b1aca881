"""The Sinkhorn divergence against what it is known to be: for moved sets, for little and for much smoothing."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.spatial.distance import cdist

from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.probability.transport import entropic, sinkhorn_divergence

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(60, 2)), DRAW.normal(size=(60, 2)) * np.array([[2.0, 0.5]]) + 1


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_a_set_moved_as_a_whole_is_as_far_as_it_was_moved_and_a_set_is_no_way_from_itself() -> None:
    for epsilon in (0.3, 3.0):
        assert sinkhorn_divergence(X, X + np.array([[1.0, -2.0]]), epsilon).value == pytest.approx(
            5, abs=1e-5
        )
        assert sinkhorn_divergence(X, X, epsilon).value == pytest.approx(0, abs=1e-9)
    assert sinkhorn_divergence(X, Y).value > 0
    assert sinkhorn_divergence(X, Y).value == pytest.approx(sinkhorn_divergence(Y, X).value, rel=1e-5)


def test_with_little_smoothing_it_is_the_best_assignment_and_with_much_it_sees_means_alone() -> None:
    cost = cdist(X, Y, "sqeuclidean")
    best = cost[scipy.optimize.linear_sum_assignment(cost)].mean()
    assert sinkhorn_divergence(X, Y, 1e-6).value == pytest.approx(best, rel=1e-6)
    assert sinkhorn_divergence(X, Y, 0.2).value == pytest.approx(best, rel=0.03)
    means = np.square(X.mean(axis=0) - Y.mean(axis=0)).sum()
    assert sinkhorn_divergence(X, Y, 1e5).value == pytest.approx(means, rel=1e-3)


def test_the_plan_has_uniform_margins_and_its_primal_cost_is_the_dual_one() -> None:
    plan = entropic(jnp.asarray(X), jnp.asarray(Y), 0.5)
    cost = cdist(X, Y, "sqeuclidean")
    share = np.exp((np.asarray(plan.f)[:, None] + np.asarray(plan.g)[None] - cost) / 0.5) / cost.size
    np.testing.assert_allclose(share.sum(axis=1), 1 / 60, rtol=1e-4)
    np.testing.assert_allclose(share.sum(axis=0), 1 / 60, rtol=1e-4)
    primal = (share * cost).sum() + 0.5 * (share * np.log(share * cost.size)).sum()
    assert float(plan.cost) == pytest.approx(primal, rel=1e-4)


def test_sets_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"y of shape \(60, 3\)"):
        sinkhorn_divergence(X, np.zeros((60, 3)))
    with pytest.raises(ArgumentError, match="not finite"):
        sinkhorn_divergence(X, np.full((3, 2), np.nan))
    with pytest.raises(ArgumentError, match="epsilon=0"):
        sinkhorn_divergence(X, Y, 0.0)
    with pytest.raises(DivergedError, match="larger epsilon"):
        sinkhorn_divergence(X, Y, 1e-2)  # mass creeps
