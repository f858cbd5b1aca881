"""Networks of two heads: one body reads a board and says which moves to try and how the game will end.

The residual tower is that of AlphaGo Zero (Silver et al., Nature 550, 2017): 3x3 convolutions with batch normalisation
and ReLU; a policy head of two maps and a dense layer, a value head of one map, 256 hidden units and tanh. The value is
the expected outcome, between -1 and 1, for whoever is to move. Boards of a few cells need no convolutions: there two
dense layers do, at a small part of the cost.
"""

import abc
import math
from typing import Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.nn import BatchNorm, Conv, Linear, ResidualBlock, activation

VALUE_WIDTH = 256
"""Hidden units of the value head."""
POLICY_MAPS, VALUE_MAPS = 2, 1

Outputs = tuple[Float[Array, "batch actions"], Float[Array, " batch"]]
"""Logits of the actions, legal or not, and values in [-1, 1] for whoever is to move."""


class PolicyValueNetwork(eqx.Module):
    """Planes of a board to logits of moves and a value, called two ways like a normaliser."""

    @abc.abstractmethod
    def __call__(self, planes: Float[Array, "batch height width planes"]) -> Outputs:
        """Logits and values when playing."""

    @abc.abstractmethod
    def advance(self, planes: Float[Array, "batch height width planes"]) -> tuple[Outputs, Self]:
        """Logits and values when training, and the network with its running statistics moved on."""


@final
class NormalisedConv(eqx.Module):
    """A convolution without bias, batch normalisation, ReLU."""

    conv: Conv
    norm: BatchNorm

    def __init__(self, inputs: int, outputs: int, kernel: int, *, key: Key) -> None:
        self.conv = Conv(2, inputs, outputs, kernel, bias=False, gain=activation("relu").gain, key=key)
        self.norm = BatchNorm(outputs)

    def __call__(
        self, x: Float[Array, "batch height width inputs"]
    ) -> Float[Array, "batch height width outputs"]:
        """The layer when playing."""
        return jax.nn.relu(self.norm(self.conv(x)))

    def advance(
        self, x: Float[Array, "batch height width inputs"]
    ) -> tuple[Float[Array, "batch height width outputs"], Self]:
        """The layer when training, and the layer with its statistics moved on."""
        y, norm = self.norm.advance(self.conv(x))
        return jax.nn.relu(y), eqx.tree_at(lambda layer: layer.norm, self, norm)


@final
class ResidualTower(PolicyValueNetwork):
    """A stem, `blocks` residual blocks of `width` channels, and the two heads."""

    stem: NormalisedConv
    blocks: tuple[ResidualBlock, ...]
    policy_maps: NormalisedConv
    policy: Linear
    value_maps: NormalisedConv
    value_hidden: Linear
    value: Linear

    def __init__(
        self, shape: tuple[int, int, int], actions: int, *, blocks: int, width: int, key: Key
    ) -> None:
        *keys, key = jax.random.split(key, blocks + 1)
        stem, policy_maps, policy, value_maps, value_hidden, value = jax.random.split(key, 6)
        cells = shape[0] * shape[1]
        self.stem = NormalisedConv(shape[2], width, 3, key=stem)
        self.blocks = tuple(ResidualBlock(width, width, key=each) for each in keys)
        self.policy_maps = NormalisedConv(width, POLICY_MAPS, 1, key=policy_maps)
        self.policy = _head(POLICY_MAPS * cells, actions, policy)
        self.value_maps = NormalisedConv(width, VALUE_MAPS, 1, key=value_maps)
        self.value_hidden = _hidden(VALUE_MAPS * cells, VALUE_WIDTH, value_hidden)
        self.value = _head(VALUE_WIDTH, 1, value)

    def __call__(self, planes: Float[Array, "batch height width planes"]) -> Outputs:
        x = self.stem(planes)
        for block in self.blocks:
            x = block(x)
        return self._heads(self.policy_maps(x), self.value_maps(x))

    def advance(self, planes: Float[Array, "batch height width planes"]) -> tuple[Outputs, Self]:
        x, stem = self.stem.advance(planes)
        blocks = []
        for block in self.blocks:
            x, moved = block.advance(x)
            blocks.append(moved)
        for_policy, policy_maps = self.policy_maps.advance(x)
        for_value, value_maps = self.value_maps.advance(x)
        after = eqx.tree_at(
            lambda net: (net.stem, net.blocks, net.policy_maps, net.value_maps),
            self,
            (stem, tuple(blocks), policy_maps, value_maps),
        )
        return self._heads(for_policy, for_value), after

    def _heads(self, for_policy: Array, for_value: Array) -> Outputs:
        hidden = jax.nn.relu(self.value_hidden(_flat(for_value)))
        return self.policy(_flat(for_policy)), jnp.tanh(self.value(hidden)[:, 0])


@final
class DenseBoardNetwork(PolicyValueNetwork):
    """`depth` hidden layers of `width` units on the flattened board, and a dense layer for each head."""

    layers: tuple[Linear, ...]
    policy: Linear
    value: Linear

    def __init__(
        self, shape: tuple[int, int, int], actions: int, *, depth: int, width: int, key: Key
    ) -> None:
        *keys, policy, value = jax.random.split(key, depth + 2)
        sizes = [math.prod(shape), *[width] * depth]
        self.layers = tuple(
            _hidden(inputs, outputs, each)
            for inputs, outputs, each in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.policy = _head(width, actions, policy)
        self.value = _head(width, 1, value)

    def __call__(self, planes: Float[Array, "batch height width planes"]) -> Outputs:
        x = _flat(planes)
        for layer in self.layers:
            x = jax.nn.relu(layer(x))
        return self.policy(x), jnp.tanh(self.value(x)[:, 0])

    def advance(self, planes: Float[Array, "batch height width planes"]) -> tuple[Outputs, Self]:
        return self(planes), self


def masked_logits(logits: Float[Array, "*batch actions"], legal: Array) -> Float[Array, "*batch actions"]:
    """Logits of legal actions, and so low ones elsewhere that a softmax renormalises over the legal ones.

    >>> jax.nn.softmax(masked_logits(jnp.zeros(3), jnp.array([True, False, True])))
    Array([0.5, 0. , 0.5], dtype=float32)
    """
    return jnp.where(legal, logits, jnp.finfo(logits.dtype).min)


def _hidden(inputs: int, outputs: int, key: Key) -> Linear:
    return Linear(inputs, outputs, gain=activation("relu").gain, key=key)


def _head(inputs: int, outputs: int, key: Key) -> Linear:
    # Starting at zero: uniform moves and a value of 0 until something has been learnt.
    return Linear(inputs, outputs, initializer="zero", key=key)


def _flat(x: Array) -> Array:
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


__all__ = [
    "DenseBoardNetwork",
    "NormalisedConv",
    "Outputs",
    "PolicyValueNetwork",
    "ResidualTower",
    "masked_logits",
]
