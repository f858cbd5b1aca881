"""Entropic plans against closed forms, against exact transport, and one way of solving against another."""

import warnings
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.spatial.distance import cdist

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability.transport import (
    alternating_projections,
    bounds,
    contraction_rate,
    cost_matrix,
    local_rate,
    point_costs,
    sinkhorn,
    unbalanced,
)
from chainrule.probability.transport.entropic import kernel

A, B = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
SQUARES = np.array([[(i - j) ** 2 for j in range(3)] for i in range(3)], float)
DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(32, 2)), DRAW.normal(size=(24, 2)) * np.array([[2.0, 0.5]]) + 1
COST = cdist(X, Y, "sqeuclidean")
SINGLE = cdist(*np.random.default_rng(0).normal(size=(2, 50, 2)), "sqeuclidean").astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def entropy(p: np.ndarray) -> float:
    return float(-(p * np.log(p)).sum())


def exactly(cost: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The best plan by linear programming."""
    n, m = cost.shape
    sums = np.concatenate([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    return float(scipy.optimize.linprog(cost.ravel(), A_eq=sums, b_eq=np.concatenate([a, b])).fun)


# ---------------------------------------------------------------------- values


@pytest.mark.parametrize("method", ["auto", "log", "scaling"])
def test_two_points_have_the_plan_of_a_sigmoid(method: Any) -> None:
    found = sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 0.5, method=method)
    assert float(found.plan[0, 1]) == pytest.approx(1 / (1 + np.exp(2.0)) / 2, abs=1e-9)
    assert float(found.cost) == pytest.approx(0.1192029, abs=1e-7)
    assert float(found.value) == pytest.approx(0.2831096, abs=1e-7)
    assert float(found.entropic_value) == pytest.approx(-0.4100376, abs=1e-7)


def test_values_tend_to_the_exact_cost_within_the_bound_of_entropies() -> None:
    for eps, value in ((1.0, 1.2581103), (0.1, 0.9422810), (0.01, 0.9042281)):
        found = sinkhorn(A, B, SQUARES, eps, tolerance=1e-10)
        assert float(found.value) == pytest.approx(value, abs=1e-7)
        assert 0.9 <= value <= 0.9 + eps * min(entropy(A), entropy(B))
    large = sinkhorn(A, B, SQUARES, 1e6)
    np.testing.assert_allclose(large.plan, np.outer(A, B), atol=1e-6)


def test_cost_plan_and_both_conventions_of_the_value_agree() -> None:
    found = sinkhorn(A, B, SQUARES, 1.0, tolerance=1e-12)
    plan = np.asarray(found.plan)
    assert float(found.cost) == pytest.approx(1.0155637, abs=1e-7)
    assert plan[0, 2] == pytest.approx(0.1474866, abs=1e-7)
    divergence = (plan * np.log(plan / np.outer(A, B))).sum()
    assert float(found.value) == pytest.approx((SQUARES * plan).sum() + divergence, abs=1e-10)
    assert float(found.entropic_value) == pytest.approx((SQUARES * plan).sum() - entropy(plan), abs=1e-10)
    np.testing.assert_allclose(plan.sum(axis=1), A, atol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), B, atol=1e-12)
    # How much worse the product of the weights is, is its divergence from the plan.
    product = (SQUARES * np.outer(A, B)).sum() - float(found.value)
    assert product == pytest.approx((np.outer(A, B) * np.log(np.outer(A, B) / plan)).sum(), abs=1e-9)
    assert product == pytest.approx(0.4818897, abs=1e-7)


def test_potentials_share_the_value_equally_and_extend_to_unseen_points() -> None:
    found = sinkhorn(A, B, SQUARES, 0.5, tolerance=1e-12)
    f, g = (np.asarray(one) for one in found.potentials)
    assert f @ A == pytest.approx(g @ B)
    assert f @ A + g @ B == pytest.approx(float(found.value))
    np.testing.assert_allclose(found.extended(SQUARES[:2]), f[:2], atol=1e-9)
    np.testing.assert_allclose(found.extended(SQUARES[:, 1:], axis=1), g[1:], atol=1e-9)
    with pytest.raises(ArgumentError, match="the other way round"):
        found.extended(SQUARES[:2], axis=1)


@pytest.mark.parametrize("eps", [0.5, 0.02])
def test_every_way_of_solving_finds_the_same_plan(eps: float) -> None:
    plain = sinkhorn(None, None, COST, eps, acceleration=0, tolerance=1e-6, max_iterations=100_000)
    for other in (
        sinkhorn(None, None, COST, eps),
        sinkhorn(None, None, COST, eps, method="log"),
        sinkhorn(None, None, point_costs(X, Y, block=7), eps),
    ):
        assert bool(other.converged)
        np.testing.assert_allclose(other.plan, plain.plan, atol=3e-6)
        assert float(other.value) == pytest.approx(float(plain.value), rel=1e-5)
        assert float(other.cost) == pytest.approx(float(plain.cost), rel=1e-4)
    assert int(sinkhorn(None, None, COST, eps).iterations) < int(plain.iterations) / 2


def test_a_large_matrix_taken_some_rows_at_a_time_gives_the_same_sums_and_slopes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What processors do with large matrices, here with a small one."""

    def solved(cost: Any) -> Any:
        found = sinkhorn(None, None, cost, 0.5)
        return found.value, found.cost, found.iterations

    one = jax.jit(lambda c: (solved(c), jax.grad(lambda c: solved(c)[0])(c)))(COST)
    monkeypatch.setattr(kernel, "_LARGE", 100)
    monkeypatch.setattr(kernel, "_CACHED", 100)
    assert kernel._block_rows(*COST.shape) == 4
    assert kernel._block_rows(31, 24) == 31  # no size divides it
    jax.clear_caches()
    other = jax.jit(lambda c: (solved(c), jax.grad(lambda c: solved(c)[0])(c)))(COST)
    jax.clear_caches()
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-14)


