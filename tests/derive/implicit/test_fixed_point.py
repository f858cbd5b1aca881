"""Fixed points: the iteration is not differentiated, so its rate and length do not matter."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ImplicitFunctionError
from chainrule.derive import implicit


def heron(x: jax.Array, a: jax.Array) -> jax.Array:
    """Its fixed point is the square root, where its derivative in x vanishes."""
    return (x + a / x) / 2


heron_solve = implicit.fixed_point(heron)
MATRIX = np.random.default_rng(0).normal(size=(4, 4)) * 0.2


def layer(x: jax.Array, q: jax.Array) -> jax.Array:
    """An equilibrium layer."""
    return jnp.tanh(jnp.asarray(MATRIX) @ x + q)


def test_second_derivatives_of_the_square_root_are_exact_in_every_nesting(second: Callable[..., Any]) -> None:
    found = second(lambda a: heron_solve(1.0, a))(2.0)
    assert found == pytest.approx(-0.08838834764831845, rel=1e-12)


def test_first_derivatives_of_the_square_root_are_exact() -> None:
    assert jax.grad(heron_solve, argnums=1)(1.0, 2.0) == pytest.approx(0.35355339059327373, rel=1e-12)


def test_unrolling_three_steps_is_off_where_the_fixed_point_is_not() -> None:
    def unrolled(a: float) -> Any:
        x: Any = 1.0
        for _ in range(3):
            x = heron(x, a)
        return x

    assert abs(jax.grad(unrolled)(2.0) - 0.35355339059327373) == pytest.approx(1.25e-5, rel=0.01)


def test_the_root_of_the_same_equation_has_another_jacobian_and_the_same_derivative() -> None:
    flat = heron_solve.details(1.0, 2.0)
    steep = implicit.root(lambda w, a: w**2 - a).details(1.0, 2.0)
    assert float(flat.value) == pytest.approx(float(steep.value), rel=1e-14)


@pytest.mark.parametrize("solver", ["picard", "anderson", "newton"])
def test_every_solver_finds_the_equilibrium(solver: str) -> None:
    q = jnp.linspace(-1, 1, 4)
    found = implicit.fixed_point(layer, solver).details(jnp.zeros(4), q)
    np.testing.assert_allclose(found.value, layer(found.value, q), atol=1e-14)
    assert int(found.stats.factorisations) == (int(found.stats.steps) + 1 if solver == "newton" else 1)


def test_anderson_needs_fewer_steps_than_plain_iteration() -> None:
    q = jnp.linspace(-1, 1, 4)
    steps = [
        int(implicit.fixed_point(layer, s).details(jnp.zeros(4), q).stats.steps)
        for s in ("picard", "anderson")
    ]
    assert steps[1] < 0.6 * steps[0]


def test_gradients_of_an_equilibrium_layer_equal_those_of_a_long_unrolling() -> None:
    q = jnp.linspace(-1, 1, 4)

    def unrolled(q: jax.Array) -> jax.Array:
        x = jax.lax.fori_loop(0, 80, lambda _, x: layer(x, q), jnp.zeros(4))
        return jnp.sum(x**2)

    solve = implicit.fixed_point(layer)
    found = jax.grad(lambda q: jnp.sum(solve(jnp.zeros(4), q) ** 2))(q)
    np.testing.assert_allclose(found, jax.grad(unrolled)(q), rtol=1e-12)


def test_an_iteration_that_moves_away_is_refused() -> None:
    with pytest.raises(ImplicitFunctionError, match="not a solution"):
        implicit.fixed_point(lambda x, q: 3 * x + q, implicit.Picard(max_steps=20))(1.0, 1.0)


def test_a_solver_of_the_user_gets_the_iteration_itself() -> None:
    def iterate(g: Callable[..., Any], x: Any, *params: Any) -> Any:
        for _ in range(30):
            x = g(x, *params)
        return x

    solve = implicit.fixed_point(heron, iterate)
    assert jax.grad(solve, argnums=1)(1.0, 2.0) == pytest.approx(0.35355339059327373, rel=1e-12)
