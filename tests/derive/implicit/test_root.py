"""Roots: closed forms, every nesting of modes, any solver, PyTrees, closures, batches."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive import implicit

square_root = implicit.root(lambda w, a: w**2 - a)
circle = implicit.root(lambda y, x: x**2 + y**2 - 1)
SLOPE, CURVATURE = 0.35355339059327373, -0.08838834764831845
"""Of the square root at 2."""


def test_first_derivatives_of_the_square_root_are_exact_in_both_modes() -> None:
    for mode in (jax.jacfwd, jax.jacrev):
        assert mode(square_root, argnums=1)(1.0, 2.0) == pytest.approx(SLOPE, rel=1e-12)


def test_second_derivatives_of_the_square_root_are_exact_in_every_nesting(second: Callable[..., Any]) -> None:
    assert second(lambda a: square_root(1.0, a))(2.0) == pytest.approx(CURVATURE, rel=1e-12)


def test_third_derivatives_work_too() -> None:
    third = jax.grad(jax.grad(jax.grad(square_root, argnums=1), argnums=1), argnums=1)
    assert third(1.0, 2.0) == pytest.approx(3 / 8 * 2**-2.5, rel=1e-12)


@pytest.mark.parametrize("branch", [1.0, -1.0])
def test_the_derivative_belongs_to_the_branch_that_was_found(branch: float) -> None:
    slope = jax.grad(circle, argnums=1)
    assert slope(branch, 0.6) == pytest.approx(-0.75 * branch, rel=1e-12)
    assert jax.grad(slope, argnums=1)(branch, 0.6) == pytest.approx(-1.953125 * branch, rel=1e-12)


def test_the_first_guess_has_no_derivative() -> None:
    assert jax.grad(square_root)(1.0, 2.0) == 0
    assert jax.jvp(square_root, (1.0, 2.0), (1.0, 0.0))[1] == 0


def test_compiled_and_batched_derivatives_equal_plain_ones_one_by_one() -> None:
    a = jnp.array([2.0, 3.0, 5.0])
    curvature = jax.grad(jax.grad(square_root, argnums=1), argnums=1)
    found = jax.jit(jax.vmap(curvature, (None, 0)))(1.0, a)
    np.testing.assert_allclose(found, -(a**-1.5) / 4, rtol=1e-12)


def test_differentiating_a_compiled_solve_equals_compiling_a_derivative() -> None:
    inside = jax.grad(jax.jit(square_root), argnums=1)(1.0, 2.0)
    assert inside == pytest.approx(SLOPE, rel=1e-12)


def equations(w: dict[str, jax.Array], q: dict[str, jax.Array], power: int) -> list[jax.Array]:
    """Three unknowns in two leaves, two kinds of parameters."""
    u, v = w["u"], w["v"]
    return [u**power + q["a"] * v - 2.0, 3 * v + jnp.sum(u) * q["b"][0] - q["b"][1]]


def test_unknowns_and_parameters_may_be_trees_with_whole_numbers_among_them() -> None:
    solve = implicit.root(equations)
    w0 = {"u": np.ones(2), "v": np.ones(())}
    q = {"a": np.array([0.5, 1.0]), "b": np.array([0.3, 2.0])}

    @jax.jit
    def flat(z: jax.Array) -> jax.Array:
        w = solve(w0, {"a": z[:2], "b": z[2:]}, 3)
        return jnp.append(w["u"], w["v"])

    z = np.concatenate([q["a"], q["b"]])
    assert jax.tree.structure(solve(w0, q, 3)) == jax.tree.structure(w0)
    h = 1e-6
    ahead, behind = (np.stack([flat(z + step * e) for e in np.eye(4)], axis=1) for step in (h, -h))
    differences = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(jax.jit(jax.jacrev(flat))(z), differences, atol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(flat))(z), differences, atol=1e-8)


def test_values_that_the_function_closes_over_count_as_parameters(second: Callable[..., Any]) -> None:
    def f(a: jax.Array) -> jax.Array:
        return implicit.root(lambda w: w**2 - a)(1.0)

    assert second(f)(2.0) == pytest.approx(CURVATURE, rel=1e-12)


def test_closed_over_values_may_be_batched_and_compiled() -> None:
    def f(a: jax.Array) -> jax.Array:
        return implicit.root(lambda w, power: w**power - a)(1.0, 2)

    found = jax.jit(jax.vmap(jax.grad(f)))(jnp.array([2.0, 4.0]))
    np.testing.assert_allclose(found, [SLOPE, 0.25], rtol=1e-12)


def test_a_solver_of_the_user_is_called_with_plain_numbers_and_never_differentiated() -> None:
    seen = []

    def bisect(f: Callable[..., Any], w0: Any, a: Any) -> Any:
        low, high = 0.0, float(w0) + float(a)  # fails on anything but numbers
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if float(f(middle, a)) < 0 else (low, middle)
        seen.append(type(a))
        return np.float64(high)

    solve = implicit.root(lambda w, a: w**2 - a, solver=bisect)
    assert jax.grad(jax.grad(solve, argnums=1), argnums=1)(1.0, 2.0) == pytest.approx(CURVATURE, rel=1e-12)
    assert len(seen) == 1


def test_scipys_solvers_can_be_used() -> None:
    import scipy.optimize

    def solver(f: Callable[..., Any], w0: Any, *params: Any) -> Any:
        return scipy.optimize.root(lambda w: np.asarray(f(w, *params)), w0, tol=1e-14).x

    solve = implicit.root(lambda w, a: jnp.stack([w[0] ** 2 - a, w[1] - w[0]]), solver=solver)
    found = jax.jacobian(solve, argnums=1)(jnp.ones(2), 2.0)
    np.testing.assert_allclose(found, [SLOPE, SLOPE], rtol=1e-10)


def test_an_inverse_function_has_the_inverse_derivative() -> None:
    log = implicit.inverse(jnp.exp)
    assert jax.grad(jax.grad(log, argnums=1), argnums=1)(0.0, 2.0) == pytest.approx(-0.25, rel=1e-12)


def test_newton_is_damped_where_full_steps_diverge() -> None:
    solve = implicit.root(lambda w, a: jnp.arctan(w - a))
    found = solve.details(4.0, 1.0)
    assert float(found.value) == pytest.approx(1.0, abs=1e-12)
    assert int(found.stats.steps) < 20


def test_single_precision_works_with_its_own_limits() -> None:
    with jax.enable_x64(False):
        slope = jax.grad(square_root, argnums=1)(1.0, 2.0)
        assert slope.dtype == jnp.float32
        assert float(slope) == pytest.approx(SLOPE, rel=1e-6)


def test_details_tell_how_the_solution_was_found() -> None:
    stats = square_root.details(1.0, 2.0).stats
    assert 3 <= int(stats.steps) <= 8
    assert int(stats.factorisations) == int(stats.steps) + 1
    assert float(stats.residual) < 1e-15
    assert stats.condition == "none"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: implicit.root(lambda w: jnp.ones(3))(jnp.ones(2)),
            "2 unknowns in w, but the function returns 3",
        ),
        (lambda: implicit.root(lambda w: w > 0)(jnp.ones(2)), "type bool; floats are needed"),
        (lambda: implicit.root(lambda w: w)({}), "there are no unknowns"),
        (lambda: implicit.root(lambda w: w)(1), "w has type int"),
        (lambda: implicit.root(3), "not a function"),
        (lambda: implicit.root(jnp.sin, "newtn"), 'solver must be "newton"'),
        (lambda: implicit.root(jnp.sin, 3), "a name, a solver or a function is needed"),
        (lambda: implicit.root(jnp.sin, linear="qr"), 'linear must be "lu"'),
        (lambda: implicit.root(jnp.sin, linear=3), "a name or a Linear is needed"),
        (lambda: implicit.root(jnp.sin, on_failure="ignore"), 'on_failure must be "raise" or "nan"'),
        (lambda: implicit.root(jnp.sin, on_singular="guess"), 'on_singular must be "fail" or "lstsq"'),
        (lambda: implicit.root(jnp.sin, "lbfgs")(0.5), "use it with minimum"),
        (lambda: implicit.root(jnp.sin, lambda f, w: [w])(0.5), "the solver returned shapes"),
    ],
)
def test_bad_input_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "F",
    [lambda w, a: 2 * w - a, lambda w, a: jnp.where(w > 0, 2 * w, w) - a],
    ids=["linear", "piecewise linear"],
)
def test_a_linear_equation_has_second_derivatives_of_zero(second: Callable[..., Any], F: Any) -> None:
    solve = implicit.root(F)
    found = jax.jit(second(lambda a: solve(jnp.ones(2), a)))(2.0)
    np.testing.assert_allclose(found, np.zeros(2), atol=1e-14)