def test_intervals_hold_the_exact_cost_and_shrink_with_eps() -> None:
    exact = exactly(COST, np.full(32, 1 / 32), np.full(24, 1 / 24))
    gaps = []
    for eps in (2.0, 0.2, 0.02):
        found = sinkhorn(None, None, COST, eps)
        lower, upper = (float(one) for one in found.bounds)
        assert lower - 1e-9 <= exact <= upper + 1e-9
        gaps.append(float(found.gap))
        dense = bounds(found.problem.a, found.problem.b, COST, found.potentials[0], found.plan)
        np.testing.assert_allclose([lower, upper], [float(dense.lower), float(dense.upper)], rtol=1e-9)
        blocks = sinkhorn(None, None, point_costs(X, Y, block=5), eps).bounds
        np.testing.assert_allclose([float(one) for one in blocks], [lower, upper], rtol=1e-4)
    assert gaps[0] > 5 * gaps[1] > 5 * gaps[2]


def test_points_without_weight_change_nothing_and_have_finite_potentials() -> None:
    padded = np.pad(COST, ((0, 8), (0, 40)), constant_values=7.0)
    rows, columns = (
        np.pad(np.full(n, 1 / n), (0, more)) for n, more in zip(COST.shape, (8, 40), strict=True)
    )
    found, plain = sinkhorn(rows, columns, padded, 0.3), sinkhorn(None, None, COST, 0.3)
    np.testing.assert_allclose(found.plan[:32, :24], plain.plan, atol=1e-6)
    assert np.isfinite(np.concatenate([np.asarray(one) for one in found.potentials])).all()
    assert float(found.value) == pytest.approx(float(plain.value), abs=1e-6)
    np.testing.assert_allclose(found.extended(padded[:, 24:], axis=1), found.potentials[1][24:], atol=1e-6)
    textbook = sinkhorn([0.5, 0.5, 0.0], [0.5, 0.0, 0.5], SQUARES, 1.0, method="scaling", tolerance=1e-10)
    usual = sinkhorn([0.5, 0.5, 0.0], [0.5, 0.0, 0.5], SQUARES, 1.0, tolerance=1e-10)
    for one, other in zip(textbook.potentials, usual.potentials, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)


