"""Bijections made of others: one after another, the other way round, and held as they are.

Changes of volume of a chain add up, each at the values that reach its layer. Nothing here knows what a layer computes.
"""

import abc
import math
from collections.abc import Sequence
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped, Passes


@final
class BijectionChain(Bijection):
    """`T = T_K o ... o T_1`: layers in the order in which codes pass them on the way to the data.

    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> two = BijectionChain([ScaleShift((2,), log_scale=1.0), ScaleShift((2,), shift=3.0)])
    >>> x, log_det = two.forward(jnp.zeros((1, 2)))
    >>> x.tolist(), log_det.tolist()
    ([[3.0, 3.0]], [2.0])
    """

    layers: tuple[Bijection, ...]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layers: Sequence[Bijection]) -> None:
        if not layers:
            raise ArgumentError("BijectionChain: it needs at least one layer")
        self.layers, self.shape = tuple(layers), layers[0].shape
        for number, layer in enumerate(layers):
            if layer.shape != self.shape:
                raise ArgumentError(
                    f"BijectionChain: layer {number} maps events of shape {layer.shape}, those before it {self.shape}"
                )

    @property
    def passes(self) -> Passes:
        """The sum over the layers."""
        each = [layer.passes for layer in self.layers]
        return Passes(sum(one.forward for one in each), sum(one.inverse for one in each))

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """First to last."""
        total = jnp.zeros(len(z), z.dtype)
        for layer in self.layers:
            z, log_det = layer.forward(z, condition)
            total = total + log_det
        return Mapped(z, total)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Last to first."""
        total = jnp.zeros(len(x), x.dtype)
        for layer in reversed(self.layers):
            x, log_det = layer.inverse(x, condition)
            total = total + log_det
        return Mapped(x, total)

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """That of each layer, with a key of its own."""
        total = jnp.zeros(len(x), x.dtype)
        for layer, k in zip(reversed(self.layers), jax.random.split(key, len(self.layers)), strict=True):
            x, log_det = layer.inverse_estimate(x, condition, k)
            total = total + log_det
        return Mapped(x, total)

    def trained_inverse(self, x: Events, condition: Conditions, key: Key) -> tuple[Mapped, Self]:
        """That of each layer, with a key of its own."""
        total, moved = jnp.zeros(len(x), x.dtype), []
        for layer, k in zip(reversed(self.layers), jax.random.split(key, len(self.layers)), strict=True):
            (x, log_det), layer_moved = layer.trained_inverse(x, condition, k)
            total = total + log_det
            moved.append(layer_moved)
        return Mapped(x, total), eqx.tree_at(lambda chain: chain.layers, self, tuple(reversed(moved)))

    def started(self, x: Events, condition: Conditions) -> Self:
        """Every layer started by what the layers between it and the data make of them."""
        begun = []
        for layer in reversed(self.layers):
            begun.append(layer.started(x, condition))
            x = _normalised(begun[-1], x, condition)
        return eqx.tree_at(lambda chain: chain.layers, self, tuple(reversed(begun)))


@eqx.filter_jit  # layers of one structure share a program
def _normalised(layer: Bijection, x: Events, condition: Conditions) -> Events:
    return layer.inverse(x, condition).value


@final
class InvertedBijection(Bijection):
    """A layer with its directions exchanged: what it did to codes it now does to data."""

    layer: Bijection
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layer: Bijection) -> None:
        self.layer, self.shape = layer, layer.shape

    @property
    def passes(self) -> Passes:
        """Those of the layer, exchanged."""
        return Passes(self.layer.passes.inverse, self.layer.passes.forward)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """The inverse of the layer."""
        return self.layer.inverse(z, condition)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """The layer."""
        return self.layer.forward(x, condition)


@final
class Reshaped(Bijection):
    """A layer of vectors as one of events of another shape with as many entries, such as images."""

    layer: Bijection
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layer: Bijection, shape: tuple[int, ...]) -> None:
        if math.prod(shape) != math.prod(layer.shape):
            raise ArgumentError(f"Reshaped: events of shape {shape} are not vectors of {layer.shape}")
        self.layer, self.shape = layer, shape

    @property
    def passes(self) -> Passes:
        """Those of the layer."""
        return self.layer.passes

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """That of the layer."""
        return self._outside(self.layer.forward(self._inside(z), condition))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """That of the layer."""
        return self._outside(self.layer.inverse(self._inside(x), condition))

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """That of the layer."""
        return self._outside(self.layer.inverse_estimate(self._inside(x), condition, key))

    def trained_inverse(self, x: Events, condition: Conditions, key: Key) -> tuple[Mapped, Self]:
        """That of the layer."""
        mapped, moved = self.layer.trained_inverse(self._inside(x), condition, key)
        return self._outside(mapped), eqx.tree_at(lambda one: one.layer, self, moved)

    def started(self, x: Events, condition: Conditions) -> Self:
        """With the layer started."""
        return eqx.tree_at(lambda one: one.layer, self, self.layer.started(self._inside(x), condition))

    def _inside(self, x: Events) -> Events:
        return x.reshape(len(x), *self.layer.shape)

    def _outside(self, mapped: Mapped) -> Mapped:
        return Mapped(mapped.value.reshape(len(mapped.value), *self.shape), mapped.log_det)


class Held(eqx.Module, abc.ABC):
    """Arrays that training leaves as they are: neither gradients nor decay reach them."""


@final
class Frozen(Bijection, Held):
    """A layer whose arrays are held: it maps as before, and gradients pass through it to other layers."""

    layer: Bijection
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layer: Bijection) -> None:
        self.layer, self.shape = layer, layer.shape

    @property
    def passes(self) -> Passes:
        """Those of the layer."""
        return self.layer.passes

    @property
    def _held(self) -> Bijection:
        return jax.lax.stop_gradient(self.layer)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """That of the layer."""
        return self._held.forward(z, condition)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """That of the layer."""
        return self._held.inverse(x, condition)

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """That of the layer."""
        return self._held.inverse_estimate(x, condition, key)

    def started(self, x: Events, condition: Conditions) -> Self:
        """With the layer started: data may say what is held."""
        return eqx.tree_at(lambda frozen: frozen.layer, self, self.layer.started(x, condition))


__all__ = ["BijectionChain", "Frozen", "Held", "InvertedBijection", "Reshaped"]
