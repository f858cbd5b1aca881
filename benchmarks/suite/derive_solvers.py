"""Sparse derivatives as callbacks of SciPy's solvers, against the differences these solvers take themselves.

A stiff equation (the Brusselator on a grid, BDF) is integrated with our Jacobian, with differences of columns that
SciPy groups by our pattern, and, where that ends, with differences column by column. A constrained optimum
(trust-constr) is found with our Jacobian and Hessians, and with SciPy's differences and quasi-Newton updates. Everybody
calls the same compiled functions. The column "compile" is preparation; the time is that of the whole solve.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import BFGS, NonlinearConstraint, minimize

from benchmarks.harness import Case, Contestant, Local, Options, Prepared, Report, measure, ratio
from benchmarks.workers import sparse_problems as problems
from chainrule.derive import sparse

GRIDS = {16: ("grouped", "column by column"), 71: ("grouped",)}
"""Sides of the Brusselator's grid (512 and 10,082 unknowns) and the differences that are taken there."""
VARIABLES = 200
"""Of the constrained optimum."""
SMOKE = True

Solve = Callable[[], np.ndarray]


def run(options: Options) -> Report:
    """Measure everything."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    cases: list[Case] = []
    versions: dict[str, str] = {}

    def case(label: str, contestants: list[Contestant], tolerance: float) -> None:
        made, found = measure(
            label, contestants, rounds=options.rounds, tolerance=tolerance, watch=options.watch
        )
        cases.append(made)
        versions.update(found)

    for size, rivals in {4: GRIDS[16]}.items() if options.smoke else GRIDS.items():
        label = f"stiff equation, {2 * size * size:,} unknowns, BDF"
        case(label, [_contestant(name, integrating(size, name)) for name in ("chainrule", *rivals)], 1e-2)
    n = 20 if options.smoke else VARIABLES
    names = ("chainrule", "differences")
    label = f"constrained optimum, {n} variables, trust-constr"
    case(label, [_contestant(name, optimising(n, name)) for name in names], 1e-2)
    notes = [
        f"{case.label}: time over {theirs.name} {ratio(case.ours, theirs).median:.3g}"
        for case in cases
        for theirs in case.times[1:]
    ]
    return Report(tuple(cases), (), tuple(notes), versions)


def integrating(size: int, how: str) -> Callable[[], Solve]:
    """How to prepare the integration of the Brusselator."""

    def prepare() -> Solve:
        equation, start = problems.brusselator(jnp, size), problems.point("brusselator", size)
        f = jax.jit(equation)
        given: dict[str, Any] = {}
        if how == "chainrule":
            J = sparse.jacobian(equation, start, format="csc")
            given["jac"] = lambda t, y: J(y)
        elif how == "grouped":
            given["jac_sparsity"] = sparse.detect(equation, start).to_scipy()

        def solve() -> np.ndarray:
            found = solve_ivp(lambda t, y: np.asarray(f(y)), (0.0, 2.0), start, method="BDF", **given)
            assert found.success, found.message
            return np.asarray(found.y[:, -1])

        return solve

    return prepare


def optimising(n: int, how: str) -> Callable[[], Solve]:
    """How to prepare the search for the point nearest to (2, 2, ...) where no chord is longer than 1."""

    def prepare() -> Solve:
        weights = jnp.linspace(1.0, 2.0, n)
        distance = lambda x: jnp.sum(weights * (x - 2.0) ** 2 + 0.1 * x**4)  # noqa: E731
        chords = lambda x: x[1:] ** 2 + x[:-1] ** 2  # noqa: E731
        x0 = np.full(n, 0.5)
        f, c = jax.jit(distance), jax.jit(chords)
        pattern = sparse.detect(chords, x0).to_scipy()
        given: dict[str, Any] = {"jac": "2-point", "hess": BFGS()}
        bound: dict[str, Any] = {"jac": "2-point", "hess": BFGS(), "finite_diff_jac_sparsity": pattern}
        if how == "chainrule":
            slope = jax.jit(jax.grad(distance))
            given = {
                "jac": lambda x: np.asarray(slope(x)),
                "hess": sparse.hessian(distance, x0, format="csr"),
            }
            curvature = sparse.hessian(lambda x, v: v @ chords(x), x0, args=(np.ones(n - 1),), format="csr")
            bound = {"jac": sparse.jacobian(chords, x0, format="csr"), "hess": curvature}

        def solve() -> np.ndarray:
            constraint = NonlinearConstraint(lambda x: np.asarray(c(x)), -np.inf, 1.0, **bound)
            found = minimize(
                lambda x: float(f(x)),
                x0,
                constraints=constraint,
                method="trust-constr",
                options={"maxiter": 2_000},
                **given,
            )
            assert found.status in (1, 2), found.message
            return np.asarray(found.x)

        return solve

    return prepare


def _contestant(name: str, prepare: Callable[[], Solve]) -> Contestant:
    made: list[Solve] = []

    def ready() -> Prepared:
        began = time.perf_counter()
        made.append(prepare())
        taken = time.perf_counter() - began
        return Prepared(made[0]().tolist(), taken)

    def turn() -> float:
        began = time.perf_counter()
        made[0]()
        return time.perf_counter() - began

    return Local(name, ready, turn)
