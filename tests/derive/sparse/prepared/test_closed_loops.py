"""Sparse derivatives as callbacks of other people's solvers: SciPy, lineax, diffrax, IPOPT."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np
import pytest
import scipy.sparse
from scipy.integrate import solve_ivp
from scipy.optimize import NonlinearConstraint, least_squares, minimize

from chainrule.core.errors import ArgumentError
from chainrule.derive import implicit, sparse
from tests.derive.sparse.prepared import functions

N = 24


def heated(t: Any, y: Any, rate: Any) -> Any:
    """A stiff chain, in the order of arguments that SciPy has: diffusion, a reaction, a source that pulses."""
    left, right = jnp.pad(y[:-1], (1, 0)), jnp.pad(y[1:], (0, 1))
    return 400.0 * (left - 2 * y + right) - rate * y**3 + jnp.cos(t)


START, RATE = np.sin(np.linspace(0.0, 3.0, N)), 2.0
right_hand_side = jax.jit(heated)


# SciPy's BDF subtracts a row of its table before it has written it: if a signalling NaN happens to lie in memory there,
# NumPy warns. The method never uses the result.
@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy.integrate._ivp.bdf")
@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_a_stiff_equation_is_integrated_with_the_prepared_jacobian(method: str) -> None:
    J = sparse.jacobian(heated, 0.0, args=(START, RATE), argnums=1, format="csc")
    assert J.report.products == {"forward": 3}
    given: dict[str, Any] = {"args": (RATE,), "method": method, "rtol": 1e-7, "atol": 1e-9}
    counts = []

    def f(t: Any, y: Any, rate: Any) -> np.ndarray:
        counts[-1] += 1
        return np.asarray(right_hand_side(t, y, rate))

    counts.append(0)
    ours = solve_ivp(f, (0.0, 0.5), START, jac=J, **given)
    counts.append(0)
    plain = solve_ivp(f, (0.0, 0.5), START, **given)
    assert ours.success
    np.testing.assert_allclose(ours.y[:, -1], plain.y[:, -1], rtol=1e-5, atol=1e-9)
    assert counts[0] < counts[1]  # differences of columns are evaluations


def test_least_squares_takes_the_prepared_jacobian() -> None:
    times = np.linspace(0.0, 1.0, 40)

    def residuals(x: Any, observed: Any) -> Any:
        """Local exponentials: each residual knows two neighbouring parameters."""
        knots = jnp.repeat(x, 4)[:40]
        after = jnp.repeat(jnp.roll(x, -1), 4)[:40]
        return jnp.exp(-knots * times) + 0.1 * after**2 - observed

    true = np.linspace(0.5, 1.5, 10)
    observed = np.asarray(residuals(true, np.zeros(40)))
    J = sparse.jacobian(residuals, true, args=(observed,), format="csr")
    f = jax.jit(residuals)
    found = least_squares(
        lambda x, observed: np.asarray(f(x, observed)), np.ones(10), jac=J, args=(observed,), xtol=1e-12
    )
    assert scipy.sparse.issparse(found.jac)
    np.testing.assert_allclose(found.x, true, rtol=1e-7)


def distance(x: Any) -> Any:
    return jnp.sum((x - 2.0) ** 2 * jnp.arange(1.0, N + 1))


def chords(x: Any) -> Any:
    return x[1:] ** 2 + x[:-1] ** 2


def optimum() -> np.ndarray:
    """Of the distance where no chord is longer than 1, from its dual problem, which has only signs as constraints.

    With c_i the multipliers of the chords at i added up, the Lagrangian sum i (x_i - 2)^2 + c_i x_i^2 - sum of the
    multipliers is least at x_i = 2 i / (i + c_i).
    """
    i = np.arange(1.0, N + 1)

    def nearest(multipliers: np.ndarray) -> np.ndarray:
        return 2 * i / (i + np.pad(multipliers, (1, 0)) + np.pad(multipliers, (0, 1)))

    def dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
        x = nearest(multipliers)
        slack = 1 - np.asarray(chords(x))
        return float(multipliers @ slack) - float(distance(x)), slack

    found = minimize(
        dual,
        np.ones(N - 1),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (N - 1),
        options={"ftol": 0, "gtol": 1e-8},
    )
    x = nearest(found.x)
    # Weak duality: feasible up to this, and no feasible point is nearer than the dual value.
    assert np.asarray(chords(x)).max() < 1 + 1e-6
    assert abs(float(distance(x)) + found.fun) < 1e-5
    return x


def test_a_constrained_optimum_is_found_with_prepared_derivatives() -> None:
    x0 = np.full(N, 0.5)
    H = sparse.hessian(distance, x0, format="csr")
    J = sparse.jacobian(chords, x0, format="csr")
    curvature = sparse.hessian(lambda x, v: v @ chords(x), x0, args=(np.ones(N - 1),), format="csr")
    slope = jax.jit(jax.value_and_grad(distance))
    found = minimize(
        lambda x: tuple(map(np.asarray, slope(x))),
        x0,
        jac=True,
        hess=H,
        constraints=NonlinearConstraint(lambda x: np.asarray(chords(x)), -np.inf, 1.0, jac=J, hess=curvature),
        method="trust-constr",
        options={"gtol": 1e-9, "xtol": 1e-12, "maxiter": 300},
    )
    np.testing.assert_allclose(found.x, optimum(), atol=2e-4)


def test_a_sparse_solver_for_lineax_solves_both_ways() -> None:
    draw = np.random.default_rng(0)
    matrix = np.diag(np.arange(2.0, 8.0)) + np.diag(np.ones(5), 1) + 0.5 * np.diag(np.ones(4), -2)
    operator = lineax.MatrixLinearOperator(jnp.asarray(matrix))
    solver = implicit.LineaxSparse(scipy.sparse.csr_array(matrix))
    b = draw.standard_normal(6)

    @jax.jit
    def solve(b: Any) -> Any:
        return lineax.linear_solve(operator, b, solver).value

    np.testing.assert_allclose(solve(b), np.linalg.solve(matrix, b), rtol=1e-12)
    pulled = jax.vjp(solve, b)[1](b)[0]
    np.testing.assert_allclose(pulled, np.linalg.solve(matrix.T, b), rtol=1e-12)
    with pytest.raises(eqx.EquinoxRuntimeError, match="outside of the pattern"):
        lineax.linear_solve(operator, b, implicit.LineaxSparse(scipy.sparse.eye(6).tocsr()))
    with pytest.raises(ArgumentError, match=r"\(6, 6\), the operator \(3, 3\)"):
        lineax.linear_solve(lineax.MatrixLinearOperator(jnp.eye(3)), b[:3], solver)
    with pytest.raises(ArgumentError, match="a square one"):
        implicit.LineaxSparse(scipy.sparse.csr_array((2, 3)))


def test_diffrax_takes_implicit_steps_with_the_sparse_solver() -> None:
    diffrax = pytest.importorskip("diffrax", reason="pip install diffrax")
    pattern = sparse.detect(heated, 0.0, args=(START, RATE), argnums=1)

    def final(solver: Any, rate: Any) -> Any:
        adjoint = diffrax.RecursiveCheckpointAdjoint()
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(heated),
            diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol=1e-8, atol=1e-8, linear_solver=solver)),
            0.0,
            0.1,
            1e-3,
            jnp.asarray(START),
            rate,
            stepsize_controller=diffrax.PIDController(rtol=1e-7, atol=1e-9),
            adjoint=adjoint,
        )
        return found.ys[0]

    ours = jax.jit(lambda rate: final(implicit.LineaxSparse(pattern), rate))(RATE)
    dense = jax.jit(lambda rate: final(diffrax.VeryChord(1.0, 1.0).linear_solver, rate))(RATE)
    np.testing.assert_allclose(ours, dense, rtol=1e-9)


def test_ipopt_takes_values_and_positions() -> None:
    cyipopt = pytest.importorskip("cyipopt", reason="pip install cyipopt, which needs IPOPT's library")
    x0 = np.full(N, 0.5)
    lagrangian = lambda x, y, weight: weight * distance(x) + y @ chords(x)  # noqa: E731
    J = sparse.jacobian(chords, x0, format="values")
    H = sparse.hessian(lagrangian, x0, args=(np.ones(N - 1), 1.0), format="values", part="lower")
    slope, bounds = jax.jit(jax.grad(distance)), np.full(N - 1, 1.0)

    class Problem:
        def objective(self, x: Any) -> float:
            return float(distance(x))

        def gradient(self, x: Any) -> Any:
            return np.asarray(slope(x))

        def constraints(self, x: Any) -> Any:
            return np.asarray(chords(x))

        def jacobianstructure(self) -> Any:
            return J.pattern.rows, J.pattern.cols

        def jacobian(self, x: Any) -> Any:
            return np.asarray(J(x))

        def hessianstructure(self) -> Any:
            return H.pattern.rows, H.pattern.cols

        def hessian(self, x: Any, y: Any, weight: float) -> Any:
            return np.asarray(H(x, y, weight))

    problem = cyipopt.Problem(n=N, m=N - 1, problem_obj=Problem(), cl=np.full(N - 1, -2e19), cu=bounds)
    problem.add_option("print_level", 0)
    problem.add_option("tol", 1e-10)
    x, about = problem.solve(x0)
    assert about["status"] == 0
    np.testing.assert_allclose(x, optimum(), atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy.integrate._ivp.bdf")
def test_ten_thousand_stiff_unknowns_are_integrated() -> None:
    size = 71
    equation = functions.brusselator(size)
    start = 1.0 + 0.5 * np.random.default_rng(0).random(2 * size * size)
    J = sparse.jacobian(equation, start, format="csc")
    f = jax.jit(equation)
    given: dict[str, Any] = {"t_span": (0.0, 5.0), "y0": start, "method": "BDF"}
    ours = solve_ivp(lambda t, y: np.asarray(f(y)), jac=lambda t, y: J(y), **given)
    grouped = solve_ivp(lambda t, y: np.asarray(f(y)), jac_sparsity=J.pattern.to_scipy(), **given)
    assert ours.success
    np.testing.assert_allclose(ours.y[:, -1], grouped.y[:, -1], rtol=1e-2)
