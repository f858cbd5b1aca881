"""Transport on the line against SciPy, sorting and linear programming."""

import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability import Normal
from chainrule.probability.divergences import slide
from chainrule.probability.transport import exact, monotone_coupling, wasserstein, wasserstein_1d
from chainrule.probability.transport.one_dimensional import ordered


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, ...]:
    """Points of both sides and their weights, some of them zero."""
    random = np.random.default_rng(0)
    a, b = random.dirichlet(np.ones(7)), random.dirichlet(np.ones(5))
    a[2], b[0] = 0, 0
    return random.normal(size=7), random.normal(1.0, 2.0, size=5), a / a.sum(), b / b.sum()


def cheapest(x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, p: float) -> float:
    """The linear program over all plans."""
    cost = np.abs(x[:, None] - y[None]) ** p
    rows = np.kron(np.eye(len(x)), np.ones(len(y)))
    columns = np.kron(np.ones(len(x)), np.eye(len(y)))
    found = scipy.optimize.linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([a, b]))
    return found.fun ** (1 / p)


def test_it_is_the_cheapest_plan(samples) -> None:
    x, y, a, b = samples
    for p in (1, 2, 3):
        assert float(wasserstein_1d(x, y, p, a, b)) == pytest.approx(cheapest(x, y, a, b, p), abs=1e-9)
    assert float(wasserstein_1d(x, y)) == pytest.approx(scipy.stats.wasserstein_distance(x, y))
    assert float(wasserstein_1d(x[:5], y, math.inf)) == pytest.approx(
        np.abs(np.sort(x[:5]) - np.sort(y)).max()
    )


def test_it_compiles_and_has_the_gradient_of_sorted_points(samples) -> None:
    x, y = samples[0][:5], samples[1]
    value, gradient = jax.jit(jax.value_and_grad(lambda x: wasserstein_1d(x, y, 2) ** 2))(x)
    order = np.argsort(x)
    wanted = np.zeros(5)
    wanted[order] = 2 * (np.sort(x) - np.sort(y)) / 5
    np.testing.assert_allclose(gradient, wanted, atol=1e-12)
    assert float(value) == pytest.approx(((np.sort(x) - np.sort(y)) ** 2).mean())
    assert np.isfinite(jax.grad(wasserstein_1d)(x, x)).all()


def test_counts_for_weights_mean_what_scipy_means_by_them() -> None:
    assert float(wasserstein_1d([0.0, 1.0], [0.0, 1.0], 1, [3, 1], [2, 2])) == pytest.approx(0.25, abs=1e-15)


def test_a_thousand_weighted_samples_agree_with_scipy_to_twelve_digits() -> None:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(1000, 9)), random.normal(size=(1000, 6))
    a, b = random.dirichlet(np.ones(9), 1000), random.dirichlet(np.ones(6), 1000)
    found = jax.jit(wasserstein_1d, static_argnums=2)(x, y, 1, a, b)
    assert found.shape == (1000,)
    expected = [scipy.stats.wasserstein_distance(*one) for one in zip(x, y, a, b, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_batch_is_each_of_its_members_and_shares_what_has_no_batch_axis(samples) -> None:
    x, y, a, b = samples
    rows = np.stack([x, 2 * x, x + 1])
    found = wasserstein_1d(rows, y, 2, a, b)
    np.testing.assert_allclose(found, [float(wasserstein_1d(row, y, 2, a, b)) for row in rows], atol=1e-14)
    cubes = np.broadcast_to(rows[:, None], (3, 2, 7))
    np.testing.assert_allclose(
        wasserstein_1d(cubes, y, 2, a, b), np.stack([found, found], axis=1), atol=1e-14
    )


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_of_every_sign_and_size_are_put_in_order(kind) -> None:
    random = np.random.default_rng(2)
    rows = np.concatenate([random.normal(size=(3, 20)), 1e30 * random.normal(size=(3, 9))], axis=1).astype(
        kind
    )
    rows[:, :6] = [0.0, -0.0, 1e-30, -1e-30, 3.0, 3.0]
    np.testing.assert_array_equal(ordered(jax.numpy.asarray(rows)), np.sort(rows))
    weights = random.normal(size=rows.shape)
    slope = jax.grad(lambda x: (ordered(x) * weights).sum())(jax.numpy.asarray(rows))
    expected = np.zeros_like(weights)
    np.put_along_axis(expected, np.argsort(rows, kind="stable"), weights, axis=1)
    np.testing.assert_allclose(slope, expected, rtol=1e-6)


def test_the_monotone_coupling_is_the_exact_plan(samples) -> None:
    x, y, a, b = samples
    entries = monotone_coupling(x, y, a, b)
    assert len(entries.mass) == len(x) + len(y) - 1
    plan = np.asarray(entries.dense(7, 5))
    np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-14)
    np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-14)
    cost = (x[:, None] - y[None]) ** 2
    np.testing.assert_allclose(plan, exact(a, b, cost).plan, atol=1e-12)
    assert float(wasserstein_1d(x, y, 2, a, b)) ** 2 == pytest.approx((plan * cost).sum(), abs=1e-12)