@pytest.mark.parametrize("method", ["auto", "log"])
def test_ragged_sets_filled_with_points_that_are_near_each_other_alone_stay_what_they_are(
    method: Any,
) -> None:
    """Zeros fill both sets, far from all points with weight: no other potential is as large as theirs."""
    x, y = (np.concatenate([points + 50, np.zeros((9, 2))]) for points in (X, Y))
    a, b = (np.pad(np.full(n, 1 / n), (0, 9)) for n in COST.shape)
    plain = sinkhorn(None, None, COST, 0.3, tolerance=1e-9)

    def solved(x: Any, costs: Any = cost_matrix) -> Any:
        return sinkhorn(a, b, costs(x, y), 0.3, method=method, tolerance=1e-9)

    for costs in (cost_matrix, lambda x, y: point_costs(x, y, block=10)):
        found = solved(x, costs)
        assert float(found.value) == pytest.approx(float(plain.value), abs=1e-6)
        assert float(found.cost) == pytest.approx(float(plain.cost), abs=1e-6)
        assert np.isfinite(np.concatenate([np.asarray(one) for one in found.potentials])).all()
        np.testing.assert_allclose(
            [float(v) for v in found.bounds], [float(v) for v in plain.bounds], atol=1e-5
        )
        slope = jax.grad(lambda x, costs=costs: solved(x, costs).cost)(x)
        assert np.isfinite(np.asarray(slope)).all()
        assert (np.asarray(slope)[32:] == 0).all()


def test_many_problems_at_once_are_those_one_by_one() -> None:
    costs = jnp.asarray(np.random.default_rng(2).uniform(size=(32, 6, 5)))
    values, flags = jax.jit(
        jax.vmap(lambda cost: (lambda r: (r.value, r.converged))(sinkhorn(None, None, cost, 0.1)))
    )(costs)
    assert np.asarray(flags).all()
    np.testing.assert_allclose(values, [float(sinkhorn(None, None, c, 0.1).value) for c in costs], rtol=1e-9)


def test_single_precision_solves_what_the_textbook_form_refuses() -> None:
    cost = cdist(DRAW.normal(size=(64, 2)), DRAW.normal(size=(64, 2)), "sqeuclidean")
    eps = 1e-4 * cost.mean()
    double = float(sinkhorn(None, None, cost, eps, tolerance=1e-4).cost)
    with jax.enable_x64(False):
        found = sinkhorn(None, None, cost, eps)
        assert found.value.dtype == jnp.float32
        assert float(found.error) < 1e-3
        assert float(found.cost) == pytest.approx(double, rel=1e-3)
        with pytest.raises(ArgumentError, match=r"eps=.* and costs up to .* vanish") as error:
            sinkhorn(None, None, cost, eps, method="scaling")
        assert 'method="log"' in str(error.value)
        assert float(sinkhorn(None, None, cost, eps, method="log").error) < 1e-3


def test_groups_far_apart_are_solved_in_a_few_iterations() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 2)) * 0.1 + 2.0 * draw.integers(0, 3, (60, 1))
    y = draw.normal(size=(60, 2)) * 0.1 + 1.7 * draw.integers(0, 4, (60, 1))
    found = sinkhorn(None, None, cdist(x, y, "sqeuclidean"), 0.01)
    assert bool(found.converged)
    assert int(found.iterations) < 300


@pytest.mark.parametrize("method", ["auto", "log"])
def test_mass_that_passes_from_column_to_column_needs_no_more_iterations_with_leaps_than_without(
    method: str,
) -> None:
    """The error stays as it is for long, and leaps back to the beginning made it stay for ever."""
    draw = np.random.default_rng(5)
    histograms = [([1 / 3, 2 / 3], [1 / 6, 1 / 3, 1 / 2])]
    histograms += [
        tuple(w / w.sum() for w in (draw.integers(1, 6, n).astype(float) for n in (6, 7))) for _ in range(2)
    ]
    for a, b in histograms:
        cost = np.abs(np.arange(len(a))[:, None] - np.arange(len(b))[None]).astype(float)
        for eps in (1e-2, 1e-4):
            plain, fast = (
                sinkhorn(a, b, cost, eps, method=method, acceleration=depth, max_iterations=4000)
                for depth in (0, 5)
            )
            assert bool(fast.converged)
            assert int(fast.iterations) < 1.5 * int(plain.iterations)
    a, b = histograms[0]
    cost = np.abs(np.arange(2)[:, None] - np.arange(3)[None]).astype(float)
    for penalty in ("kl", "mass"):
        assert bool(unbalanced(a, b, cost, 1e-2, 1e4, penalty=penalty).converged)


# ---------------------------------------------------------------------- projections and rates


