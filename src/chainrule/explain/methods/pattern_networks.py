"""Twelve switches and narrow networks: a problem small enough that every input can be shown, for the information plane.

Each switch lets an arrow of length one point from the middle of a ball to its place on the surface; the twelve places
are spread evenly. The class says, nearly always, whether the arrows that are on add up to a long one: a rule that
does not change when the ball is turned. All 4,096 patterns are as likely, and the probability of the class given the
pattern is known, so that I(X; Y) is.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.nn import activation

SWITCHES = 12


class Patterns(NamedTuple):
    """All inputs, and what is known about their class."""

    x: Float[np.ndarray, "patterns switches"]
    """-1 and 1."""
    p: Float[np.ndarray, "patterns 2"]
    """The probabilities of both classes."""
    information: float
    """I(X; Y) in bits."""


@functools.cache
def patterns(information: float = 0.99) -> Patterns:
    """All patterns of the switches; how sharp the rule is follows from I(X; Y) in bits.

    >>> found = patterns()
    >>> found.x.shape, round(found.information, 4), round(float(found.p[:, 1].mean()), 2)
    ((4096, 12), 0.99, 0.5)
    """
    on = (np.arange(2**SWITCHES)[:, None] >> np.arange(SWITCHES)[None]) & 1
    height = 1 - 2 * (np.arange(SWITCHES) + 0.5) / SWITCHES
    angle = np.pi * (1 + np.sqrt(5)) * np.arange(SWITCHES)
    ring = np.sqrt(1 - height**2)
    arrows = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=1)
    length = np.square(on @ arrows).sum(axis=1)
    excess = length - np.median(length)
    low, high = 1e-3, 1e6
    for _ in range(80):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if _information(_classes(middle * excess)) < information else (low, middle)
    p = _classes(np.sqrt(low * high) * excess)
    return Patterns(2.0 * on - 1, p, _information(p))


def _classes(logit: np.ndarray) -> np.ndarray:
    one = 1 / (1 + np.exp(-np.clip(logit, -700, 700)))
    return np.stack([1 - one, one], axis=1)


def _information(p: np.ndarray) -> float:
    def entropy(q: np.ndarray) -> np.ndarray:
        return -(q * np.log2(np.where(q > 0, q, 1.0))).sum(axis=-1)

    return float(entropy(p.mean(axis=0)) - entropy(p).mean())


def start(widths: tuple[int, ...], key: Key) -> Tree:
    """Weights of a dense network: Gaussian with variance one over the inputs; biases of zero."""
    sizes = [SWITCHES, *widths, 2]
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        (jax.random.normal(k, (n, m)) / np.sqrt(n), jnp.zeros(m))
        for n, m, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
    ]


def layers(weights: Tree, x: Array, name: str) -> list[Array]:
    """The values of every hidden layer, and the probabilities of the classes."""
    act, found, h = activation(name), [], x
    for weight, bias in weights[:-1]:
        h = act(h @ weight + bias[None])
        found.append(h)
    weight, bias = weights[-1]
    return [*found, jax.nn.softmax(h @ weight + bias[None])]


class NarrowNetworks(NamedTuple):
    """Networks of several seeds at some steps of their training."""

    weights: list[Tree]
    """At each moment, with the seeds along the first axis."""
    accuracy: Float[np.ndarray, "moments seeds 2"]
    """On the patterns that were trained on, and on the others."""


def trained(
    widths: tuple[int, ...],
    name: str,
    marks: Int[np.ndarray, " moments"],
    *,
    seeds: int,
    seed: int,
    batch: int,
    lr: float,
    share: float,
) -> NarrowNetworks:
    """Adam on the cross-entropy of classes drawn once, on a share of the patterns; the seeds run side by side."""
    known = patterns()
    drawn = np.random.default_rng(seed)
    y = (drawn.random(len(known.x)) < known.p[:, 1]).astype(np.int32)
    order = drawn.permutation(len(known.x))
    count = int(share * len(order))
    x, classes = jnp.asarray(known.x, jnp.float32), jnp.asarray(y)
    used, other = jnp.asarray(order[:count]), jnp.asarray(order[count:])
    optimizer = optax.adam(lr)
    keys = jax.random.split(jax.random.key(seed), seeds)

    def loss(weights: Tree, some: Array) -> Array:
        out = layers(weights, x[some], name)[-1]
        return -jnp.log(jnp.maximum(out[jnp.arange(len(some)), classes[some]], 1e-12)).mean()

    def update(number: Array, carry: tuple[Tree, Tree, Key]) -> tuple[Tree, Tree, Key]:
        weights, state, key = carry
        some = used[jax.random.randint(jax.random.fold_in(key, number), (batch,), 0, count)]
        changes, state = optimizer.update(jax.grad(loss)(weights, some), state)
        return optax.apply_updates(weights, changes), state, key

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0, 0, None, None))
    def advance(weights: Tree, state: Tree, key: Key, first: Array, last: Array) -> tuple[Tree, Tree]:
        return jax.lax.fori_loop(first, last, update, (weights, state, key))[:2]

    @jax.jit
    @jax.vmap
    def judged(weights: Tree) -> Array:
        right = layers(weights, x, name)[-1].argmax(axis=1) == classes
        return jnp.stack([right[used].mean(), right[other].mean()])

    weights = jax.vmap(lambda key: start(widths, key))(keys)
    state = jax.vmap(optimizer.init)(weights)
    moments, accuracy, before = [], [], 0
    for mark in marks.tolist():
        weights, state = advance(weights, state, keys, jnp.asarray(before), jnp.asarray(mark))
        before = mark
        moments.append(jax.tree.map(np.asarray, weights))
        accuracy.append(np.asarray(judged(weights)))
    return NarrowNetworks(moments, np.stack(accuracy))


def shown(weights: Tree, which: int, name: str, x: np.ndarray) -> dict[str, np.ndarray]:
    """The values of all layers of one of the networks, by name."""
    one = jax.tree.map(lambda leaf: leaf[which], weights)
    found = _layers(one, jnp.asarray(x, jnp.float32), name)
    return {f"h{number}": np.asarray(values) for number, values in enumerate(found, start=1)}


def _layers(weights: Any, x: Array, name: str) -> list[Array]:
    return _compiled(name)(weights, x)


@functools.cache
def _compiled(name: str) -> Any:
    return jax.jit(lambda weights, x: layers(weights, x, name))


__all__ = ["SWITCHES", "NarrowNetworks", "Patterns", "layers", "patterns", "shown", "start", "trained"]
