"""Derivatives of entropic transport by every route, against differences and known numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import cost_matrix, point_costs, sinkhorn, unbalanced

A, B = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
SQUARES = np.array([[(i - j) ** 2 for j in range(3)] for i in range(3)], float)
WAYS = ("envelope", "implicit", "unroll")
DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(6, 2)), DRAW.normal(size=(5, 2)) + 1


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def solver(way: str) -> Callable[..., Any]:
    def solve(a: Any, b: Any, cost: Any, eps: Any = 1.0) -> Any:
        return sinkhorn(a, b, cost, eps, derivative=way, tolerance=1e-13, max_iterations=200)

    return solve


@pytest.fixture(scope="module", params=WAYS)
def slopes(request: Any) -> Any:
    """Slopes of value and cost by the cost, and of the value by the weights and by eps: one program for each way."""
    solve = solver(request.param)

    @jax.jit
    def all_of(a: jax.Array, cost: jax.Array, eps: jax.Array) -> Any:
        return (
            jax.grad(lambda c: solve(a, B, c, eps).value)(cost),
            jax.grad(lambda c: solve(a, B, c, eps).cost)(cost),
            jax.grad(lambda a: solve(a, B, cost, eps).value)(a),
            jax.grad(lambda e: solve(a, B, cost, e).value)(eps),
            jax.jvp(lambda c: solve(a, B, c, eps).plan[0, 0], (cost,), (jnp.ones_like(cost) * cost,))[1],
        )

    with jax.enable_x64(True):
        return request.param, all_of(jnp.asarray(A), jnp.asarray(SQUARES), jnp.asarray(1.0))


def test_slopes_by_the_cost_are_the_plan_for_the_value_and_something_else_for_the_cost(slopes: Any) -> None:
    way, (value, cost, _, _, _) = slopes
    assert float(value[0, 2]) == pytest.approx(0.1474866, abs=1e-7), way
    assert float(cost[0, 2]) == pytest.approx(0.0777623, abs=1e-7), way


def test_slopes_by_weights_are_the_potentials_and_by_eps_the_divergence(slopes: Any) -> None:
    way, (_, _, weights, eps, _) = slopes
    found = sinkhorn(A, B, SQUARES, 1.0, tolerance=1e-13)
    f = np.asarray(found.potentials[0])
    assert float(weights[0] - weights[1]) == pytest.approx(1.9359189, abs=1e-7), way
    assert float(weights[0] - weights[1]) == pytest.approx(f[0] - f[1], abs=1e-9)
    if way == "envelope":
        assert float(weights @ A) == pytest.approx(0, abs=1e-12)
    assert float(eps) == pytest.approx(float(found.value - found.cost), abs=1e-9)


def test_the_plan_moves_as_differences_say(slopes: Any) -> None:
    def entry(t: float) -> float:
        return float(sinkhorn(A, B, SQUARES * (1 + t), 1.0, tolerance=1e-13).plan[0, 0])

    way, (*_, plan) = slopes
    assert float(plan) == pytest.approx((entry(1e-5) - entry(-1e-5)) / 2e-5, rel=1e-6), way


def test_second_derivatives_of_the_value_are_right_although_its_first_look_at_no_iterations() -> None:
    hessians = [
        np.asarray(jax.jit(jax.hessian(lambda c, w=way: solver(w)(A, B, c).value))(SQUARES)) for way in WAYS
    ]
    for other in hessians[1:]:
        np.testing.assert_allclose(hessians[0], other, atol=1e-8)

    def slope(t: float) -> np.ndarray:
        moved = SQUARES.copy()
        moved[0, 1] += t
        return np.asarray(sinkhorn(A, B, moved, 1.0, tolerance=1e-13).plan)

    np.testing.assert_allclose(hessians[0][0, 1], (slope(1e-5) - slope(-1e-5)) / 2e-5, atol=1e-7)
    third = jax.jit(jax.jacfwd(jax.grad(lambda t: solver("envelope")(A, B, SQUARES * t).cost)))(1.0)

    def twice(t: float) -> float:
        return float(sinkhorn(A, B, SQUARES * t, 1.0, tolerance=1e-13).cost)

    step = 1e-3
    assert float(third) == pytest.approx(
        (twice(1 + step) - 2 * twice(1) + twice(1 - step)) / step**2, rel=1e-4
    )


def test_slopes_of_costs_in_blocks_are_those_of_the_matrix_for_points_weights_and_second_order() -> None:
    def value(x: jax.Array, b: jax.Array, blocks: bool) -> jax.Array:
        costs = point_costs(x, Y, block=4) if blocks else cost_matrix(x, Y)
        return sinkhorn(None, b, costs, 0.5, tolerance=1e-12).value

    both = jax.jit(jax.grad(value, argnums=(0, 1)), static_argnums=2)
    weights = jnp.full(5, 0.2)
    for one, other in zip(both(X, weights, True), both(X, weights, False), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    along = jax.jit(
        lambda x, blocks: jax.jvp(lambda x: both(x, weights, blocks)[0], (x,), (jnp.ones_like(x) * x,))[1],
        static_argnums=1,
    )
    np.testing.assert_allclose(along(X, True), along(X, False), atol=1e-8)


def test_points_without_weight_leave_derivatives_finite() -> None:
    a = np.array([0.5, 0.5, 0.0])
    slope = jax.jit(jax.grad(lambda c: sinkhorn(a, B, c, 0.5, tolerance=1e-12).plan[0, 0] ** 2))(SQUARES)
    small = jax.jit(jax.grad(lambda c: sinkhorn(a[:2], B, c, 0.5, tolerance=1e-12).plan[0, 0] ** 2))(
        SQUARES[:2]
    )
    np.testing.assert_allclose(slope[:2], small, atol=1e-10)
    assert (np.asarray(slope[2]) == 0).all()


def test_euclidean_costs_have_finite_slopes_where_points_meet() -> None:
    slope = jax.grad(lambda x: sinkhorn(None, None, cost_matrix(x, X, "euclidean"), 0.5).value)(
        jnp.asarray(X)
    )
    assert np.isfinite(np.asarray(slope)).all()


def test_transport_with_a_price_of_mass_is_differentiable_too() -> None:
    def value(t: Any, what: str = "value", penalty: str = "kl") -> Any:
        found = unbalanced(2 * A, 3 * B, SQUARES * t, 0.5, 0.7, penalty=penalty, tolerance=1e-12)
        return getattr(found, what)

    for what in ("value", "cost", "mass"):
        slope = float(jax.jit(jax.grad(lambda t, what=what: value(t, what)))(1.0))
        assert slope == pytest.approx(float(value(1 + 1e-5, what) - value(1 - 1e-5, what)) / 2e-5, rel=1e-5)
    partial = float(jax.grad(lambda t: value(t, penalty="mass"))(1.0))
    sides = [float(value(1 + t, penalty="mass")) for t in (1e-5, -1e-5)]
    assert partial == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-4)
    with pytest.raises(ArgumentError, match="meet their bounds"):
        jax.grad(lambda t: value(t, "cost", "mass"))(1.0)


@pytest.mark.parametrize("penalty", ["kl", "mass"])
def test_the_slope_by_the_price_of_mass_is_the_mass_that_differs(penalty: str) -> None:
    def found(rho: Any) -> Any:
        return unbalanced(2 * A, 3 * B, SQUARES, 0.5, rho, penalty=penalty, tolerance=1e-12)

    slope = float(jax.grad(lambda rho: found(rho).value)(0.7))
    sides = [float(found(0.7 + t).value) for t in (1e-5, -1e-5)]
    assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-5)
    if penalty == "mass":
        plan = np.asarray(found(0.7).plan)
        differs = np.abs(plan.sum(axis=1) - 2 * A).sum() + np.abs(plan.sum(axis=0) - 3 * B).sum()
        assert slope == pytest.approx(differs, rel=1e-6)
        with pytest.raises(ArgumentError, match=r"meet their bounds\n.*and once"):
            jax.hessian(lambda cost: unbalanced(2 * A, 3 * B, cost, 0.5, 0.7, penalty="mass").value)(SQUARES)


def test_derivatives_by_theorem_keep_no_iterations_and_unrolled_ones_recompute_them() -> None:
    """The reverse pass of the default holds a few arrays of the size of the cost, however long it iterates."""
    cost = jax.ShapeDtypeStruct((200, 200), jnp.float64)

    def scratch(way: str, count: int) -> int:
        slope = jax.jit(
            jax.grad(lambda c: sinkhorn(None, None, c, 0.1, derivative=way, max_iterations=count).value)
        )
        return int(slope.lower(cost).compile().memory_analysis().temp_size_in_bytes)

    assert scratch("envelope", 2000) == scratch("envelope", 20)
    grown = scratch("unroll", 100) - scratch("unroll", 50)
    assert grown < 50 * 200 * 200 * 8 / 10