def test_projections_leave_no_mass_where_there_is_no_weight() -> None:
    found = alternating_projections([0.0, 0.5, 0.5], [1.0, 0.0, 0.0], SQUARES, 1.0, steps=5)
    expected = np.zeros((3, 3))
    expected[1:, 0] = 0.5
    np.testing.assert_allclose(found.plans[-1], expected, atol=1e-6)
    assert np.isfinite(found.values).all()


def test_projections_lose_exactly_the_divergence_of_each_step() -> None:
    limit = np.asarray(sinkhorn(A, B, SQUARES, 1.0, tolerance=1e-14).plan)
    found = alternating_projections(A, B, SQUARES, 1.0, steps=8)
    plans = np.asarray(found.plans)

    def divergence(p: np.ndarray, q: np.ndarray) -> float:
        return float((p * np.log(p / q) - p + q).sum())

    left = [divergence(limit, plan) for plan in plans]
    for before, after, plan, moved in zip(left, left[1:], plans, plans[1:], strict=False):
        assert before - after == pytest.approx(divergence(moved, plan), abs=1e-10)
        assert after <= before
    np.testing.assert_allclose(plans[1::2].sum(axis=2), np.tile(A, (4, 1)), atol=1e-12)
    np.testing.assert_allclose(plans[2::2].sum(axis=1), np.tile(B, (4, 1)), atol=1e-12)
    values = np.asarray(found.values)[1:]
    assert (np.diff(values) >= -1e-12).all()
    assert values[-1] <= 1.2581103 + 1e-7
    # The same plans as by scaling with the new u each time; with the old one mass goes wrong.
    kernel = np.exp(-SQUARES)
    v = np.ones(3)
    for _ in range(4):
        u = A / (kernel @ v)
        v = B / (kernel.T @ u)
    np.testing.assert_allclose(plans[8], u[:, None] * kernel * v[None], rtol=1e-9)
    u, v = np.ones(3), np.ones(3)
    for _ in range(200):
        u, v = A / (kernel @ v), B / (kernel.T @ u)
    assert (u[:, None] * kernel * v[None]).sum() == pytest.approx(4.8689, abs=1e-4)


def test_iterations_shrink_errors_as_fast_as_known_before_and_in_the_end_by_the_local_rate() -> None:
    known = contraction_rate(SQUARES, 1.0)
    assert float(known.delta) == pytest.approx(8)
    assert float(known.kappa) == pytest.approx(0.9640276, abs=1e-7)
    errors = np.asarray(alternating_projections(A, B, SQUARES, 1.0, steps=24).errors)[1::2]
    rates = errors[1:] / errors[:-1]
    local = float(local_rate(sinkhorn(A, B, SQUARES, 1.0, tolerance=1e-12)))
    assert (rates <= float(known.rate)).all()
    assert rates[-1] == pytest.approx(local, rel=1e-3)


# ---------------------------------------------------------------------- mass that may disappear


def test_the_mass_of_two_points_is_known_in_closed_form() -> None:
    rho, eps = 0.7, 0.3
    found = unbalanced([2.0], [3.0], [[1.0]], eps, rho, tolerance=1e-12)
    expected = 6 ** ((rho + eps) / (2 * rho + eps)) * np.exp(-1 / (2 * rho + eps))
    assert float(found.mass) == pytest.approx(expected, abs=1e-9)
    assert float(found.mass) == pytest.approx(1.5931941, abs=1e-7)
    small = unbalanced([2.0], [3.0], [[1.0]], 1e-4, rho)
    assert float(small.mass) == pytest.approx(6**0.5 * np.exp(-1 / (2 * rho)), rel=1e-3)
    p = float(found.plan[0, 0])

    def divergence(p: float, q: float) -> float:
        return p * np.log(p / q) - p + q

    primal = p + eps * divergence(p, 6) + rho * divergence(p, 2) + rho * divergence(p, 3)
    assert float(found.value) == pytest.approx(primal, abs=1e-8)


