"""Networks of agents: dense bodies with an orthogonal start, and policy and value side by side.

A policy and its value are two networks that share nothing, or one recurrent network with two heads. Both are asked in
three ways: one step at a time while acting, over whole stretches of time while learning, and once more for the value of
what followed a step. A network without memory ignores the axis of time and the beginnings of episodes.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn import GRU, LSTM, Linear

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"tanh": jnp.tanh, "relu": jax.nn.relu}
"""What may stand between layers, by the name a setting has for it."""


@final
class DenseTower(eqx.Module):
    """Dense layers with an activation between them, over the last axis.

    >>> network = eqx.filter_eval_shape(DenseTower, 4, 2, (64, 64), key=jax.random.key(0))
    >>> eqx.filter_eval_shape(network, jnp.zeros((3, 4))).shape
    (3, 2)
    """

    layers: tuple[Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        widths: Sequence[int],
        *,
        key: Key,
        activation: str = "tanh",
        gain: float = 1.0,
    ) -> None:
        """`gain` is that of the last layer; those before it have the square root of 2."""
        sizes = (inputs, *widths, outputs)
        gains = (*[math.sqrt(2)] * len(widths), gain)
        keys = jax.random.split(key, len(gains))
        self.layers = tuple(
            Linear(a, b, key=k, initializer="orthogonal", gain=g)
            for a, b, k, g in zip(sizes[:-1], sizes[1:], keys, gains, strict=True)
        )
        self.activation = activation

    def __call__(self, x: Float[Array, "*leading inputs"]) -> Float[Array, "*leading outputs"]:
        """The outputs for every vector along the last axis."""
        return self.layers[-1](self.features(x))

    def features(self, x: Float[Array, "*leading inputs"]) -> Float[Array, "*leading width"]:
        """What the last layer reads."""
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        return x


class ActorCritic(eqx.Module):
    """What a policy gradient learns: numbers that a distribution over actions is made of, and values.

    Observations are vectors; an axis of worlds, and of time before it, leads.
    """

    @abc.abstractmethod
    def start(self) -> Tree:
        """The memory of one world when an episode begins; `()` for a network without one."""

    @abc.abstractmethod
    def act(self, observations: Float[Array, "worlds inputs"], memory: Tree) -> tuple[Array, Tree]:
        """Numbers of the policy for one step, and the memory after it."""

    @abc.abstractmethod
    def unroll(
        self, observations: Float[Array, "time worlds inputs"], first: Array, memory: Tree
    ) -> tuple[Float[Array, "time worlds numbers"], Float[Array, "time worlds"], Tree]:
        """Numbers of the policy, values and memories after every step; `first` says where an episode begins."""

    @abc.abstractmethod
    def values_after(
        self, observations: Float[Array, "time worlds inputs"], memories: Tree
    ) -> Float[Array, "time worlds"]:
        """Values of observations that followed steps which left these memories."""


def _beside(outputs: Array, offsets: Array) -> Array:
    return jnp.concatenate([outputs, jnp.broadcast_to(offsets, (*outputs.shape[:-1], offsets.size))], axis=-1)


@final
class SeparateNetworks(ActorCritic):
    """Two dense networks, one for the policy and one for the value."""

    actor: DenseTower
    critic: DenseTower
    free: Float[Array, " free"]
    """Numbers of the policy that no observation changes: logarithms of standard deviations."""

    def __init__(
        self, inputs: int, outputs: int, free: int, widths: Sequence[int], activation: str, *, key: Key
    ) -> None:
        actor_key, critic_key = jax.random.split(key)
        # A small last layer: the first policy hardly prefers anything.
        self.actor = DenseTower(inputs, outputs, widths, key=actor_key, activation=activation, gain=0.01)
        self.critic = DenseTower(inputs, 1, widths, key=critic_key, activation=activation)
        self.free = jnp.zeros(free)

    def start(self) -> Tree:
        return ()

    def act(self, observations: Float[Array, "worlds inputs"], memory: Tree) -> tuple[Array, Tree]:
        return _beside(self.actor(observations), self.free), memory

    def unroll(
        self, observations: Float[Array, "time worlds inputs"], first: Array, memory: Tree
    ) -> tuple[Float[Array, "time worlds numbers"], Float[Array, "time worlds"], Tree]:
        del first, memory
        return _beside(self.actor(observations), self.free), self.critic(observations)[..., 0], ()

    def values_after(
        self, observations: Float[Array, "time worlds inputs"], memories: Tree
    ) -> Float[Array, "time worlds"]:
        del memories
        return self.critic(observations)[..., 0]


@final
class RecurrentNetwork(ActorCritic):
    """A dense layer, a recurrent one, and two heads; the memory starts anew with every episode."""

    entry: Linear
    memory: GRU | LSTM
    policy: Linear
    value: Linear
    free: Float[Array, " free"]
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        outputs: int,
        free: int,
        width: int,
        memory: Callable[..., GRU | LSTM],
        hidden: int,
        activation: str,
        *,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, 4)
        self.entry = Linear(inputs, width, key=keys[0], initializer="orthogonal", gain=math.sqrt(2))
        self.memory = memory(width, hidden, initializer="orthogonal", key=keys[1])
        self.policy = Linear(hidden, outputs, key=keys[2], initializer="orthogonal", gain=0.01)
        self.value = Linear(hidden, 1, key=keys[3], initializer="orthogonal")
        self.free = jnp.zeros(free)
        self.activation = activation

    def start(self) -> Tree:
        return self.memory.initial(())

    def act(self, observations: Float[Array, "worlds inputs"], memory: Tree) -> tuple[Array, Tree]:
        memory = self._step(memory, self._inward(observations))
        return _beside(self.policy(memory[0]), self.free), memory

    def unroll(
        self, observations: Float[Array, "time worlds inputs"], first: Array, memory: Tree
    ) -> tuple[Float[Array, "time worlds numbers"], Float[Array, "time worlds"], Tree]:
        def step(states: Tree, at: tuple[Array, Array]) -> tuple[Tree, Tree]:
            inward, begins = at
            states = self._step(tuple(jnp.where(begins[:, None], 0, s) for s in states), inward)
            return states, states

        memories = jax.lax.scan(step, memory, (self._inward(observations), first))[1]
        return _beside(self.policy(memories[0]), self.free), self.value(memories[0])[..., 0], memories

    def values_after(
        self, observations: Float[Array, "time worlds inputs"], memories: Tree
    ) -> Float[Array, "time worlds"]:
        return self.value(self._step(memories, self._inward(observations))[0])[..., 0]

    def _inward(self, observations: Array) -> Array:
        # The input's part of all gates needs no memory, so that it is one product for all steps.
        return self.memory.inward(ACTIVATIONS[self.activation](self.entry(observations)))

    def _step(self, states: Tree, inward: Array) -> Tree:
        return self.memory.cell.step(self.memory.recurrent, states, inward)[0]


__all__ = ["ACTIVATIONS", "ActorCritic", "DenseTower", "RecurrentNetwork", "SeparateNetworks"]
