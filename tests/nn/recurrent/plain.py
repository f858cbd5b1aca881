"""Recurrent layers as a loop in Python, step by step, with no derivative rule of their own."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule import nn
from chainrule.core.types import Array

KEY = jax.random.key(0)
LAYERS: dict[str, Callable[[], nn.Recurrent]] = {
    "RNN": lambda: nn.RNN(3, 4, initializer="torch", key=KEY),
    "LSTM": lambda: nn.LSTM(3, 4, initializer="torch", key=KEY),
    "GRU, reset after": lambda: nn.GRU(3, 4, initializer="torch", key=KEY),
    "GRU, reset before": lambda: nn.GRU(3, 4, reset="before", initializer="torch", key=KEY),
}


def by_formula(layer: nn.Recurrent, x: Array, states: tuple[Array, ...]) -> tuple[Array, ...]:
    """One step as the textbooks write it."""
    gates = x @ layer.inward.weight + layer.inward.bias[None]
    u, b = layer.recurrent.weight, layer.recurrent.bias
    h, size = states[0], layer.outputs
    if isinstance(layer, nn.RNN):
        return (jnp.tanh(gates + h @ u + b[None]),)
    if isinstance(layer, nn.LSTM):
        i, f, g, o = jnp.split(gates + h @ u + b[None], 4, axis=-1)
        c = jax.nn.sigmoid(f) * states[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c
    both = jax.nn.sigmoid((gates + h @ u + b[None])[:, : 2 * size])
    r, z = both[:, :size], both[:, size:]
    u_n, b_n, x_n = u[:, 2 * size :], b[None, 2 * size :], gates[:, 2 * size :]
    assert isinstance(layer, nn.GRU)
    n = jnp.tanh(x_n + (r * (h @ u_n + b_n) if layer.reset == "after" else (r * h) @ u_n + b_n))
    return ((1 - z) * n + z * h,)


def unrolled(layer: nn.Recurrent, x: Array) -> tuple[Array, tuple[Array, ...]]:
    """Outputs and last states, step by step."""
    states, outputs = layer.initial(x.shape[:1]), []
    for t in range(x.shape[1]):
        states = by_formula(layer, x[:, t], states)
        outputs.append(states[0])
    return jnp.stack(outputs, axis=1), states


def score(call: Callable[[Any, Array], Any], layer: Any, x: Array) -> Array:
    """A number that every output and every last state has a share in."""
    out, states = call(layer, x)
    return jnp.sin(3 * out).sum() + sum(jnp.sum(jnp.cos(s)) for s in states)


def direction(tree: Any, seed: int) -> Any:
    """Random numbers in the shape of a tree."""
    draws = np.random.default_rng(seed)
    return jax.tree.map(
        lambda a: jnp.asarray(draws.normal(size=a.shape), a.dtype), eqx.filter(tree, eqx.is_array)
    )