def test_a_high_price_of_mass_keeps_the_weights_and_a_low_one_leaves_far_points_alone() -> None:
    kept = unbalanced(A, B, SQUARES, 0.5, 1e6)
    np.testing.assert_allclose(kept.plan, sinkhorn(A, B, SQUARES, 0.5).plan, atol=1e-5)
    far = np.array([[0.0, 100.0], [100.0, 100.0]])
    partial = unbalanced([0.5, 0.5], [0.5, 0.5], far, 0.1, 1.0, penalty="mass")
    assert float(partial.plan[0, 0]) == pytest.approx(0.5, abs=0.01)
    assert float(partial.mass) == pytest.approx(0.5, abs=0.01)
    with pytest.raises(ArgumentError, match="mass is not kept"):
        partial.bounds  # noqa: B018
    np.testing.assert_array_equal(
        unbalanced(A, B, SQUARES, 0.5, np.inf).plan, sinkhorn(A, B, SQUARES, 0.5).plan
    )


# ---------------------------------------------------------------------- another library


def test_values_and_plans_are_those_of_another_library(oracle: Any) -> None:
    ot = oracle("ot")
    a, b = (np.random.default_rng(seed).dirichlet(np.ones(n)) for seed, n in ((3, 32), (4, 24)))
    plan = ot.sinkhorn(a, b, COST, 0.5, stopThr=1e-12)
    found = sinkhorn(a, b, COST, 0.5, tolerance=1e-11)
    np.testing.assert_allclose(found.plan, plan, atol=1e-9)
    relaxed = ot.unbalanced.sinkhorn_unbalanced(a, b, COST, 0.5, 0.8, stopThr=1e-12)
    np.testing.assert_allclose(unbalanced(a, b, COST, 0.5, 0.8, tolerance=1e-11).plan, relaxed, atol=1e-8)


# ---------------------------------------------------------------------- what is refused, what is said