@pytest.mark.slow
def test_rounding_moves_no_mass_to_far_points_that_have_next_to_none() -> None:
    with jax.enable_x64(False):
        gaps = np.linspace(
            0, 6, 25
        )  # the nodes of quadrature reach far beyond all that single precision can see
        found = slide(Normal(0.0, 1.0), Normal(0.0, 1.0), gaps)
    np.testing.assert_allclose(found.w2, gaps, atol=1e-2)


def test_its_derivative_by_weights_is_that_of_differences(samples) -> None:
    x, y, a, b = samples
    a = (a + 0.1) / (a + 0.1).sum()
    move = np.zeros(7)
    move[1], move[4] = 1, -1

    def value(t):
        return wasserstein_1d(x, y, 2, a + t * move, b) ** 2

    slope = float(jax.grad(value)(0.0))
    assert slope == pytest.approx(float(value(1e-6) - value(-1e-6)) / 2e-6, abs=1e-7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wasserstein_1d([0.0], [1.0], p=0.5), "use p >= 1"),
        (lambda: wasserstein_1d(np.zeros((2, 2)), np.zeros((3, 2))), r"wasserstein\(x, y\)"),
        (lambda: wasserstein_1d([], [1.0]), "an axis of points"),
        (lambda: wasserstein_1d(0.0, [1.0]), "an axis of points"),
        (lambda: wasserstein_1d([math.nan], [1.0]), "x.* is nan"),
        (lambda: wasserstein_1d([0.0, 1.0], [1.0], a=[1.0]), r"a\): shape \(1,\)"),
        (lambda: wasserstein_1d([0.0, 1.0], [1.0], a=[0.5, 0.4]), "a sums to 0.9, b to 1"),
        (lambda: wasserstein_1d([0.0, 1.0], [1.0], a=[1.5, -0.5]), r"a\[1\] is -0.5"),
    ],
)
def test_what_cannot_be_moved_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_points_that_stay_where_they_are_have_no_slope() -> None:
    slope = jax.jit(jax.grad(lambda x, y: wasserstein_1d(x, y, 1)))
    np.testing.assert_allclose(
        slope(np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 2.0])), [0, 0, -1 / 3], rtol=1e-6
    )
    np.testing.assert_allclose(
        slope(np.array([0.0, 1.0]), np.array([0.0, 0.0, 2.0, 2.0])), [0, -0.5], rtol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_high_powers_of_lengths_fit_into_single_precision(scale) -> None:
    x, y = (np.random.default_rng(seed).normal(size=(6, 2)) for seed in (0, 1))
    small = [(scale * points).astype(np.float32) for points in (x, y)]
    for distance, column in ((wasserstein, slice(None)), (wasserstein_1d, 0)):
        found, slope = jax.value_and_grad(lambda x, d=distance, c=column: d(x, small[1][:, c], 20))(
            small[0][:, column]
        )
        expected = float(distance(x[:, column], y[:, column], 20))
        assert float(found) == pytest.approx(scale * expected, rel=1e-4)
        assert 0 < float(jnp.abs(slope).max()) < 2
