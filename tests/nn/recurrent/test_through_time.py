"""The loop through time has the derivatives of its steps, in every mode and order."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from tests.nn.recurrent.plain import LAYERS, direction, score, unrolled

X = np.random.default_rng(0).normal(size=(2, 3, 3))


def close(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def ours(layer: nn.Recurrent, x: Any) -> Any:
    return layer(x)


@pytest.mark.parametrize(
    ("name", "orders"),
    [
        *((name, 1) for name in LAYERS),
        ("LSTM", 2),
        pytest.param("GRU, reset before", 2, marks=pytest.mark.slow),
    ],
)
def test_values_and_derivatives_of_both_modes_and_orders_are_those_of_the_steps(
    name: str, orders: int
) -> None:
    layer, x = LAYERS[name](), jnp.asarray(X)
    v, w = direction((layer, x), 1), direction((layer, x), 2)

    @functools.partial(jax.jit, static_argnums=0)
    def everything(call: Any, args: Any) -> Any:
        def value(args: Any) -> Any:
            return score(call, *args)

        def along(args: Any) -> Any:
            return jax.jvp(value, (args,), (v,))[1]

        slope = jax.grad(value)
        if orders == 1:
            return call(*args), slope(args), along(args)
        forward_over_reverse = jax.jvp(slope, (args,), (v,))[1]
        reverse_over_forward = jax.grad(along)(args)
        reverse_over_reverse = jax.grad(lambda a: _inner(slope(a), w))(args)
        forward_over_forward = jax.jvp(along, (args,), (w,))[1]
        return (
            forward_over_reverse,
            reverse_over_forward,
            reverse_over_reverse,
            forward_over_forward,
        )

    close(everything(ours, (layer, x)), everything(unrolled, (layer, x)))


def _inner(a: Any, b: Any) -> Any:
    return sum(jnp.vdot(p, q) for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.parametrize("name", ["LSTM", "GRU, reset before"])
def test_segments_change_neither_values_nor_gradients(name: str) -> None:
    args = LAYERS[name](), jnp.asarray(X)

    def judged(**options: Any) -> Any:
        return jax.jit(jax.value_and_grad(lambda a: score(lambda one, x: one(x, **options), *a)))(args)

    expected = judged()
    for segment in (0, 2, 4):
        close(judged(segment=segment), expected)


def test_segments_hold_fewer_numbers_for_the_backward_pass() -> None:
    layer, x = nn.LSTM(4, 16, key=jax.random.key(0)), jnp.zeros((2, 400, 4))

    def held(**options: Any) -> int:
        saved = jax.eval_shape(
            lambda layer: jax.vjp(lambda one: one(x, **options)[1][0].sum(), layer)[1], layer
        )
        return sum(leaf.size for leaf in jax.tree.leaves(saved))

    assert held(segment=0) < 0.15 * held()


def test_a_batch_of_layers_is_a_loop_over_layers() -> None:
    x = jnp.asarray(X)
    layers = [nn.LSTM(3, 4, key=jax.random.key(seed)) for seed in range(2)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *layers)
    slope = jax.jit(jax.grad(lambda layer: score(ours, layer, x)))
    close(jax.jit(jax.vmap(slope))(together), jax.tree.map(lambda *g: jnp.stack(g), *map(slope, layers)))


def test_the_gradient_of_the_weights_is_the_sum_over_the_copies_of_every_step() -> None:
    layer, x = LAYERS["RNN"](), jnp.asarray(X)

    def with_copies(copies: list[Any]) -> Any:
        states = layer.initial((2,))
        outputs = []
        for t, recurrent in enumerate(copies):
            states = (jnp.tanh(layer.inward(x[:, t]) + recurrent(states[0])),)
            outputs.append(states[0])
        return score(lambda *_: (jnp.stack(outputs, axis=1), states), layer, x)

    by_step = jax.jit(jax.grad(with_copies))([layer.recurrent] * 3)
    summed = jax.tree.map(lambda *g: sum(g), *by_step)
    close(jax.jit(jax.grad(lambda layer: score(ours, layer, x)))(layer).recurrent, summed)


def test_half_precision_stays_half() -> None:
    layer = jax.tree.map(lambda a: a.astype(jnp.bfloat16), LAYERS["LSTM"]())
    x = jnp.asarray(X, jnp.bfloat16)

    def both(layer: nn.Recurrent) -> Any:
        out, back = jax.vjp(lambda one: one(x)[0], layer)
        return out, back(out)

    assert {a.dtype for a in jax.tree.leaves(jax.eval_shape(both, layer))} == {jnp.dtype(jnp.bfloat16)}
