"""Networks that training calls with a key and gets back moved on, and layers one after the other as such a network."""

import abc
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Self, final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Tree
from chainrule.nn.activations import activation
from chainrule.nn.normalize import BatchNorm, Norm
from chainrule.nn.reparametrize import SpectralNorm
from chainrule.nn.residual import Residual, ResidualBlock, add_shortcut


class StatefulNetwork(eqx.Module):
    """A function of a batch whose layers may draw noise and keep running statistics while training.

    Subclass it for a network of your own that holds `BatchNorm`; `models.wrap` trains any of them.
    """

    @abc.abstractmethod
    def advance(self, x: Array, key: Key) -> tuple[Array, Self]:
        """The outputs of a batch, and the network with its statistics moved on; in inference mode as it is."""


@final
class Sequential(StatefulNetwork):
    """Layers one after the other.

    A layer is one of this package, one of Equinox (called on each example by itself), the name of an activation, or any
    function of a batch. Those that want a `key` get one. Called as a function it predicts: nothing is dropped, and
    normalisers use their running statistics.

    >>> from chainrule import nn
    >>> net = Sequential([nn.Linear(3, 8, key=jax.random.key(0)), "relu", nn.Linear(8, 2, key=jax.random.key(1))])
    >>> net(jax.numpy.ones((5, 3))).shape
    (5, 2)
    """

    layers: tuple[Any, ...]
    inference: bool

    def __init__(self, layers: Sequence[Any], *, inference: bool = False) -> None:
        self.layers = tuple(activation(one) if isinstance(one, str) else one for one in layers)
        self.inference = inference
        for number, layer in enumerate(self.layers):
            if not callable(layer):
                raise ArgumentError(
                    f"Sequential: layer {number} is a {type(layer).__name__}, which cannot be called",
                    remedy="give layers, names of activations, or functions of a batch",
                )

    def __call__(self, x: Array) -> Array:
        """The outputs when predicting."""
        return eqx.nn.inference_mode(self).advance(x, jax.random.key(0))[
            0
        ]  # no layer draws from the key then

    def advance(self, x: Array, key: Key) -> tuple[Array, Self]:
        """The outputs, and the layers with their statistics moved on when training."""
        moved = []
        for number, layer in enumerate(self.layers):
            x, after = self._step(layer, x, jax.random.fold_in(key, number))
            moved.append(after)
        return x, eqx.tree_at(lambda net: net.layers, self, tuple(moved))

    def _step(self, layer: Any, x: Array, key: Key) -> tuple[Array, Any]:
        if isinstance(layer, StatefulNetwork):
            return layer.advance(x, key)
        if isinstance(layer, Residual):
            one, two = jax.random.split(key)
            branch, f = self._step(layer.f, x, one)
            kept, shortcut = (x, None) if layer.shortcut is None else self._step(layer.shortcut, x, two)
            return add_shortcut(branch, kept), Residual(f, shortcut)
        if isinstance(layer, ResidualBlock) and not self.inference:
            return layer.advance(x, key)
        if isinstance(layer, Norm | SpectralNorm) and not self.inference:
            return layer.advance(x)
        return called(layer, x, key, batched=not type(layer).__module__.startswith("equinox.")), layer


def called(function: Callable[..., Any], x: Array, key: Key, *, batched: bool) -> Any:
    """A function of a whole batch, or of each of its examples by itself, with a key if it takes one."""
    keyed = wants_key(function)
    if batched:
        return function(x, key=key) if keyed else function(x)
    if keyed:
        return jax.vmap(lambda one, own: function(one, key=own))(x, jax.random.split(key, len(x)))
    return jax.vmap(function)(x)


def wants_key(function: Callable[..., Any]) -> bool:
    """Whether a function or module takes an argument named key."""
    return "key" in inspect.signature(function).parameters


def running_statistics(tree: Any) -> Sequence[Tree]:
    """The arrays that normalisers anywhere in a tree move by rule."""
    kinds = (Norm, SpectralNorm)
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kinds))
    return [array for node in nodes if isinstance(node, kinds) for array in node.state()]


def batch_statistics(tree: Any) -> bool:
    """Whether anything in a tree normalises by the examples of a batch, with layers of this package or of Equinox."""
    kinds = (BatchNorm, eqx.nn.BatchNorm)
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kinds))
    return any(isinstance(node, kinds) for node in nodes)


__all__ = ["Sequential", "StatefulNetwork", "batch_statistics", "called", "running_statistics", "wants_key"]
