"""Many layers of one kind as one loop: their arrays are stacked, so that a program holds a single copy of the layer.

Thirty-two steps of Glow compile in the time of one. The order is that of a chain: codes pass the first layer first.
"""

from collections.abc import Callable
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.types import Array, Key, Tree
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped, Passes


@final
class StackedLayers(Bijection):
    """`make(key)` so many times, one after another; each array of `layers` has a leading axis, a row for each layer.

    >>> from chainrule.networks.flows.one_by_one import OneByOne
    >>> two = StackedLayers(lambda key: OneByOne((2,), key=key), 2, key=jax.random.key(0))
    >>> x = jnp.ones((1, 2))
    >>> bool(jnp.allclose(two.forward(two.inverse(x).value).value, x, atol=1e-5))
    True
    """

    layers: Bijection
    depth: int = eqx.field(static=True)
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, make: Callable[[Key], Bijection], depth: int, *, key: Key) -> None:
        self.depth = whole("StackedLayers", "depth", depth)
        self.layers = eqx.filter_vmap(make)(jax.random.split(key, depth))
        self.shape = self.layers.shape

    @property
    def passes(self) -> Passes:
        """The sum over the layers."""
        each = self.layers.passes
        return Passes(self.depth * each.forward, self.depth * each.inverse)

    def layer(self, number: int) -> Bijection:
        """One of the layers, by itself."""
        return jax.tree.map(lambda leaf: leaf[number] if eqx.is_array(leaf) else leaf, self.layers)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """First to last."""
        return self._through(z, lambda layer, z, _: (layer.forward(z, condition), None), reverse=False)[0]

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """Last to first."""
        return self._through(x, lambda layer, x, _: (layer.inverse(x, condition), None))[0]

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """That of each layer, with a key of its own."""
        return self._through(x, lambda layer, x, k: (layer.inverse_estimate(x, condition, k), None), key)[0]

    def trained_inverse(self, x: Events, condition: Conditions, key: Key) -> tuple[Mapped, Self]:
        """That of each layer, with a key of its own."""

        def trained(layer: Bijection, x: Array, k: Key) -> tuple[Mapped, Tree]:
            mapped, moved = layer.trained_inverse(x, condition, k)
            return mapped, eqx.filter(moved, eqx.is_array)

        mapped, moved = self._through(x, trained, key)
        return mapped, self._with(moved)

    def started(self, x: Events, condition: Conditions) -> Self:
        """Every layer started by what the layers between it and the data make of them."""

        def start(layer: Bijection, x: Array, _: Any) -> tuple[Mapped, Tree]:
            begun = layer.started(x, condition)
            return begun.inverse(x, condition), eqx.filter(begun, eqx.is_array)

        return self._with(self._through(x, start)[1])

    def _with(self, arrays: Tree) -> Self:
        rest = eqx.filter(self.layers, eqx.is_array, inverse=True)
        return eqx.tree_at(lambda stacked: stacked.layers, self, eqx.combine(arrays, rest))

    def _through(
        self,
        x: Events,
        step: Callable[[Bijection, Array, Any], tuple[Mapped, Tree]],
        key: Key | None = None,
        *,
        reverse: bool = True,
    ) -> tuple[Mapped, Tree]:
        """Values and changes of volume through all layers, and what else each step gives, stacked."""
        # Numbers without an axis of layers, such as the marks by which a probe knows a layer, are the same for all.
        arrays, rest = eqx.partition(self.layers, lambda leaf: eqx.is_array(leaf) and leaf.ndim > 0)
        keys = None if key is None else jax.random.split(key, self.depth)

        def one(carry: Mapped, now: tuple[Tree, Any]) -> tuple[Mapped, Tree]:
            (value, log_det), more = step(eqx.combine(now[0], rest), carry.value, now[1])
            return Mapped(value, carry.log_det + log_det), more

        begin = Mapped(x, jnp.zeros(len(x), x.dtype))
        return jax.lax.scan(one, begin, (arrays, keys), reverse=reverse)


__all__ = ["StackedLayers"]
