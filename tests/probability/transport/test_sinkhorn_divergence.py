"""The Sinkhorn divergence against what it is known to be: for moved sets, for little and for much smoothing."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.spatial.distance import cdist

from chainrule.core.errors import ArgumentError, ChainruleWarning, DivergedError
from chainrule.probability.transport import divergence, point_flow, sinkhorn, sinkhorn_divergence, usual_eps

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(60, 2)), DRAW.normal(size=(60, 2)) * np.array([[2.0, 0.5]]) + 1


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_a_set_moved_as_a_whole_is_as_far_as_it_was_moved_and_a_set_is_no_way_from_itself() -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(60))
    moved = X + np.array([[3.0, -1.0]])
    for eps in (0.3, 3.0):
        assert float(sinkhorn_divergence(X, moved, eps, a=weights, b=weights)) == pytest.approx(10, abs=1e-5)
        assert float(sinkhorn_divergence(X, X, eps)) == pytest.approx(0, abs=1e-9)
        biased = float(sinkhorn(None, None, cdist(X, moved, "sqeuclidean"), eps).value)
        assert abs(biased - 10) > 0.05
    assert float(sinkhorn_divergence(X, Y)) > 0
    assert float(sinkhorn_divergence(X, Y)) == pytest.approx(float(sinkhorn_divergence(Y, X)), rel=1e-5)


def test_with_little_smoothing_it_is_the_best_assignment_and_with_much_it_sees_means_alone() -> None:
    cost = cdist(X, Y, "sqeuclidean")
    best = cost[scipy.optimize.linear_sum_assignment(cost)].mean()
    assert float(sinkhorn_divergence(X, Y, 0.01, tolerance=1e-4)) == pytest.approx(best, rel=0.01)
    assert float(sinkhorn_divergence(X, Y, 0.2)) == pytest.approx(best, rel=0.03)
    means = np.square(X.mean(axis=0) - Y.mean(axis=0) / 2).sum()
    assert float(sinkhorn_divergence(X, Y / 2, 1e5)) == pytest.approx(means, rel=1e-4)
    some, others = np.array([[0.0], [1.0], [3.0]]), np.array([[5.0], [6.0], [8.0]])
    assert float(sinkhorn_divergence(some, others, 1e5, cost="euclidean")) == pytest.approx(
        3.6666667, rel=1e-4
    )
    assert float(sinkhorn_divergence(some, others, 0.02, cost="euclidean")) == pytest.approx(5, rel=0.01)


def test_the_slope_of_a_shift_is_twice_the_distance_of_the_means_for_any_eps_and_batch() -> None:
    theta = jnp.array([0.3, -0.2])
    for eps in (0.2, 5.0):
        slope = jax.jit(
            jax.grad(lambda t, eps=eps: sinkhorn_divergence(X[:40], Y + t[None], eps, tolerance=1e-10))
        )
        expected = 2 * (Y.mean(axis=0) + np.asarray(theta) - X[:40].mean(axis=0))
        np.testing.assert_allclose(slope(theta), expected, atol=1e-6)


def test_slopes_by_points_and_weights_are_those_of_differences() -> None:
    x, y, towards = X[:8], Y[:7], np.random.default_rng(2).normal(size=(8, 2))

    def value(t: Any, cost: str = "sqeuclidean") -> Any:
        weights = jnp.asarray([1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0 + t]) / (10.0 + t)
        return sinkhorn_divergence(x + t * towards, y, 0.7, b=weights, cost=cost, tolerance=1e-11)

    for cost in ("sqeuclidean", "euclidean"):
        slope = float(jax.jit(jax.grad(lambda t, cost=cost: value(t, cost)))(0.1))
        sides = [float(value(0.1 + t, cost)) for t in (1e-5, -1e-5)]
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6)
    # The terms of a set with itself meet themselves: slopes stay finite, and vanish at equal sets.
    at_home = jax.grad(lambda x: sinkhorn_divergence(x, X[:8], 0.7, cost="euclidean", tolerance=1e-11))(X[:8])
    np.testing.assert_allclose(at_home, np.zeros((8, 2)), atol=1e-8)


def test_many_points_are_compared_without_a_matrix_and_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dense = float(sinkhorn_divergence(X, Y))
    monkeypatch.setattr(divergence, "_DENSE", 100)
    assert float(sinkhorn_divergence(X, Y)) == pytest.approx(dense, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "cost", "dense"), [(np.float32, "sqeuclidean", 2**26), (np.float64, "euclidean", 1)]
)
def test_points_without_weight_change_nothing_however_far_away_they_are(
    kind: Any, cost: str, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divergence, "_DENSE", dense)
    x, y = X[:6].astype(kind), Y[:5].astype(kind)
    filled = np.concatenate([x, [[1e3, 1e3]]]).astype(kind)
    weights = np.append(np.full(6, 1 / 6), 0.0).astype(kind)

    def value(points: Any, shares: Any) -> Any:
        return sinkhorn_divergence(points, y, 0.3, a=shares, cost=cost, tolerance=1e-4)

    alone, slope = jax.value_and_grad(value)(x, weights[:6])
    with_it, (slopes, by_weight) = jax.value_and_grad(value, argnums=(0, 1))(filled, weights)
    assert float(with_it) == pytest.approx(float(alone), rel=1e-4)
    np.testing.assert_allclose(slopes, np.concatenate([slope, [[0, 0]]]), atol=1e-3)
    assert abs(float(by_weight[-1])) < 1e5  # finite, and a difference of the ways from both sets


def test_the_usual_eps_is_a_twentieth_of_the_mean_cost_and_a_constant_to_derivatives() -> None:
    assert float(usual_eps(X, Y)) == pytest.approx(0.05 * cdist(X, Y, "sqeuclidean").mean())
    slope = jax.jit(jax.grad(lambda x: sinkhorn_divergence(x, Y, tolerance=1e-9)))(X)
    fixed = jax.jit(jax.grad(lambda x: sinkhorn_divergence(x, Y, usual_eps(X, Y), tolerance=1e-9)))(X)
    np.testing.assert_allclose(slope, fixed, atol=1e-7)


def test_sets_that_cannot_be_compared_are_refused_and_slow_ones_warned_of() -> None:
    with pytest.raises(ArgumentError, match=r"y of shape \(60, 3\)"):
        sinkhorn_divergence(X, np.zeros((60, 3)))
    with pytest.raises(ArgumentError, match="be finite"):
        sinkhorn_divergence(X, np.full((3, 2), np.nan))
    with pytest.raises(ArgumentError, match=r"eps=0\)"):
        sinkhorn_divergence(X, Y, 0.0)
    with pytest.warns(ChainruleWarning, match="sinkhorn_divergence: .* larger eps"):
        sinkhorn_divergence(X, Y, 0.05, max_iterations=4)


def test_values_are_those_of_another_library(oracle: Any) -> None:
    ot = oracle("ot")
    eps = 0.5  # its values leave out the entropic term, so they are put together from plans

    def value(x: np.ndarray, y: np.ndarray) -> float:
        cost, product = cdist(x, y, "sqeuclidean"), 1 / (len(x) * len(y))
        weights = (np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y)))
        plan = ot.sinkhorn(*weights, cost, eps, numItermax=20_000, stopThr=1e-10)
        return float((plan * cost).sum() + eps * (plan * np.log(plan / product)).sum())

    expected = value(X, Y) - value(X, X) / 2 - value(Y, Y) / 2
    assert float(sinkhorn_divergence(X, Y, eps, tolerance=1e-10)) == pytest.approx(expected, rel=1e-7)


def test_points_flow_to_their_target_without_bias_and_to_a_shrunken_one_with_it() -> None:
    draw = np.random.default_rng(3)
    target, start = draw.normal(size=(40, 1)), draw.normal(size=(40, 1)) * 0.3 + 4
    spreads = {}
    for loss in ("divergence", "entropic"):
        flow = point_flow(start, target, loss, 0.5, step=0.25, steps=60, frames=4)
        assert flow.frames.shape == (4, 40, 1)
        assert flow.steps.tolist() == [0, 20, 40, 60]
        np.testing.assert_array_equal(flow.frames[0], start)
        assert float(flow.losses[-1]) < float(flow.losses[0])
        spreads[loss] = float(np.var(np.asarray(flow.frames[-1])))
    assert spreads["divergence"] == pytest.approx(np.var(target), rel=0.05)
    assert spreads["entropic"] == pytest.approx(np.var(target) - 0.25, abs=0.08)
    own = point_flow(start, target, lambda y: jnp.square(y).mean(), step=0.25, steps=20, frames=2)
    np.testing.assert_allclose(own.frames[-1], start * 0.5**20, rtol=1e-9)
    with pytest.raises(ArgumentError, match="divergence"):
        point_flow(start, target, "kernel")
    with pytest.raises(DivergedError, match=r"before move \d+ with step=1e\+09\n.*step=0.1"):
        point_flow(start, target, lambda y: jnp.square(y).mean(), step=1e9, steps=40)
