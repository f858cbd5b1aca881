"""The dual solver: gap and slopes by a second route, small problems against SciPy, kept rows, precision."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from sklearn.svm import SVC

from chainrule.kernels import RBF
from chainrule.kernels.support_vectors import SupportVectorClassifier
from chainrule.kernels.support_vectors.optimum import Limits, filled, kernel_sums
from chainrule.kernels.support_vectors.problem import DualProblem, good_enough, progress, slopes
from chainrule.kernels.support_vectors.rows import added, empty, fetched
from chainrule.kernels.support_vectors.solver import solved_pairwise

RNG = np.random.default_rng(3)
ROWS = 12
X = RNG.normal(size=(ROWS, 2))
GRAM = np.exp(-0.5 * np.square(X[:, None] - X[None]).sum(axis=2))
SIGN = np.where(RNG.uniform(size=ROWS) < 0.5, 1.0, -1.0)
SIGN[:2] = 1.0, -1.0
VALUES = RNG.normal(size=ROWS)
EPSILON = 0.2


def problem(linear: Any, lower: Any, upper: Any, width: float = 0.0, group: Any = None) -> DualProblem:
    groups = np.zeros(ROWS, np.int32) if group is None else np.asarray(group, np.int32)
    return DualProblem(*map(jnp.asarray, (linear, lower, upper, width, groups)))


CLASSES = problem(-SIGN, np.minimum(SIGN, 0), np.maximum(SIGN, 0))
TUBE = problem(-VALUES, -np.ones(ROWS), np.ones(ROWS), EPSILON)
REGION = problem(np.zeros(ROWS), np.zeros(ROWS), np.ones(ROWS))
SPLIT = problem(np.zeros(ROWS), np.minimum(SIGN, 0), np.maximum(SIGN, 0), group=SIGN < 0)
judged = eqx.filter_jit(progress)
solved = eqx.filter_jit(solved_pairwise)


def spent(total: float, bounds: np.ndarray) -> np.ndarray:
    return total * bounds / bounds.sum()


STARTS = {
    "classes": (CLASSES, np.zeros(ROWS), 1),
    "tube": (TUBE, np.zeros(ROWS), 1),
    "region": (REGION, spent(4.0, np.ones(ROWS)), 1),
    "split": (SPLIT, spent(1.5, SIGN > 0) - spent(1.5, SIGN < 0), 2),
}


def test_the_gap_is_primal_less_dual() -> None:
    b = 0.3 * SIGN * RNG.uniform(size=ROWS)
    at = judged(CLASSES, jnp.asarray(b), jnp.asarray(GRAM @ b - SIGN), 1)
    margins = SIGN * (GRAM @ b - float(at.thresholds[0]))
    primal = 0.5 * b @ GRAM @ b + np.maximum(0, 1 - margins).sum()
    # The sum of b is not zero here: the constraint adds threshold times sum.
    assert float(at.gap) == pytest.approx(primal + float(at.objective) - float(at.thresholds[0]) * b.sum())
    b = RNG.uniform(-1, 1, ROWS)
    b -= b.mean()
    at = judged(TUBE, jnp.asarray(b), jnp.asarray(GRAM @ b - VALUES), 1)
    errors = np.abs(GRAM @ b - float(at.thresholds[0]) - VALUES)
    primal = 0.5 * b @ GRAM @ b + np.maximum(0, errors - EPSILON).sum()
    assert float(at.gap) == pytest.approx(primal + float(at.objective))


def test_slopes_are_one_sided_derivatives_of_the_objective() -> None:
    b = np.where(np.arange(ROWS) < 4, 0.0, RNG.uniform(-0.9, 0.9, ROWS))
    b[-2:] = 1.0, -1.0

    def objective(b: np.ndarray) -> float:
        return float(0.5 * b @ GRAM @ b - VALUES @ b + EPSILON * np.abs(b).sum())

    at = slopes(TUBE, jnp.asarray(b), jnp.asarray(GRAM @ b - VALUES))
    step = 1e-7
    for i, unit in enumerate(np.eye(ROWS)):
        up, down = ((objective(b + s * step * unit) - objective(b)) / (s * step) for s in (1, -1))
        assert float(at.up[i]) == (np.inf if i == ROWS - 2 else pytest.approx(up, abs=1e-6))
        assert float(at.down[i]) == (-np.inf if i == ROWS - 1 else pytest.approx(down, abs=1e-6))


@pytest.mark.parametrize("name", list(STARTS))
def test_pairs_reach_the_optimum_that_scipy_finds(name: str) -> None:
    this, start, groups = STARTS[name]
    first = jnp.asarray(start), jnp.asarray(GRAM @ start) + this.linear
    found, _ = solved(jnp.asarray(GRAM), this, *first, jnp.asarray(1e-10), groups)
    b = np.asarray(found)
    at = judged(this, found, jnp.asarray(GRAM @ b) + this.linear, groups)
    assert float(at.gap) < 1e-8
    members = [np.asarray(this.group) == number for number in range(groups)]
    for mine in members:
        assert b[mine].sum() == pytest.approx(start[mine].sum(), abs=1e-12)
    # A positive and a negative part of each coefficient make the objective smooth.
    linear, width = np.asarray(this.linear), float(this.width)
    theirs = scipy.optimize.minimize(
        lambda z: (
            0.5 * (z[:ROWS] - z[ROWS:]) @ GRAM @ (z[:ROWS] - z[ROWS:])
            + linear @ (z[:ROWS] - z[ROWS:])
            + width * z.sum()
        ),
        np.concatenate([np.maximum(start, 0), np.maximum(-start, 0)]),
        method="SLSQP",
        bounds=[(0, u) for u in np.asarray(this.upper)] + [(0, -low) for low in np.asarray(this.lower)],
        constraints=[
            {"type": "eq", "fun": lambda z, mine=mine: (z[:ROWS] - z[ROWS:])[mine].sum() - start[mine].sum()}
            for mine in members
        ],
        options={"ftol": 1e-13, "maxiter": 1000},
    )
    assert float(at.objective) == pytest.approx(theirs.fun, abs=1e-6)
    assert bool(good_enough(at, jnp.asarray(1e-6), jnp.asarray(1.0)))


def test_rows_are_those_of_the_gram_matrix_whatever_had_to_make_room() -> None:
    kernel, points = RBF(1.0), jnp.asarray(RNG.normal(size=(40, 3)))
    gram = np.asarray(kernel.gram(points))
    rows = empty(points, 10)
    fetch, add = eqx.filter_jit(functools.partial(fetched, kernel, points)), eqx.filter_jit(added)
    for now in range(12):
        wanted = RNG.choice(40, 6, replace=False).astype(np.int32)
        real = RNG.uniform(size=6) < 0.8
        rows = fetch(rows, jnp.asarray(wanted), jnp.asarray(real), jnp.asarray(now, jnp.int32))
        held = np.asarray(rows.slot)
        assert (held[wanted[real]] >= 0).all()
        known = np.flatnonzero(held >= 0)
        assert len(set(held[known])) == len(known)
        np.testing.assert_array_equal(np.asarray(rows.owner)[held[known]], known)
        np.testing.assert_allclose(np.asarray(rows.kept)[held[known]], gram[known], atol=1e-12)
        by = np.where(real, RNG.normal(size=6), 0.0)
        total = add(rows, jnp.ones(40), jnp.asarray(wanted), jnp.asarray(by))
        np.testing.assert_allclose(total, 1 + by @ gram[wanted], atol=1e-12)


def test_room_for_rows_follows_from_memory() -> None:
    assert Limits(memory=4 * 10_000 * 700).slots(10_000, 4) == 700
    assert Limits(memory=1).slots(10_000, 4) == 512
    assert Limits(memory=1).slots(100, 4) == 100


def test_sizes_are_few_and_large_enough() -> None:
    for largest in (0, 1024, 2560):
        sizes = {filled(n, largest) for n in range(1000)}
        assert len(sizes) < 40
        assert all(n <= filled(n, largest) <= 2 * n + 32 for n in range(1000))


def test_sums_of_kernels_are_products_with_the_gram_matrix_in_double_precision() -> None:
    with jax.enable_x64(False):
        kernel = RBF(1.0)
        weights = RNG.normal(size=(ROWS, 2))
        found = kernel_sums(kernel, X, X, weights)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, GRAM @ weights, atol=1e-7)
    assert kernel_sums(kernel, X, X[:0], weights[:0]).tolist() == np.zeros((ROWS, 2)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("memory", [1, 2**28])
def test_little_memory_gives_the_same_machine(memory: int) -> None:
    x = RNG.normal(size=(1500, 5))
    y = np.where(RNG.uniform(size=1500) < 0.3, x[:, 0] > 0, x[:, 1] * x[:, 2] > 0)
    ours = SupportVectorClassifier(C=10.0, memory=memory).fit(x, y)
    theirs = SVC(C=10.0, tol=1e-6).fit(x, y)
    assert ours.optima[0].converged
    np.testing.assert_allclose(ours.decision(x), theirs.decision_function(x), atol=5e-3)
    assert (ours.predict(x) == theirs.predict(x)).mean() > 0.998


@pytest.mark.slow
def test_where_single_precision_will_not_do_double_precision_goes_on() -> None:
    x = 1e5 + RNG.normal(size=(300, 4))
    y = x[:, 0] * x[:, 1] > (x[:, 2] * x[:, 3])
    ours = SupportVectorClassifier(C=1000.0).fit(x, y)
    theirs = SVC(C=1000.0, tol=1e-8).fit(x, y)
    assert ours.optima[0].converged
    np.testing.assert_allclose(ours.decision(x), theirs.decision_function(x), atol=2e-2)
