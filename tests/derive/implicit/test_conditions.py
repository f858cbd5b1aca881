"""Where the implicit function theorem does not hold, nothing is returned silently."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ImplicitFunctionError
from chainrule.derive import implicit
from chainrule.derive.implicit.problem import ProblemLayout

circle = implicit.root(lambda y, x: x**2 + y**2 - 1)
slope = jax.grad(circle, argnums=1)
compiled_slope = jax.jit(slope)


LOUD = (jax.errors.JaxRuntimeError, ValueError)
"""What JAX makes of an error on the host, depending on how the program was started."""


def stays(_f: Any, w0: Any, *_params: Any) -> Any:
    """A solver that takes the first guess for the answer."""
    return w0


@pytest.mark.parametrize("guess", [0.0, 0.1, 1.0])
def test_the_circle_has_no_slope_at_its_end_whatever_point_the_solver_stops_at(guess: float) -> None:
    """From a guess other than 0 only half the digits are found, where the Jacobian is small but not singular."""
    with pytest.raises(ImplicitFunctionError) as caught:
        slope(guess, 1.0)
    assert caught.value.condition == ("singular" if guess == 0 else "not isolated")
    assert caught.value.residual < 1e-15
    assert abs(caught.value.null_direction) == 1
    assert "on_singular" in str(caught.value)


@pytest.mark.parametrize("guess", [0.0, 0.1])
def test_compiled_code_fails_as_loudly_when_only_a_derivative_is_asked_for(guess: float) -> None:
    with pytest.raises(LOUD, match="the Jacobian"):
        jax.block_until_ready(compiled_slope(guess, 1.0))
    assert float(compiled_slope(1.0, 0.6)) == pytest.approx(-0.75)


def test_limits_are_those_of_the_problem_on_every_thread() -> None:
    """Compiled programs explain failures on threads of their own, where JAX takes double precision for single."""
    layout = ProblemLayout.of({"a": np.ones(2), "b": np.ones(3, np.float32)})
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(lambda: layout.dtype).result() == np.float64


def test_a_batch_with_one_bad_case_fails_and_names_it() -> None:
    with pytest.raises(LOUD, match="reciprocal condition is 0"):
        jax.block_until_ready(jax.jit(jax.vmap(slope))(jnp.array([1.0, 0.0]), jnp.array([0.6, 1.0])))


def test_the_square_root_has_no_slope_at_zero() -> None:
    with pytest.raises(ImplicitFunctionError, match="multiple root"):
        jax.grad(implicit.root(lambda w, a: w**2 - a), argnums=1)(1.0, 0.0)


def test_small_solutions_that_are_well_determined_are_no_trouble() -> None:
    """The same square root a few digits away from zero: its slope is large, and right."""
    found = jax.grad(implicit.root(lambda w, a: w**2 - a), argnums=1)(1e-5, 1e-12)
    assert found == pytest.approx(0.5e6, rel=1e-9)


def test_a_root_at_zero_is_no_trouble() -> None:
    solve = implicit.root(lambda w, a: w + jnp.tanh(w) - a)
    assert jax.grad(solve, argnums=1)(0.5, 0.0) == pytest.approx(0.5, rel=1e-12)


def test_nan_is_returned_where_it_was_asked_for_with_a_flag() -> None:
    quiet = implicit.root(lambda y, x: x**2 + y**2 - 1, on_failure="nan")
    gradient = jax.jit(jax.vmap(jax.grad(quiet, argnums=1)))
    found = gradient(jnp.array([1.0, 0.1]), jnp.array([0.6, 1.0]))
    np.testing.assert_allclose(found, [-0.75, np.nan])
    assert quiet.details(0.1, 1.0).stats.condition == "not isolated"
    assert quiet.details(1.0, 0.6).stats.condition == "none"
    assert jnp.isnan(quiet(0.1, 2.0))  # no real solution
    assert quiet.details(0.1, 2.0).stats.condition == "not a solution"


@pytest.mark.parametrize("run", [lambda f: f, jax.jit], ids=["eager", "compiled"])
def test_a_point_that_is_no_solution_is_refused_with_its_residual(run: Callable[..., Any]) -> None:
    solve = implicit.root(lambda w, a: w**2 - a, solver=stays)
    with pytest.raises(LOUD, match=r"the residual is 0\.25"):
        jax.block_until_ready(run(solve)(1.5, 2.0))
    with pytest.raises(LOUD, match=r"the residual is 0\.25"):
        jax.block_until_ready(run(jax.grad(solve, argnums=1))(1.5, 2.0))


def test_the_tolerance_of_the_residual_can_be_set() -> None:
    rough = implicit.root(lambda w, a: w**2 - a, solver=stays, tolerance=0.3)
    assert float(rough(1.5, 2.0)) == 1.5


def singular(w: jax.Array, q: jax.Array) -> jax.Array:
    """Two equations that say the same."""
    total = w[0] + 2 * w[1] - q
    return jnp.stack([total, 3 * total])


def test_a_singular_matrix_shows_its_null_direction() -> None:
    solve = implicit.root(singular, solver=stays)
    with pytest.raises(ImplicitFunctionError) as caught:
        jax.jacobian(solve, argnums=1)(jnp.array([1.0, 1.0]), 3.0)
    assert caught.value.condition == "singular"
    assert caught.value.rcond < 1e-14
    direction = caught.value.null_direction
    np.testing.assert_allclose(direction[0] / direction[1], -2, rtol=1e-6)


@pytest.mark.parametrize("way", ["banded", "sparse"])
def test_every_factorisation_finds_a_singular_matrix(way: str) -> None:
    solve = implicit.root(singular, solver=stays, linear=way)
    with pytest.raises(ImplicitFunctionError) as caught:
        jax.jacobian(solve, argnums=1)(jnp.array([1.0, 1.0]), 3.0)
    assert caught.value.condition == "singular"


def test_least_squares_gives_the_shortest_answer_of_a_singular_system() -> None:
    solve = implicit.root(singular, solver=stays, on_singular="lstsq")
    for mode in (jax.jacfwd, jax.jacrev):
        found = mode(solve, argnums=1)(jnp.array([1.0, 1.0]), 3.0)
        np.testing.assert_allclose(found, [0.2, 0.4], rtol=1e-12)


def lopsided(w: jax.Array, q: jax.Array) -> jax.Array:
    """A Jacobian that is neither symmetric nor banded."""
    return jnp.stack([3 * w[0] + w[2], 3 * w[1], 3 * w[2] + 0.5 * w[1]]) - q


SLOPES_OF_LOPSIDED = np.array([[3.0, 0, 1], [0, 3, 0], [0, 0.5, 3]])


@pytest.mark.parametrize(
    "way", ["cholesky", implicit.Banded(1, 1)], ids=["declared definite", "declared tridiagonal"]
)
def test_a_wrong_declaration_is_found_out(way: Any) -> None:
    solve = implicit.root(
        lopsided, solver=lambda _f, _w0, q: np.linalg.solve(SLOPES_OF_LOPSIDED, q), linear=way
    )
    with pytest.raises(ImplicitFunctionError, match="not what was declared"):
        jax.jacobian(solve, argnums=1)(jnp.zeros(3), jnp.arange(3.0))


def test_a_saddle_is_no_minimum() -> None:
    def saddle(w: jax.Array, a: jax.Array) -> jax.Array:
        return w[0] ** 2 - w[1] ** 2 + a * w[1]

    point = jnp.array([0.0, 0.5])
    with pytest.raises(ImplicitFunctionError, match="no strict minimum"):
        jax.jacobian(implicit.minimum(saddle, stays), argnums=1)(point, 1.0)
    found = jax.jacobian(implicit.minimum(saddle, stays, "lu"), argnums=1)(point, 1.0)
    np.testing.assert_allclose(found, [0.0, 0.5], rtol=1e-12)


def test_an_iteration_that_does_not_converge_is_an_error() -> None:
    matrix = jnp.asarray(np.roll(np.eye(6), 1, axis=0))  # GMRES makes no progress on it before its last step
    solve = implicit.root(
        lambda w, q: matrix @ w - q,
        solver=lambda _f, _w0, q: matrix.T @ q,
        linear=implicit.Krylov(restart=3, max_steps=2),
    )
    for derivative in (jax.jacfwd(solve, argnums=1), jax.jacrev(solve, argnums=1)):
        with pytest.raises(ImplicitFunctionError, match="stopped at a relative residual") as caught:
            derivative(jnp.zeros(6), jnp.eye(6)[0])
        assert caught.value.condition == "linear solve not converged"
    with pytest.raises(LOUD, match="stopped at a relative residual"):
        jax.block_until_ready(jax.jit(jax.jacrev(solve, argnums=1))(jnp.zeros(6), jnp.eye(6)[0]))


def test_values_that_are_not_finite_are_named() -> None:
    solve = implicit.root(lambda w, q: jnp.sqrt(w) - q, solver=stays)
    with pytest.raises(ImplicitFunctionError) as caught:
        jax.grad(solve, argnums=1)(0.0, 0.0)
    assert caught.value.condition == "not finite"


def test_the_limit_of_the_condition_grows_with_the_size_and_leaves_a_third_of_the_digits() -> None:
    limits = implicit.Conditions()
    assert limits.rcond_for(4, jnp.float64) == pytest.approx(40 * 2.0**-52)
    assert limits.rcond_for(1000, jnp.float32) == pytest.approx(2.0 ** (-23 * 2 / 3))
    assert implicit.Conditions(rcond=0.1).rcond_for(4, jnp.float64) == 0.1


@pytest.mark.parametrize("name", ["root", "fixed_point", "minimum", "least_squares"])
def test_a_guess_of_lower_precision_takes_that_of_the_equations(name: str) -> None:
    function = {
        "root": lambda w, a: w**2 - a,
        "fixed_point": lambda w, a: (w + a / w) / 2,
        "minimum": lambda w, a: jnp.sum(w**3 / 3 - a * w),
        "least_squares": lambda w, a: w**2 - a,
    }[name]
    solve = getattr(implicit, name)(function)
    a = jnp.array([2.0, 3.0])
    found = solve(jnp.ones(2, jnp.float32), a)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(found, np.sqrt(a), rtol=1e-12)


def test_numbers_of_sixteen_bits_are_refused_where_matrices_are_factorised() -> None:
    half = jnp.ones(2, jnp.bfloat16)
    with pytest.raises(ArgumentError, match="w has type bfloat16, and matrices are factorised in float32"):
        implicit.root(lambda w, a: w**2 - a)(half, half)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_krylov_solve_that_fails_in_a_derivative_says_so_in_a_runtime_error(compiled: bool) -> None:
    diagonal = jnp.arange(6.0)
    solve = implicit.root(
        lambda w, q: diagonal * w - q * (diagonal > 0),
        solver=lambda F, w0, q: q * jnp.where(diagonal > 0, 1 / jnp.maximum(diagonal, 1.0), 0.0),
        linear="gmres",
    )
    slope = jax.grad(lambda q: jnp.sum(solve(jnp.zeros(6), q)))
    with pytest.raises(LOUD, match="a linear solve with the Jacobian stopped at"):
        (jax.jit(slope) if compiled else slope)(1.0)


def test_a_python_branch_in_the_equations_is_named() -> None:
    with pytest.raises(ArgumentError, match="root: the function branches in Python on a value"):
        implicit.root(lambda w, a: w - a if w > 0 else w + a)(1.0, 2.0)


def test_programs_without_variables_are_named() -> None:
    with pytest.raises(ArgumentError, match="linear_program: there are no variables"):
        implicit.linear_program(np.zeros(0), np.zeros((0, 0)), np.zeros(0))
    with pytest.raises(ArgumentError, match="quadratic_program: there are no variables"):
        implicit.quadratic_program(np.zeros((0, 0)), np.zeros(0))
