"""DeepLIFT: every rule sends back the whole change of its operation, whatever a function is made of."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import explain
from chainrule.explain.methods.gradients.rescale_rules import halfway, largest, rescaled
from chainrule.nn import LayerNorm, max_pool
from chainrule.nn.attention.softmax import softmax

RNG = np.random.default_rng(0)
X, START = (RNG.normal(size=(3, 6)).astype(np.float32) for _ in range(2))
A, B = (RNG.normal(size=(6, 6)).astype(np.float32) for _ in range(2))
NORM = LayerNorm(6)


def heads(x: jax.Array) -> jax.Array:
    """Attention of entries to each other: products and a softmax of what moves."""
    q, v = x @ A, x @ B
    weights = jax.nn.softmax(q[:, :, None] * v[:, None, :], axis=-1)
    return jnp.einsum("bij,bj->bi", weights, x).sum(axis=1)


FUNCTIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "rectifiers": lambda x: jax.nn.relu(jax.nn.leaky_relu(x @ A) @ B).sum(axis=1),
    "smooth curves": lambda x: (jax.nn.gelu(x @ A) + jax.nn.silu(x) * jnp.tanh(x @ B)).sum(axis=1),
    "normalisation": lambda x: jax.nn.relu(NORM(x) @ A)[:, 0] / (1 + jnp.square(x).sum(axis=1)),
    "maxima": lambda x: (
        jnp.maximum(x @ A, x @ B).max(axis=1) + max_pool((x @ A)[..., None], 2, dimensions=1).sum(axis=(1, 2))
    ),
    "attention": heads,
    "masked attention": lambda x: (
        softmax((x @ A)[:, :, None] * (x @ B)[:, None, :], where=jnp.tri(6, dtype=bool)) * x[:, None, :]
    ).sum(axis=(1, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_add_up_exactly(name: str) -> None:
    found = explain.deep_lift(FUNCTIONS[name], X, START)
    assert np.abs(found.residual).max() < 2e-5 * max(1, found.output_range)
    assert np.abs(found.values).max() > 0
    np.testing.assert_allclose(found.outputs, FUNCTIONS[name](jnp.asarray(X)), rtol=1e-4, atol=1e-5)


def test_a_saturated_unit_still_passes_on_what_it_did() -> None:
    saturated = lambda x: 1 - jax.nn.relu(1 - x[:, 0] - x[:, 1])  # noqa: E731
    found = explain.deep_lift(saturated, np.ones((1, 2)), 0.0)
    np.testing.assert_allclose(found.values, [[0.5, 0.5]], rtol=1e-6)
    assert (explain.saliency(saturated, np.ones((1, 2))).values == 0).all()


def test_where_nothing_moves_the_derivative_takes_the_part_of_the_quotient() -> None:
    curve = lambda x: jnp.tanh(x).sum()  # noqa: E731
    x = jnp.asarray(X[0])
    slope = jax.grad(lambda x: rescaled(curve_of_each, x, jnp.asarray(X[0])).sum())(x)
    np.testing.assert_allclose(slope, jax.grad(curve)(x), rtol=1e-5)


def curve_of_each(x: jax.Array) -> jax.Array:
    return jnp.tanh(x)


def test_each_rule_gives_multipliers_that_make_up_the_change() -> None:
    x, y, x0, y0 = (jnp.asarray(RNG.normal(size=8), jnp.float32) for _ in range(4))
    for rule, operation in ((halfway, jnp.multiply), (largest, jnp.maximum)):
        _, back = jax.vjp(
            lambda x, y, rule=rule, operation=operation: rule(operation, [x, y], [x0, y0]), x, y
        )  # type: ignore[misc]
        mx, my = back(jnp.ones(8))
        np.testing.assert_allclose(
            mx * (x - x0) + my * (y - y0), operation(x, y) - operation(x0, y0), rtol=1e-4, atol=1e-5
        )