def test_weights_that_were_normalised_in_single_precision_are_weights_in_double() -> None:
    tenths, cost = np.full(10, 0.1, np.float32), cdist(X[:10], Y[:10], "sqeuclidean")
    assert abs(tenths.astype(np.float64).sum() - 1) > 1e-8
    found = sinkhorn(tenths, None, cost, 0.5, tolerance=1e-12)
    assert bool(found.converged)
    np.testing.assert_allclose(found.plan, sinkhorn(None, None, cost, 0.5, tolerance=1e-12).plan, atol=1e-11)
    with pytest.raises(ArgumentError, match=r"sinkhorn\(a\): weights sum to 1.00001 instead of 1"):
        sinkhorn(tenths * 1.00001, None, cost, 0.5)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: sinkhorn(A, B, SQUARES, 0.0), r"eps=0\).*\n.*exact\(a, b, cost\)"),
        (lambda: sinkhorn(A, B, SQUARES, [0.1, 0.2]), "one number"),
        (lambda: sinkhorn(A / 2, B, SQUARES), r"weights sum to 0.5 .*\n.*unbalanced"),
        (lambda: sinkhorn(-A, B, SQUARES), r"a\[0\] is -0.5"),
        (lambda: sinkhorn(A[:2], B, SQUARES), r"sinkhorn\(a\): shape \(2,\) does not fit"),
        (lambda: sinkhorn(A, B, SQUARES[0]), "two axes, not shape"),
        (lambda: unbalanced(A, 0 * B, SQUARES), r"unbalanced\(b\): all weights are zero"),
        (lambda: sinkhorn(A, B, np.where(SQUARES > 3, np.nan, SQUARES)), r"cost\[0, 2\] is nan"),
        (lambda: sinkhorn(A, B, SQUARES * np.nan, 1.0, method="scaling"), r"cost\[0, 0\] is nan"),
        (lambda: unbalanced(A, B, SQUARES, 0.5, 0.0), r"one positive number\n.*rho=inf"),
        (lambda: sinkhorn(A, B, SQUARES, tolerance=0.0), "never zero"),
        (lambda: sinkhorn(A, B, SQUARES, method="best"), '"auto", "log" or "scaling"'),
        (lambda: sinkhorn(None, None, point_costs(np.zeros((3, 2)), X, SQUARES)), "as it is"),
        (lambda: point_costs(np.zeros((10, 2)), np.zeros(2)), "rows of equally many numbers"),
        (lambda: alternating_projections(A, B, SQUARES * np.nan, 1.0), r"cost\[0, 0\] is nan"),
        (lambda: contraction_rate(SQUARES * np.nan, 1.0), r"cost\[0, 0\] is nan"),
        (lambda: jax.grad(lambda c: sinkhorn(A, B, c, 1.0).value)(SQUARES * np.nan), r"cost\[0, 0\] is nan"),
        (lambda: jax.grad(lambda eps: sinkhorn(A, B, SQUARES, eps).value)(-1.0), r"eps=-1\).*"),
    ],
)
def test_what_cannot_be_solved_is_refused_with_a_way_out(work: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        work()


def test_an_eps_below_the_digits_of_single_precision_is_refused() -> None:
    words = r"more than eps\n.*double precision.*exact\(a"
    with jax.enable_x64(False), pytest.raises(ArgumentError, match=words):
        sinkhorn(*np.random.default_rng(1).dirichlet(np.ones(50), 2), SINGLE, 1e-9)  # mass has to be split


@pytest.mark.parametrize("method", ["auto", "log"])
def test_where_potentials_are_rounded_the_error_is_that_of_the_plan_they_say(method: str) -> None:
    """Their own products were right to 1e-7, the plan of the rounded ones to a percent."""
    with pytest.warns(
        ChainruleWarning, match=r"misplaced: float64 keeps .* use a larger eps, or exact\(a, b, cost\)"
    ):
        found = sinkhorn(A, B, SQUARES, 1e-13, method=method)
    assert not bool(found.converged)
    plan = np.asarray(found.plan)
    wrong = max(np.abs(plan.sum(axis=0) - B).sum(), np.abs(plan.sum(axis=1) - A).sum())
    assert wrong > 1e-4
    assert (
        wrong / 10 < float(found.error) < 10 * wrong
    )  # potentials are shifted by a constant, and rounded again
    assert bool(sinkhorn(A, B, SQUARES, 1e-7, method=method).converged)


def test_blocks_that_do_not_fit_are_refused_with_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.core import machine

    monkeypatch.setattr(machine, "memory", lambda: 2_000_000)
    with pytest.raises(ArgumentError, match=r"block=1000.*\n.*use block=(\d+)") as error:
        point_costs(np.zeros((1000, 2)), np.zeros((1000, 2)), block=1000)
    fits = int(str(error.value).split("use block=")[1].split(",")[0])
    assert point_costs(np.zeros((1000, 2)), np.zeros((1000, 2)), block=fits).block == fits
    with pytest.raises(ArgumentError, match="point_costs"):
        sinkhorn(None, None, np.zeros((1000, 1000)))
    with pytest.raises(ArgumentError, match="computed in blocks"):
        sinkhorn(None, None, point_costs(np.zeros((1000, 1)), np.ones((1000, 1)), block=9), 1.0).plan  # noqa: B018


def test_a_hundred_thousand_points_take_memory_for_blocks_and_not_for_pairs() -> None:
    points = jax.ShapeDtypeStruct((100_000, 2), jnp.float32)

    def slope(x: jax.Array, y: jax.Array) -> jax.Array:
        return jax.grad(lambda x: sinkhorn(None, None, point_costs(x, y), 0.3).value)(x)

    scratch = jax.jit(slope).lower(points, points).compile().memory_analysis().temp_size_in_bytes
    assert scratch < 2**27  # all pairs would be 40 GB


def test_a_call_that_did_not_converge_warns_and_compiled_code_says_so_by_a_flag() -> None:
    with pytest.warns(ChainruleWarning, match=r"of the mass .* after 3 iterations .* larger eps"):
        found = sinkhorn(None, None, COST, 0.05, max_iterations=3)
    assert not bool(found.converged)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flag = jax.jit(lambda c: sinkhorn(None, None, c, 0.05, max_iterations=3).converged)(COST)
    assert not bool(flag)


def test_a_call_that_is_differentiated_warns_as_well_whatever_it_is_differentiated_by() -> None:
    def value(a: Any, cost: Any, eps: Any) -> Any:
        return sinkhorn(a, None, cost, eps, max_iterations=3).value

    even = jnp.full(32, 1 / 32)
    for position in range(3):
        with pytest.warns(ChainruleWarning, match="after 3 iterations with eps=0.05"):
            jax.grad(value, argnums=position)(even, jnp.asarray(COST), 0.05)


def test_the_usual_eps_is_a_twentieth_of_the_mean_cost() -> None:
    assert float(sinkhorn(A, B, SQUARES).eps) == pytest.approx(0.05 * SQUARES.mean())
    assert float(sinkhorn(None, None, cost_matrix(X[:3], X[:3] * 0)).eps) > 0
    assert float(sinkhorn([1.0], [1.0], [[0.0]]).value) == 0
