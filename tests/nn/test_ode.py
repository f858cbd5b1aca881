"""Integrators of differential equations: order, adaptive steps, both directions, trees."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn.ode import ODESolution, dormand_prince, runge_kutta

START, END = jnp.asarray(0.0), jnp.asarray(2.0)


def spring(t: jnp.ndarray, state: tuple) -> tuple:
    """x'' = -x as two equations of the first order."""
    del t
    x, v = state
    return v, -x


BEGIN = (jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]))


def error(found: ODESolution) -> float:
    exact = np.array([np.cos(2.0), np.sin(2.0)])
    return float(np.abs(np.asarray(found.y[0]) - exact).max())


def test_the_classical_method_is_of_fourth_order() -> None:
    coarse, fine = (error(runge_kutta(spring, BEGIN, START, END, steps)) for steps in (4, 8))
    assert 12 < coarse / fine < 24
    assert int(runge_kutta(spring, BEGIN, START, END, 4).evaluations) == 16


def test_adaptive_steps_keep_to_the_tolerance_and_lead_back() -> None:
    there = dormand_prince(spring, BEGIN, START, END, rtol=1e-5, atol=1e-5)
    assert bool(there.reached)
    assert error(there) < 5e-5
    back = dormand_prince(spring, there.y, END, START, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back.y[0], BEGIN[0], atol=1e-4)


def test_what_cannot_be_solved_is_told() -> None:
    few = dormand_prince(spring, BEGIN, START, END, rtol=1e-7, atol=1e-7, most=2)
    assert not bool(few.reached)
    with pytest.raises(ArgumentError, match="at least one step"):
        runge_kutta(spring, BEGIN, START, END, 0)


def test_adaptive_steps_can_be_differentiated_in_both_modes() -> None:
    """The end of x' = a x from 1 is exp(2 a), with slope 2 exp(2 a)."""

    def end(a: jax.Array) -> jax.Array:
        found = dormand_prince(
            lambda t, x: a * x, jnp.ones(()), START, END, rtol=1e-6, atol=1e-6, most=100, differentiable=True
        )
        return found.y

    a = jnp.asarray(0.3)
    plain = dormand_prince(lambda t, x: 0.3 * x, jnp.ones(()), START, END, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(jax.jit(end)(a), plain.y, rtol=1e-6)
    for mode in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(jax.jit(mode(end))(a), 2 * np.exp(0.6), rtol=1e-4)
