"""Programs without a solution, solutions without derivatives, and arguments that do not fit: each is named."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from chainrule.core.errors import ArgumentError, ImplicitFunctionError
from chainrule.derive.implicit.optimization.failures import InfeasibleError, UnboundedError
from chainrule.derive.implicit.optimization.linear import linear_program
from chainrule.derive.implicit.optimization.quadratic import quadratic_program
from chainrule.derive.implicit.optimization.results import Status
from tests.derive.implicit.optimization.problems import A, b, c

OPEN = np.array([[1.0, -1, 1, 0, 0], [0, 0, 0, 1, 0], [3, -2, 0, 0, 1]])
"""With this matrix nothing keeps the second variable from growing."""


@pytest.mark.parametrize("solver", ["interior", "highs"])
def test_an_infeasible_program_comes_with_a_proof(solver: str) -> None:
    with pytest.raises(InfeasibleError, match="linear_program: infeasible") as caught:
        linear_program(c, A, -b, solver=solver)
    y = np.asarray(caught.value.ray.y)
    assert (A.T @ y).max() <= 1e-8
    assert -b @ y == pytest.approx(1.0)


@pytest.mark.parametrize("solver", ["interior", "highs"])
def test_an_unbounded_program_comes_with_a_direction(solver: str) -> None:
    with pytest.raises(UnboundedError, match="linear_program: unbounded") as caught:
        linear_program(c, OPEN, b, solver=solver)
    d = np.asarray(caught.value.ray.x)
    np.testing.assert_allclose(OPEN @ d, np.zeros(3), atol=1e-8)
    assert d.min() >= 0
    assert c @ d == pytest.approx(-1.0)


def test_a_row_that_repeats_others_is_named() -> None:
    repeated = np.vstack([A[:2], A[0] - 2 * A[1]])
    with pytest.raises(
        ArgumentError, match="row 2 of A has only zeros, or is a combination of the rows before it"
    ):
        linear_program(c, repeated, b)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "c too short": (
        lambda: linear_program(c[:4], A, b),
        r"c has shape \(4,\), expected \(5,\): A has 5 columns",
    ),
    "b too long": (
        lambda: linear_program(c, A, [*b, 1.0]),
        r"b has shape \(4,\), expected \(3,\): A has 3 rows",
    ),
    "A a vector": (lambda: linear_program(c, A[0], b), r"A has shape \(5,\), expected a matrix"),
    "not finite": (lambda: linear_program(c, A, [4.0, np.inf, 18]), r"b\[1\] is inf"),
    "complex": (lambda: linear_program(c, A * 1j, b), "A is complex"),
    "not numbers": (lambda: linear_program("c", A, b), "c is str, not an array of numbers"),
    "mu negative": (
        lambda: linear_program(c, A, b, mu=-1.0),
        r"mu=-1.0\): mu must be 0 \(exact\) or positive",
    ),
    "mu a vector": (lambda: linear_program(c, A, b, mu=np.ones(2)), r"mu has shape \(2,\)"),
    "unknown solver": (lambda: linear_program(c, A, b, solver="simplex"), 'must be "interior" or "highs"'),
    "smooth highs": (lambda: linear_program(c, A, b, mu=1.0, solver="highs"), "HiGHS finds vertices"),
    "sparse interior": (lambda: linear_program(c, scipy.sparse.csr_array(A), b), "A is sparse"),
    "unknown linear": (lambda: linear_program(c, A, b, linear="qr"), "linear must be"),
    "unknown policy": (lambda: linear_program(c, A, b, on_failure="warn"), 'must be "raise" or "nan"'),
    "unknown remedy": (lambda: linear_program(c, A, b, on_singular="nan"), 'must be "raise" or "lstsq"'),
    "no steps": (lambda: linear_program(c, A, b, max_steps=0), "at least one step"),
    "solver of one": (lambda: linear_program(c, A, b, solver=lambda *_: c), r"expected a pair \(x, y\)"),
    "P not square": (lambda: quadratic_program(np.eye(3), c), r"P has shape \(3, 3\), expected \(5, 5\)"),
    "G without h": (lambda: quadratic_program(np.eye(5), c, G=A), "G is given but h is not"),
    "b without A": (lambda: quadratic_program(np.eye(5), c, b=b), "b is given but A is not"),
    "h too short": (
        lambda: quadratic_program(np.eye(5), c, G=A, h=b[:2]),
        r"h has shape \(2,\), expected \(3,\)",
    ),
    "no such solver": (lambda: quadratic_program(np.eye(5), c, solver="osqp"), '"interior" or a function'),
}


@pytest.mark.parametrize("case", BAD)
def test_arguments_that_do_not_fit_are_named(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_solver_that_did_not_solve_is_found_out() -> None:
    def lazy(c: jax.Array, A: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.ones(5), jnp.zeros(3)

    with pytest.raises(ImplicitFunctionError, match="not a solution after 0 steps") as caught:
        linear_program(c, A, b, solver=lazy)
    assert caught.value.condition == "not a solution"
    assert caught.value.residual > 0.1


SOLVE = jax.jit(lambda c, A, b: linear_program(c, A, b))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ((c, A, -b), "linear_program: infeasible"),
        ((c, OPEN, b), "linear_program: unbounded"),
        ((c, np.vstack([A[:2], A[0]]), b), "row 2 of A has only zeros, or is a combination"),
        ((c * np.nan, A, b), "linear_program: not a solution"),
    ],
)
def test_compiled_programs_fail_loudly_when_they_run(program: Any, message: str) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=message):
        jax.block_until_ready(SOLVE(*program))


def test_failures_become_nan_by_choice_and_the_status_says_why() -> None:
    solve = jax.jit(jax.vmap(lambda c, A, b: linear_program(c, A, b, on_failure="nan")))
    batch = solve(np.stack([c, c, c]), np.stack([A, A, OPEN]), np.stack([b, -b, b]))
    assert batch.stats.status.tolist() == [Status.SOLVED, Status.INFEASIBLE, Status.UNBOUNDED]
    assert np.isfinite(batch.x).all(axis=1).tolist() == [True, False, False]
    assert np.isnan(batch.value[1:]).all()
    y = batch.stats.ray.y[1]
    assert (A.T @ y).max() <= 1e-8
    assert float(-b @ y) == pytest.approx(1.0)


# Three programs that are solved but have no derivatives. All have two equations and three variables.
SEVERAL = (np.array([1.0, 1, 0]), np.array([[1.0, 1, 0], [0, 0, 1]]), np.array([1.0, 1]))
DEGENERATE = (np.array([1.0, 0, 1]), np.array([[1.0, 1, 0], [0, 1, 1]]), np.array([1.0, 1]))


def gradient(program: Any, **options: Any) -> Any:
    c, A, b = program
    return jax.grad(lambda b: linear_program(c, A, b, **options).value)(b)


def test_several_solutions_have_no_derivative() -> None:
    solution = linear_program(*SEVERAL)
    np.testing.assert_allclose(solution.value, 1.0)
    with pytest.raises(
        ImplicitFunctionError, match="3 variables are positive, and only 2 equations"
    ) as caught:
        gradient(SEVERAL)
    assert caught.value.condition == "several solutions"
    assert "mu=" in caught.value.remedy
    assert "lstsq" in caught.value.remedy


def test_a_degenerate_vertex_has_no_derivative() -> None:
    np.testing.assert_allclose(linear_program(*DEGENERATE).x, [0, 1, 0], atol=1e-12)
    with pytest.raises(
        ImplicitFunctionError, match="only 1 of the variables are positive, 2 equations"
    ) as caught:
        gradient(DEGENERATE)
    assert caught.value.condition == "degenerate vertex"


def test_without_strict_complementarity_the_variable_is_named() -> None:
    # The simplex method stops in a corner, where a variable and its reduced cost are both zero.
    with pytest.raises(
        ImplicitFunctionError, match=r"variable [01] is zero .* and so is its reduced cost"
    ) as caught:
        gradient(SEVERAL, solver="highs")
    assert caught.value.condition == "no strict complementarity"


def test_the_check_fires_where_only_derivatives_are_asked_of_a_compiled_program() -> None:
    compiled = jax.jit(lambda b: gradient((SEVERAL[0], SEVERAL[1], b)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="3 variables are positive, and only 2 equations"):
        jax.block_until_ready(compiled(jnp.asarray(SEVERAL[2])))


def test_remedies_for_degenerate_programs_do_what_they_say() -> None:
    np.testing.assert_allclose(gradient(SEVERAL, on_singular="lstsq"), [1.0, 0.0], atol=1e-9)
    assert np.isnan(gradient(SEVERAL, on_failure="nan")).all()
    smooth = gradient(SEVERAL, mu=1e-4)
    np.testing.assert_allclose(smooth, [1.0, 0.0], atol=1e-3)
    found = linear_program(np.array([1.0, 2, 3]), np.ones((2, 3)), np.ones(2), on_singular="lstsq")
    np.testing.assert_allclose(found.x, [1, 0, 0], atol=1e-9)


def test_the_textbook_example_of_several_solutions_is_refused() -> None:
    def value(b: jax.Array) -> jax.Array:
        return linear_program([1.0, 1.0], [[1.0, 1.0]], b).value

    np.testing.assert_allclose(linear_program([1.0, 1.0], [[1.0, 1.0]], [1.0]).x, [0.5, 0.5], atol=1e-9)
    with pytest.raises(ImplicitFunctionError, match="one solution of several"):
        jax.grad(value)(jnp.ones(1))


def test_a_curved_objective_that_opens_downwards_is_refused_with_its_eigenvalue() -> None:
    with pytest.raises(
        ArgumentError, match=r"P is not positive semidefinite: its smallest eigenvalue is -0\.5"
    ):
        quadratic_program(np.diag([1.0, -0.5]), np.zeros(2))


def test_quadratic_programs_without_a_solution_are_named() -> None:
    walls = np.array([[1.0, 0], [-1, 0]])
    with pytest.raises(InfeasibleError, match="quadratic_program: infeasible") as caught:
        quadratic_program(np.eye(2), np.zeros(2), G=walls, h=[-1.0, -1.0])
    z = np.asarray(caught.value.ray.z)
    np.testing.assert_allclose(walls.T @ z, np.zeros(2), atol=1e-8)
    assert z @ [-1, -1] == pytest.approx(-1.0)
    with pytest.raises(UnboundedError, match="quadratic_program: unbounded"):
        quadratic_program(np.diag([1.0, 0.0]), np.array([0.0, 1.0]), G=walls, h=[1.0, 1.0])


def test_a_constraint_that_is_about_to_act_has_no_derivative() -> None:
    def projection(point: jax.Array, **options: Any) -> jax.Array:
        return quadratic_program(np.eye(2), -point, G=np.eye(2), h=np.zeros(2), **options).x

    edge = jnp.array([0.0, -1.0])
    with pytest.raises(ImplicitFunctionError, match="inequality 0 is active") as caught:
        jax.jacrev(projection)(edge)
    assert caught.value.condition == "no strict complementarity"
    smooth = jax.jacrev(lambda point: projection(point, mu=1e-6))(edge)
    np.testing.assert_allclose(smooth, [[0.5, 0], [0, 1]], atol=1e-3)


CURVED = np.array([[1.0, 0.999], [0.999, 1.0]])


@pytest.mark.parametrize("P", [np.eye(2), CURVED], ids=["plain", "badly conditioned"])
def test_a_kink_at_zero_has_no_derivative_though_all_data_are_zero(P: np.ndarray) -> None:
    """Then the solution is zero up to rounding, whose sign tells nothing about what is active."""

    def projection(point: jax.Array, limits: jax.Array) -> jax.Array:
        return quadratic_program(P, -point, G=-np.eye(2), h=limits).x

    zero = jnp.zeros(2)
    for argument in (0, 1):
        with pytest.raises(ImplicitFunctionError, match="is active") as caught:
            jax.jacrev(projection, argument)(zero, zero)
        assert caught.value.condition == "no strict complementarity"
    # Nothing is in doubt where a wall is away from zero, or where there is none.
    np.testing.assert_allclose(jax.jacrev(projection)(zero, jnp.ones(2)), np.linalg.inv(P), rtol=1e-9)
    free = jax.jacrev(lambda point: quadratic_program(P, -point).x)(zero)
    np.testing.assert_allclose(free, np.linalg.inv(P), rtol=1e-9)


def test_small_numbers_that_are_known_are_no_kink() -> None:
    found = jax.jacrev(lambda q: quadratic_program(np.eye(2), -q, G=-np.eye(2), h=np.zeros(2)).x)(
        1e-15 * jnp.array([1.0, -1.0])
    )
    np.testing.assert_allclose(found, np.diag([1.0, 0.0]), atol=1e-12)


def test_the_same_inequality_twice_has_no_derivative() -> None:
    twice = np.array([[1.0, 0], [2, 0]])
    with pytest.raises(ImplicitFunctionError, match="singular"):
        jax.jacrev(lambda point: quadratic_program(np.eye(2), -point, G=twice, h=np.zeros(2)).x)(jnp.ones(2))


def test_rows_of_zeros_are_called_that() -> None:
    G, h = np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0.0, 1.0])
    slope = jax.jacobian(lambda q: quadratic_program(np.eye(2), q, None, None, G, h).x)
    with pytest.raises(ImplicitFunctionError, match="inequality 0 has only zeros in G and h"):
        slope(np.ones(2))
    with pytest.raises(ArgumentError, match="row 0 of A has only zeros"):
        quadratic_program(np.eye(2), np.ones(2), G, h)
