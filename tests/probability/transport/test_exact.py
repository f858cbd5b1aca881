"""Exact transport: known answers, three solvers against each other and POT, certificates, derivatives, refusals."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.probability.transport import exact, slack, solvers, wasserstein

A, B = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
STEPS = np.abs(np.arange(3.0)[:, None] - np.arange(3.0)[None])


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def problem(seed: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, some of them zero, and costs of either sign."""
    random = np.random.default_rng(seed)
    a, b = random.dirichlet(np.ones(rows)), random.dirichlet(np.ones(columns))
    a[0] = 0
    return a / a.sum(), b, random.normal(size=(rows, columns))


def solver_names() -> list[str]:
    return [name for name in solvers.SOLVERS if name != "network-simplex" or solvers.installed()]


@pytest.mark.parametrize("solver", [name for name in solver_names() if name != "assignment"])
def test_a_small_problem_has_its_known_cost_by_either_solver(solver: str) -> None:
    assert float(exact(A, B, STEPS**2, solver).cost) == pytest.approx(0.9, abs=1e-12)
    # With distances for costs it is the sum of the differences of the distribution functions.
    assert float(exact(A, B, STEPS, solver).cost) == pytest.approx(np.abs(np.cumsum(A - B)).sum(), abs=1e-12)


@pytest.mark.parametrize("solver", ["auto", "highs"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (9, 4), (12, 12)])
def test_every_answer_is_a_coupling_with_a_proof(solver: str, shape: tuple[int, int]) -> None:
    for seed in range(3):
        a, b, cost = problem(seed, shape[0] + 1, shape[1])
        found = exact(a, b, cost, solver)
        plan, (f, g) = np.asarray(found.plan), found.potentials
        np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-12)
        np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-12)
        assert plan.min() >= 0
        assert found.converged
        assert found.gap < 1e-9
        assert float(found.lower) <= float(found.cost) <= float(found.lower) + 1e-9
        assert float(a @ f + b @ g) == pytest.approx(float(found.cost), abs=1e-9)
        room = np.asarray(slack(cost, f, g))
        assert room.min() > -1e-12, "the potentials do not respect the costs"
        assert np.abs(room[plan > 0]).max() < 1e-9, "mass moves where it could be cheaper"
        assert len(found.entries.mass) <= sum(plan.shape) - 1
        np.testing.assert_array_equal(found.entries.dense(*plan.shape), plan)


def test_equal_weights_are_an_assignment_and_its_potentials_prove_it() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(40, 2)), random.normal(size=(40, 2))
    even, cost = np.full(40, 1 / 40), cdist(x, y)
    found = exact(even, even, cost, "assignment")
    assert found.converged
    assert found.gap < 1e-9
    assert (np.count_nonzero(found.plan, axis=1) == 1).all()
    assert float(exact(None, None, cost).cost) == pytest.approx(float(found.cost), abs=1e-12)
    assert float(found.cost) == pytest.approx(float(exact(even, even, cost, "highs").cost), abs=1e-12)


def test_it_agrees_with_pot(oracle: Callable[[str], object]) -> None:
    ot = oracle("ot")
    for seed, shape in enumerate([(5, 8), (30, 20)]):
        a, b, cost = problem(seed, *shape)
        expected = ot.emd2(a, b, cost)  # type: ignore[attr-defined]
        for solver in ("network-simplex", "highs"):
            assert float(exact(a, b, cost, solver).cost) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kind", ["normal", "heavy", "whole"])
def test_the_proof_closes_whatever_the_costs_are_like(kind: str, scale: float) -> None:
    random = np.random.default_rng(3)
    a, b = random.random(90) ** 5, random.random(70) ** 5
    shape = (len(a), len(b))
    kinds: dict[str, Any] = {
        "normal": lambda: random.normal(size=shape),
        "heavy": lambda: random.pareto(0.5, shape),
        "whole": lambda: random.integers(0, 3, shape),
    }
    costs = scale * kinds[kind]()
    found = exact(a / a.sum(), b / b.sum(), costs)
    assert found.converged
    np.testing.assert_allclose(found.plan.sum(axis=0), b / b.sum(), atol=1e-14)
    assert float(found.cost) == pytest.approx((np.asarray(found.plan) * costs).sum(), rel=1e-12)


