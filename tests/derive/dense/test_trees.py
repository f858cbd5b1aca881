"""Derivatives of functions between PyTrees of every kind have JAX's structure, shapes and numbers."""

from typing import Any

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import chainrule as cr
from tests.derive.dense.test_strategies import close


class Layer(eqx.Module):
    weight: Any
    bias: Any
    width: int = eqx.field(static=True, default=3)

    @jax.jit
    def __call__(self, x: Any) -> Any:
        return jnp.tanh(self.weight @ x + self.bias)


shapes = st.sampled_from([(), (1,), (2,), (0,), (2, 2), (1, 3)])


def leaves(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 2**16).map(lambda seed: np.random.default_rng(seed).standard_normal(shape))


trees = st.recursive(
    shapes.flatmap(leaves),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from("ab"), inner, min_size=1)
        | st.builds(Layer, inner, inner)
    ),
    max_leaves=4,
)


def mixing(x: Any) -> Any:
    """A tree of another kind, each leaf of which depends on all of `x`."""
    total = sum(jnp.sum(jnp.sin(leaf) * leaf) for leaf in jax.tree.leaves(x))
    first = jax.tree.leaves(x)[0]
    return {"all": total**2, "each": [first * total, (jnp.cos(first), jnp.zeros((0,)) * total)]}


@jax.jit
def jacobians(x: Any) -> list[Any]:
    """JAX's, and ours in both modes."""
    ours = [cr.derive.jacobian(mixing, mode, 2)(x) for mode in ("forward", "reverse")]
    return [jax.jacfwd(mixing)(x), *ours]


@jax.jit
def hessians(x: Any) -> list[Any]:
    """JAX's, and ours by every strategy."""
    f = lambda x: mixing(x)["all"]  # noqa: E731
    return [jax.hessian(f)(x), *(cr.derive.hessian(f, strategy, 3)(x) for strategy in cr.derive.STRATEGIES)]


@given(x=trees)
@settings(max_examples=12)
def test_jacobians_of_trees_are_those_of_jax(x: Any) -> None:
    for found in jacobians(x)[1:]:
        close(found, jacobians(x)[0])


@given(x=trees)
@settings(max_examples=6)
def test_hessians_of_trees_are_those_of_jax(x: Any) -> None:
    for found in hessians(x)[1:]:
        close(found, hessians(x)[0])


@jax.jit
def products(x: Any, v: Any, u: Any) -> tuple[Any, Any, Any, Any, Any]:
    y, pushed = cr.derive.jvp(mixing, x, v)
    _, pull = cr.derive.vjp(mixing, x)
    _, push = cr.derive.linearize(mixing, x)
    return y, mixing(x), pushed, push(v), pull(u)


@given(x=trees, seed=st.integers(0, 99))
@settings(max_examples=8)
def test_products_with_trees_are_rows_and_columns_of_the_jacobian(x: Any, seed: int) -> None:
    def random_like(tree: Any) -> Any:
        rng = np.random.default_rng(seed)
        return jax.tree.map(lambda a: rng.standard_normal(np.shape(a)), tree)

    v, u = random_like(x), random_like(jax.eval_shape(mixing, x))
    y, expected, pushed, again, pulled = products(x, v, u)
    close(y, expected)
    close(again, pushed)
    inner = lambda a, b: sum(  # noqa: E731
        np.sum(np.asarray(p) * np.asarray(q))
        for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )
    assert inner(u, pushed) == pytest.approx(inner(pulled, v), rel=1e-10, abs=1e-10)


def test_a_module_is_differentiated_in_its_arrays_and_keeps_the_rest() -> None:
    layer = Layer(np.ones((3, 2)), np.zeros(3))
    x = np.array([0.1, 0.2])
    grad = cr.derive.gradient(lambda layer: layer(x).sum())(layer)
    assert isinstance(grad, Layer)
    assert grad.width == 3
    J = cr.derive.jacobian(lambda layer: layer(x))(layer)
    assert J.weight.shape == (3, 3, 2)
    close(J.bias, jax.jit(jax.jacrev(lambda layer: layer(x)))(layer).bias)
    product = cr.derive.hvp(lambda layer: layer(x).sum())(layer, layer)
    assert isinstance(product, Layer)


def test_several_arguments_are_differentiated_together() -> None:
    f = lambda x, y, k: x @ y * k  # noqa: E731
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    J = cr.derive.jacobian(f, argnums=(0, 1))
    expected = jax.jit(jax.jacfwd(f, (0, 1)))(x, y, 2.0)
    close(J(x, y, 2.0), expected)
    close(cr.derive.jacobian(f, argnums=-2)(x, y, 2.0), expected[1])
    H = cr.derive.hessian(lambda x, y: (x @ y).sum() ** 2, argnums=(0, 1))
    close(H(x, y), jax.jit(jax.hessian(lambda x, y: (x @ y).sum() ** 2, (0, 1)))(x, y))


def test_leaves_of_different_precision_keep_their_types() -> None:
    x = {"single": jnp.ones(2, jnp.float32), "double": jnp.ones(3, jnp.float64)}
    f = lambda x: x["double"].sum() * x["single"]  # noqa: E731
    J = cr.derive.jacobian(f)(x)
    assert (J["single"].dtype, J["double"].dtype) == (jnp.float64, jnp.float64)
    grad = cr.derive.gradient(lambda x: f(x).sum())(x)
    assert (grad["single"].dtype, grad["double"].dtype) == (jnp.float32, jnp.float64)
