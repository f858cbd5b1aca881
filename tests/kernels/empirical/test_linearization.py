"""Taylor expansions of networks: exact where they must be, trained as the tangent kernel says."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.kernels.empirical import empirical_ntk, linearize
from tests.kernels.empirical.networks import examples

NOISE = np.random.default_rng(0)
PARAMS = {"in": NOISE.normal(size=(2, 5)), "out": NOISE.normal(size=(5, 1))}
OTHER = {"in": NOISE.normal(size=(2, 5)), "out": NOISE.normal(size=(5, 1))}
X = examples(4, (2,))


def network(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["in"]) @ params["out"]


def moved(step: float) -> Any:
    return jax.tree.map(lambda a, b: a + step * (b - a), PARAMS, OTHER)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_the_error_falls_with_the_step_to_the_power_after_the_order(order: int) -> None:
    expanded = eqx.filter_jit(linearize(network, PARAMS, order=order))
    steps = (0.02, 0.01)
    errors = [np.abs(network(moved(s), X) - expanded(moved(s), X)).max() for s in steps]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order + 1, abs=0.2)
    np.testing.assert_allclose(expanded(PARAMS, X), network(PARAMS, X), rtol=1e-12)


def test_a_polynomial_is_its_expansion_of_its_own_degree() -> None:
    def cubic(w: Any, x: Any) -> Any:
        return (x @ w)[:, None] ** 3

    w, other = np.array([1.0, -2.0]), np.array([0.3, 0.7])
    np.testing.assert_allclose(linearize(cubic, w, order=3)(other, X), cubic(other, X), rtol=1e-10)


def test_the_kernel_of_a_linearised_network_is_that_of_the_network_wherever_it_is_asked() -> None:
    line = linearize(network, PARAMS)
    expected = empirical_ntk(network, PARAMS, X, route="structured")
    np.testing.assert_allclose(empirical_ntk(line, OTHER, X, route="jacobian"), expected, rtol=1e-9)


def test_descent_on_a_linearised_network_is_what_its_kernel_predicts() -> None:
    """`u(n) = y + (1 - rate Theta)^n (u(0) - y)` for a loss of half the sum of squares."""
    line, rate, steps = linearize(network, PARAMS), 0.05, 20
    y = examples(4, (1,), seed=7)

    def loss(params: Any) -> Any:
        return 0.5 * jnp.sum((line(params, X) - y) ** 2)

    @jax.jit
    def trained(params: Any) -> Any:
        step = lambda _, p: jax.tree.map(lambda a, g: a - rate * g, p, jax.grad(loss)(p))  # noqa: E731
        return line(jax.lax.fori_loop(0, steps, step, params), X)

    theta = np.asarray(empirical_ntk(network, PARAMS, X, route="structured"))
    start = np.asarray(network(PARAMS, X))
    expected = y + np.linalg.matrix_power(np.eye(4) - rate * theta, steps) @ (start - y)
    np.testing.assert_allclose(trained(line.params), expected, rtol=1e-9)


def test_only_named_parameters_are_moved() -> None:
    line = linearize(network, PARAMS, where="out")
    expected = np.tanh(X @ PARAMS["in"]) @ OTHER["out"]
    np.testing.assert_allclose(line(OTHER, X), expected, rtol=1e-10)


def test_models_are_expanded_in_what_they_learn() -> None:
    moons = data.load("moons")
    model = models.build("mlp", moons, width=4, depth=2)
    line = linearize(model)
    x = jnp.asarray(moons.train.batch(np.arange(3)).x)
    np.testing.assert_allclose(line(line.params, x), model.logits(x), rtol=1e-5, atol=1e-6)


def test_other_structures_and_orders_are_refused() -> None:
    with pytest.raises(ArgumentError, match="another structure"):
        linearize(network, PARAMS)([1.0], X)
    with pytest.raises(ArgumentError, match="order"):
        linearize(network, PARAMS, order=-1)


def test_a_function_without_forward_mode_is_refused_and_the_remedy_works() -> None:
    table = data.from_arrays(NOISE.normal(size=(30, 2)), NOISE.normal(size=30), kind="table")
    model: Any = models.build("kernel-ridge", table, scale=1.0, ridge=0.1)
    model, _ = model.iterate(table.train.batch(np.arange(len(table.train))), jax.random.key(0))
    line = linearize(model)
    with jax.enable_x64(False), pytest.raises(CapabilityError, match="needs forward mode") as refused:
        line(model, np.float32(X))
    assert refused.value.remedy is not None
    assert "jax.enable_x64(True)" in refused.value.remedy
    with jax.enable_x64(True):
        np.testing.assert_allclose(line(model, X), model.logits(jnp.asarray(X)), rtol=1e-6)
