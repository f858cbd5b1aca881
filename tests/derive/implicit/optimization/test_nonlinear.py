"""Nonlinear programs: local solutions of known problems, and their derivatives in the parameters."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ImplicitFunctionError
from chainrule.derive.implicit.optimization.nonlinear import nonlinear_program

TARGET = np.array([3.0, 4.0])
ON_CIRCLE = nonlinear_program(lambda x, r: jnp.sum((x - TARGET) ** 2), lambda x, r: x @ x - r**2)
START = np.array([1.0, 0.0])


def test_the_nearest_point_of_a_circle_moves_with_its_radius() -> None:
    found = ON_CIRCLE(START, 2.0)
    np.testing.assert_allclose(found.x, [1.2, 1.6], atol=1e-12)
    np.testing.assert_allclose(found.value, 9.0, rtol=1e-13)
    np.testing.assert_allclose(found.y, [1.5], atol=1e-12)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(mode(lambda r: ON_CIRCLE(START, r).x)(2.0), [0.6, 0.8], atol=1e-12)
    second = jax.jacfwd(jax.grad(lambda r: ON_CIRCLE(START, r).value))(2.0)
    np.testing.assert_allclose(second, 2.0, atol=1e-11)


def test_batches_are_what_each_of_them_is() -> None:
    radii = np.array([0.5, 2.0, 7.0])
    found = jax.jit(jax.vmap(lambda r: ON_CIRCLE(START, r).x))(radii)
    np.testing.assert_allclose(found, radii[:, None] * np.array([0.6, 0.8])[None, :], atol=1e-11)


def hock_schittkowski_71() -> Any:
    """Problem 71 of Hock and Schittkowski, with the two numbers of its constraints as parameters."""
    return nonlinear_program(
        lambda x, p: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        lambda x, p: jnp.sum(x**2) - p["sum"],
        lambda x, p: {"product": p["product"] - jnp.prod(x), "low": 1.0 - x, "high": x - 5.0},
    )


@pytest.mark.slow
def test_a_published_problem_has_the_published_solution_and_derivatives_that_agree_with_differences() -> None:
    solve = hock_schittkowski_71()
    start, p = jnp.array([1.0, 5.0, 5.0, 1.0]), {"sum": 40.0, "product": 25.0}
    found = solve(start, p)
    np.testing.assert_allclose(found.x, [1.0, 4.7429994, 3.8211503, 1.3794082], atol=5e-7)
    np.testing.assert_allclose(found.value, 17.0140173, atol=5e-8)
    assert found.z.min() >= 0

    def x_of(p: dict[str, Any]) -> jax.Array:
        return solve(start, p).x

    jacobian = jax.jacrev(x_of)(p)
    gradient = jax.grad(lambda p: solve(start, p).value)(p)
    # Dictionaries are flattened by name: high (4), low (4), product.
    np.testing.assert_allclose(gradient["product"], found.z[8], atol=1e-10)
    np.testing.assert_allclose(gradient["sum"], -found.y[0], atol=1e-10)
    step = 1e-4
    for name in p:
        ahead, behind = (x_of({**p, name: p[name] + sign * step}) for sign in (1, -1))
        np.testing.assert_allclose(jacobian[name], (ahead - behind) / (2 * step), atol=1e-7)


def test_unknowns_may_be_a_tree_and_start_outside() -> None:
    solve = nonlinear_program(
        lambda x, a: (1.0 - x["u"]) ** 2 + 100.0 * (x["v"] - x["u"] ** 2) ** 2,
        inequalities=lambda x, a: x["u"] ** 2 + x["v"] ** 2 - a,
    )
    found = solve({"u": -1.5, "v": 2.0}, 1.5)
    assert float(found.x["u"] ** 2 + found.x["v"] ** 2) == pytest.approx(1.5, rel=1e-12)
    np.testing.assert_allclose(found.x["u"], 0.9072339, atol=1e-6)
    value = jax.grad(lambda a: solve({"u": -1.5, "v": 2.0}, a).value)(1.5)
    np.testing.assert_allclose(value, -found.z[0], atol=1e-10)


def test_a_solver_of_ones_own_is_refined_and_given_multipliers() -> None:
    def rough(x0: jax.Array, r: jax.Array) -> jax.Array:
        return jnp.round(r * TARGET / 5.0, 2)

    solve = nonlinear_program(
        lambda x, r: jnp.sum((x - TARGET) ** 2), lambda x, r: x @ x - r**2, solver=rough
    )
    found = solve(START, 1.7)
    np.testing.assert_allclose(found.x, [1.02, 1.36], atol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(lambda r: solve(START, r).x)(1.7), [0.6, 0.8], atol=1e-12)


def test_constraints_that_contradict_each_other_are_reported() -> None:
    solve = nonlinear_program(lambda x: x @ x, lambda x: x @ x + 1.0)
    with pytest.raises(ImplicitFunctionError, match=r"not a solution after \d+ steps"):
        solve(START)


def test_a_constraint_that_is_about_to_act_has_no_derivative() -> None:
    solve = nonlinear_program(lambda x, a: jnp.sum((x - a) ** 2), inequalities=lambda x, a: x)
    np.testing.assert_allclose(solve(-jnp.ones(2), jnp.array([0.0, 1.0])).x, [0, 0], atol=1e-9)
    with pytest.raises(ImplicitFunctionError, match="inequality 0 is active") as caught:
        jax.jacrev(lambda a: solve(-jnp.ones(2), a).x)(jnp.array([0.0, 1.0]))
    assert "mu" not in caught.value.remedy


def test_what_cannot_be_minimised_is_named() -> None:
    with pytest.raises(ArgumentError, match="returns shape"):
        nonlinear_program(lambda x: x)(START)
    with pytest.raises(ArgumentError, match="the solver returned structure"):
        nonlinear_program(lambda x: x @ x, solver=lambda x: (x, x))(START)


@pytest.mark.parametrize(
    ("height", "length"),
    [
        (1e-12, 1.0),
        (1.0, 1e-12),
        *(
            pytest.param(*units, marks=pytest.mark.slow)
            for units in [(1.0, 1.0), (1e-9, 1e-9), (1e12, 1.0), (1.0, 1e9)]
        ),
    ],
)
def test_what_is_zero_depends_on_the_units_of_the_program(height: float, length: float) -> None:
    """The same program with an objective or lengths in other units: one inequality slack, one pressed against."""
    solve = nonlinear_program(
        lambda x, p: height * jnp.sum((x - p) ** 2),
        lambda x, p: x.sum() - 4.0 * length,
        lambda x, p: jnp.stack([0.1 * length - x[0], x[1] - length]),
    )
    start, p = length * jnp.ones(2), length * jnp.array([2.0, 3.0])
    found = solve(start, p)
    np.testing.assert_allclose(found.x / length, [3.0, 1.0], rtol=1e-9)
    np.testing.assert_allclose(found.y / (height * length), [-2.0], rtol=1e-9)
    np.testing.assert_allclose(found.z / (height * length), [0.0, 6.0], rtol=1e-9, atol=1e-12)
    slope = jax.jacobian(lambda p: solve(start, p).x)(p)
    np.testing.assert_allclose(slope, np.zeros((2, 2)), atol=1e-9)


@pytest.mark.parametrize(("height", "length"), [(1.0, 1.0), (1e-12, 1.0), (1.0, 1e-9)])
def test_a_kink_is_one_in_all_units(height: float, length: float) -> None:
    solve = nonlinear_program(lambda x, p: height * jnp.sum((x - p) ** 2), None, lambda x, p: x - length)
    with pytest.raises(ImplicitFunctionError, match="inequality 0 is active"):
        jax.jacobian(lambda p: solve(jnp.array([-length]), p).x)(jnp.array([length]))
