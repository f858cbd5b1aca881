"""Certificates: c-transforms, bounds that hold the answer, rounding, functions of bounded slope; and the costs."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import (
    bounds,
    c_transform,
    cost_matrix,
    exact,
    kantorovich_rubinstein,
    lipschitz_constant,
    rounded,
    slack,
    wasserstein,
)

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(7, 3)), DRAW.normal(size=(5, 3))
GRID = np.linspace(-2, 2, 41)
EVEN = np.full(2, 0.5)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("potential", [lambda x: 0 * x, lambda x: 5 * np.sin(3 * x), lambda x: 0.3 * x])
def test_for_distances_transforming_twice_is_a_change_of_sign_and_slopes_stay_below_one(
    potential: Callable[[np.ndarray], np.ndarray],
) -> None:
    apart = np.abs(GRID[:, None] - GRID[None])
    once = c_transform(apart, potential(GRID))
    twice = c_transform(apart, once, axis=1)
    np.testing.assert_allclose(twice, -np.asarray(once), atol=1e-12)
    assert float(lipschitz_constant(once, apart)) <= 1 + 1e-9


def test_a_constant_transforms_to_a_constant_and_any_potential_becomes_feasible() -> None:
    apart = np.abs(GRID[:, None] - GRID[None])
    assert float(lipschitz_constant(c_transform(apart, np.full(41, 2.0)), apart)) == 0
    cost, f = DRAW.normal(size=(6, 9)), DRAW.normal(size=6)
    g = np.asarray(c_transform(cost, f))
    room = cost - f[:, None] - g[None]
    assert room.min() > -1e-15
    np.testing.assert_allclose(room.min(axis=0), 0, atol=1e-15)
    again = c_transform(cost, c_transform(cost, c_transform(cost, f), axis=1))
    np.testing.assert_allclose(again, g, atol=1e-12)


def test_rounding_gives_a_coupling_within_twice_the_error_of_the_plan() -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        a, b = random.dirichlet(np.ones(8)), random.dirichlet(np.ones(6))
        a[0] = 0
        a = a / a.sum()
        plan = a[:, None] * b[None] * random.uniform(0.5, 1.6, size=(8, 6))
        error = np.abs(plan.sum(axis=1) - a).sum() + np.abs(plan.sum(axis=0) - b).sum()
        new = np.asarray(rounded(plan, a, b))
        np.testing.assert_allclose(new.sum(axis=1), a, atol=1e-14)
        np.testing.assert_allclose(new.sum(axis=0), b, atol=1e-14)
        assert new.min() >= 0
        assert np.abs(new - plan).sum() <= 2 * error + 1e-14
        np.testing.assert_allclose(rounded(new, a, b), new, atol=1e-14)


def test_any_potential_and_any_plan_hold_the_answer_between_them() -> None:
    between = jax.jit(bounds)
    for seed in range(20):
        random = np.random.default_rng(seed)
        a, b = random.dirichlet(np.ones(6)), random.dirichlet(np.ones(9))
        cost = random.normal(size=(6, 9))
        found = exact(a, b, cost)
        near = 0.0
        for noise in (1.0, 0.1, 0.0):
            f = np.asarray(found.potentials[0]) + noise * random.normal(size=6)
            plan = np.asarray(found.plan) + noise * random.uniform(size=(6, 9))
            interval = between(a, b, cost, f, plan)
            assert float(interval.lower) - 1e-12 <= float(found.cost) <= float(interval.upper) + 1e-12
            near = float(interval.gap)
        assert near < 1e-9, "the optimum itself leaves no gap"


def test_a_function_of_bounded_slope_attains_the_earth_movers_distance() -> None:
    a, b = DRAW.dirichlet(np.ones(7)), DRAW.dirichlet(np.ones(5))
    distance = float(wasserstein(X, Y, 1, a, b))
    for bound in (1.0, 2.5):
        found = kantorovich_rubinstein(X, Y, a, b, bound)
        assert float(found.value) == pytest.approx(bound * distance, abs=1e-9)
        apart = a @ np.asarray(found(X)) - b @ np.asarray(found(Y))
        assert apart == pytest.approx(bound * distance, abs=1e-9)
        new = DRAW.normal(size=(60, 3)) * 3
        assert float(lipschitz_constant(found(new), cdist(new, new))) <= bound + 1e-9


@pytest.mark.parametrize("name", ["euclidean", "sqeuclidean", "cosine"])
@pytest.mark.parametrize("dim", [3, 40])
def test_named_costs_are_those_of_scipy(name: str, dim: int) -> None:
    x, y = DRAW.normal(size=(6, dim)), DRAW.normal(size=(4, dim))
    np.testing.assert_allclose(cost_matrix(x, y, name), cdist(x, y, name), atol=1e-12)


def test_costs_have_derivatives_where_points_meet() -> None:
    for name, p in (("euclidean", 1), ("power", 1.5), ("sqeuclidean", 2), ("cosine", 1)):
        slope = jax.grad(lambda x: cost_matrix(x, x, name, p).sum())(jnp.asarray(X))  # noqa: B023
        assert np.isfinite(slope).all(), name
    np.testing.assert_allclose(cost_matrix(X, Y, "power", 3), cdist(X, Y) ** 3, atol=1e-12)
    long = np.concatenate([X, np.zeros((7, 20))], axis=1)
    assert float(cost_matrix(long, long).min()) >= 0


def test_costs_of_your_own_are_functions_or_matrices() -> None:
    own = cost_matrix(X, Y, lambda x, y: jnp.abs(x - y).sum())
    np.testing.assert_allclose(own, cdist(X, Y, "cityblock"), atol=1e-12)
    np.testing.assert_array_equal(cost_matrix(X, Y, own), own)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cost_matrix(X, Y, "sqeuclid"), r"did you mean 'sqeuclidean'"),
        (lambda: cost_matrix(X, Y, np.zeros((2, 2))), r"\(2, 2\) does not fit 7 and 5 points"),
        (lambda: cost_matrix(X, Y[:, :2]), "rows of equally many numbers"),
        (lambda: cost_matrix(X, Y, "power", 0), "exponent must be positive"),
        (lambda: c_transform(np.zeros((2, 3)), np.zeros(3)), "0 for a potential of rows"),
        (lambda: c_transform(np.zeros((2, 3)), np.zeros(3), axis=2), "axis=2"),
        (lambda: rounded(np.zeros((2, 3)), np.zeros(3), np.zeros(2)), "a weight for each row"),
        (lambda: rounded(-np.eye(2) / 2, EVEN, EVEN), r"plan\[0, 0\] is -0.5; plan must be finite and not"),
        (lambda: rounded(np.eye(2) * np.nan, EVEN, EVEN), r"plan\[0, 0\] is nan"),
        (lambda: rounded(np.eye(2) / 2, EVEN / 2, EVEN), r"a sums to 0.5, b to 1"),
        (lambda: bounds([1.5, -0.5], EVEN, np.eye(2), EVEN, np.eye(2) / 2), r"a\[1\] is -0.5"),
        (lambda: slack(np.zeros((2, 3)), np.zeros(3), np.zeros(2)), "a potential for each row"),
        (lambda: slack(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(2)), "a potential for each row"),
        (lambda: lipschitz_constant(np.zeros(2), np.zeros((2, 3))), "square matrix"),
        (lambda: kantorovich_rubinstein(X, Y, bound=0.0), "bound must be positive"),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
