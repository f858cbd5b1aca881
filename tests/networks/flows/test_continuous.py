"""Continuous layers: linear equations with known solutions, estimated traces, and both ways to a gradient."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.networks.flows.audit import audit
from chainrule.networks.flows.base import Conditions
from chainrule.networks.flows.base_distributions import StandardNormal
from chainrule.networks.flows.continuous import EXACT, Continuous, GatedVelocity, Velocity

KEY = jax.random.key(0)


@final
class Linear(Velocity):
    """dx/dt = A x."""

    a: Float[Array, "size size"]

    def __call__(self, t: Scalar, x: Float[Array, "batch entries"], condition: Conditions) -> Array:
        del t, condition
        return x @ self.a.T


def test_a_linear_equation_is_solved_by_the_exponential_of_its_matrix() -> None:
    with jax.enable_x64(True):
        a = np.random.default_rng(0).normal(size=(3, 3))
        layer = Continuous((3,), Linear(jnp.asarray(a)), tolerance=1e-10)
        x = np.random.default_rng(1).normal(size=(4, 3))
        value, log_det = eqx.filter_jit(layer.forward)(jnp.asarray(x))
        np.testing.assert_allclose(value, x @ scipy.linalg.expm(a).T, atol=1e-8)
        np.testing.assert_allclose(log_det, np.trace(a), atol=1e-8)
        solved = eqx.filter_jit(layer.solved)(value)
        np.testing.assert_allclose(solved.mapped.value, x, atol=1e-7)
        assert 20 < int(solved.evaluations) < 2000


@final
class Bent(Velocity):
    """dx/dt = tanh(A x + t)."""

    a: Float[Array, "size size"]

    def __call__(self, t: Scalar, x: Float[Array, "batch entries"], condition: Conditions) -> Array:
        del condition
        return jnp.tanh(x @ self.a.T + t)


def test_a_density_that_a_velocity_bends_sums_to_one_over_the_plane() -> None:
    """By quadrature; without the changes of volume it does not."""
    layer = Continuous((2,), Bent(jnp.asarray([[1.0, 0.5], [-0.5, 1.0]])))
    axis = np.linspace(-7, 7, 71)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    z, volumes = eqx.filter_jit(layer.inverse)(jnp.asarray(points, jnp.float32))
    codes = np.asarray(StandardNormal((2,)).log_prob(z), np.float64)
    cell = (axis[1] - axis[0]) ** 2
    assert np.exp(codes + np.asarray(volumes, np.float64)).sum() * cell == pytest.approx(1, abs=1e-3)
    assert abs(np.exp(codes).sum() * cell - 1) > 0.05


def test_above_the_exact_number_of_entries_training_has_the_trace_right_on_average() -> None:
    size = EXACT + 1
    a = 0.3 * np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    layer = Continuous((size,), Linear(jnp.asarray(a)), steps=2)
    x = jnp.ones((1, size))
    volumes = jax.jit(jax.vmap(lambda key: layer.inverse_estimate(x, None, key).log_det[0]))(
        jax.random.split(KEY, 4096)
    )
    error = float(volumes.std()) / 64
    assert error > 0
    assert abs(float(volumes.mean()) + np.trace(a)) < 4 * error


@pytest.mark.parametrize("size", [2, pytest.param(EXACT + 1, marks=pytest.mark.slow)])
def test_both_gradients_of_training_are_those_of_the_exact_solution(size: int) -> None:
    """Of many equal steps and of the adjoint equation, in all that the loss depends on."""
    with jax.enable_x64(True):
        velocity = GatedVelocity(size, 8, 1, features=2, key=KEY)
        x = jnp.asarray(np.random.default_rng(0).normal(size=(3, size)))
        condition = jnp.asarray(np.random.default_rng(1).normal(size=(3, 2)))

        @eqx.filter_jit
        def gradient(layer: Continuous) -> Any:
            def loss(carried: Any) -> jax.Array:
                layer, x, condition = carried
                z, log_det = layer.inverse_estimate(x, condition, KEY)
                return (0.5 * jnp.square(z).sum() - log_det.sum()) / len(x)

            return eqx.filter_grad(loss)((layer, x, condition))

        many = gradient(Continuous((size,), velocity, steps=40))
        adjoint = gradient(Continuous((size,), velocity, tolerance=1e-9, gradient="adjoint"))
        for one, other in zip(jax.tree.leaves(many), jax.tree.leaves(adjoint), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


def test_a_solve_that_takes_too_many_steps_says_what_helps() -> None:
    layer = Continuous((2,), Linear(1e4 * jnp.asarray([[0.0, 1.0], [-1.0, 0.0]])))
    with pytest.raises(Exception, match=r"not solved within 200 steps at tolerance=1e-05: use a larger"):
        jax.block_until_ready(eqx.filter_jit(layer.forward)(jnp.ones((1, 2))).value)
    with pytest.raises(ArgumentError, match="steps must be a whole number of at least 1"):
        Continuous((2,), Linear(jnp.eye(2)), steps=0)


@pytest.mark.slow
def test_an_audit_asks_no_more_of_a_solution_than_its_solver_was_told() -> None:
    with jax.enable_x64(True):
        layer = Continuous((1,), GatedVelocity(1, 4, 1, key=KEY), tolerance=1e-6)
        x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 1)))
        found = audit(layer, StandardNormal((1,)), x, KEY)
    assert found.tolerance == pytest.approx(1e-5)
    assert found.failures == []
    assert found.whole.inverse_error > 1e-9