def test_its_derivatives_are_plan_and_potentials_in_both_modes() -> None:
    a, b, cost = problem(3, 5, 6)
    found = exact(a, b, cost)

    def value(a: Any, b: Any, cost: Any) -> jax.Array:
        return exact(a, b, cost).cost

    arguments = tuple(jnp.asarray(one) for one in (a, b, cost))
    slopes = jax.grad(value, argnums=(0, 1, 2))(*arguments)
    np.testing.assert_allclose(slopes[2], found.plan, atol=1e-14)
    for slope, potential, weights in zip(slopes, found.potentials, (a, b), strict=False):
        assert float(weights @ slope) == pytest.approx(0, abs=1e-12)
        np.testing.assert_allclose(slope - slope[1], potential - potential[1], atol=1e-12)
    # Against differences, along a move of mass and a change of costs.
    move = np.zeros(5)
    move[1], move[2] = 1, -1
    change = np.random.default_rng(0).normal(size=cost.shape)
    tangent = jax.jvp(value, arguments, (jnp.asarray(move), jnp.zeros(6), jnp.asarray(change)))[1]
    h = 1e-6
    ends = [float(value(a + s * h * move, b, cost + s * h * change)) for s in (1, -1)]
    assert float(tangent) == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-6)


def test_single_precision_around_it_costs_nothing_but_the_last_digits_of_the_answer() -> None:
    a, b, cost = problem(0, 8, 8)
    wide = float(exact(a, b, cost).cost)
    with jax.enable_x64(False):
        found = exact(a, b, cost)
        assert found.plan.dtype == np.float32
        assert found.gap < 1e-9, "the numbers were cut before they were used"
        assert float(found.cost) == pytest.approx(wide, rel=1e-6)


def test_wasserstein_takes_the_root_and_sees_a_shift_as_it_is() -> None:
    random = np.random.default_rng(0)
    x, shift, weights = random.normal(size=(12, 2)), np.array([[3.0, -4.0]]), random.dirichlet(np.ones(12))
    for p in (1, 2, 3):
        assert float(wasserstein(x, x + shift, p)) == pytest.approx(5, abs=1e-9)
        assert float(wasserstein(x, x + shift, p, weights, weights)) == pytest.approx(5, abs=1e-9)
    y = random.normal(size=(7, 2))
    line = float(wasserstein(x[:, :1], y[:, :1], 2))
    flat = (
        np.concatenate([np.zeros((12, 1)), x[:, :1]], axis=1),
        np.concatenate([np.zeros((7, 1)), y[:, :1]], axis=1),
    )
    assert line == pytest.approx(float(wasserstein(*flat, 2)), abs=1e-10)
    assert np.isfinite(jax.grad(lambda z: wasserstein(z, jnp.asarray(x), 1))(jnp.asarray(x))).all()


def test_too_many_costs_come_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["chainrule.probability.transport.exact"], "_ENTRIES", 8)
    with pytest.warns(ChainruleWarning, match="3 x 3 costs.*sinkhorn"):
        exact(A, B, STEPS)


def test_a_solver_that_stops_early_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def lazy(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> solvers.Vertex:
        return solvers.Vertex(a[:, None] * b[None, :], np.zeros(len(cost)), finished=False)

    monkeypatch.setitem(solvers.SOLVERS, "highs", lazy)
    with pytest.warns(ChainruleWarning, match="may cost .* more than the cheapest"):
        found = exact(A, B, STEPS, "highs")
    assert not found.converged
    assert float(found.lower) <= 0.7 <= float(found.cost)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: exact([0.5, 0.6], [1.0], np.zeros((2, 1))),
            r"a sums to 1.1, b to 1;(.|\n)*normalise.*unbalanced",
        ),
        (lambda: exact([1.5, -0.5], [1.0], np.zeros((2, 1))), r"a\[1\] is -0.5"),
        (lambda: exact([1.0], [1.0], [[np.nan]]), r"cost\[0, 0\] is nan"),
        (lambda: exact([0.5, 0.5], [1.0], [[0.0], [np.inf]]), r"cost\[1, 0\] is inf"),
        (lambda: exact([0.0], [0.0], [[1.0]]), "nothing to move"),
        (lambda: exact([1.0], [1.0], [1.0]), "needs a matrix"),
        (lambda: exact([1.0], [0.5, 0.5], [[1.0]]), "one weight for each column"),
        (lambda: exact(A, B, STEPS, "simplex"), 'solver must be "auto"'),
        (lambda: exact(A, B, STEPS, "assignment"), "solver='auto'"),
        (lambda: jax.jit(lambda c: exact(A, B, c).cost)(STEPS), "outside; inside, sinkhorn"),
        (lambda: wasserstein(np.zeros((2, 2)), np.zeros((2, 2)), 0.5), "triangle inequality"),
        (lambda: wasserstein(np.zeros(2), np.zeros(2)), r"x\[:, None\]"),
        (lambda: wasserstein(np.zeros((2, 2)), np.zeros((2, 2)), a=[1.0]), "one weight for each point"),
    ],
)
def test_what_cannot_be_moved_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
