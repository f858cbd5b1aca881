"""Networks that value actions: a body that reads an observation, and a head with numbers for every action.

Vectors are read by dense layers, boards and screens by convolutions: three of them as of Mnih et al. (2015) where the
picture is large enough, a single small one (Young and Tian, 2019) on boards of about ten squares a side.
"""

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import numpy as np

from chainrule.agents.envs.spaces import Box, Discrete, Space
from chainrule.agents.learning.base import Decision, Policy
from chainrule.agents.learning.exploration import epsilon_greedy, greedy_probabilities
from chainrule.agents.learning.returns import Returns
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Tree
from chainrule.nn import Conv, LayerNorm, Linear

_SCREEN = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel and stride of convolutions over screens."""
_SCREEN_WIDTH = 512
_BOARD = ((16, 3, 1),)
_BOARD_WIDTH = 128
_SMALLEST_SCREEN = 36
"""Pixels a side below which the convolutions over screens leave nothing."""


class ObservationBody(eqx.Module):
    """Observations to features."""

    features: eqx.AbstractVar[int]
    """How many."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "batch *observation"]) -> Float[Array, "batch features"]:
        """Features of every observation."""


@final
class DenseBody(ObservationBody):
    """Dense layers with a rectifier after each, and a layer norm before it where asked for."""

    layers: tuple[Linear, ...]
    norms: tuple[LayerNorm, ...]
    features: int = eqx.field(static=True)

    def __init__(self, inputs: int, widths: Sequence[int], *, normalised: bool = False, key: Key) -> None:
        sizes = (inputs, *widths)
        keys = jax.random.split(key, len(widths))
        self.layers = tuple(_dense(a, b, k) for a, b, k in zip(sizes, sizes[1:], keys, strict=False))
        self.norms = tuple(LayerNorm(width) for width in widths) if normalised else ()
        self.features = sizes[-1]

    def __call__(self, x: Float[Array, "batch *observation"]) -> Float[Array, "batch features"]:
        h = x.reshape(len(x), -1)
        for i, layer in enumerate(self.layers):
            h = layer(h)
            h = jax.nn.relu(self.norms[i](h) if self.norms else h)
        return h


@final
class PictureBody(ObservationBody):
    """Convolutions with a rectifier after each, then a dense layer."""

    convolutions: tuple[Conv, ...]
    norms: tuple[LayerNorm, ...]
    dense: DenseBody
    scale: float = eqx.field(static=True)
    features: int = eqx.field(static=True)

    def __init__(
        self, shape: tuple[int, int, int], *, largest: float = 1.0, normalised: bool = False, key: Key
    ) -> None:
        """`largest` is the largest entry of a picture: what the network sees ends at 1."""
        height, width, channels = shape
        screen = min(height, width) >= _SMALLEST_SCREEN
        layers, self.features = (_SCREEN, _SCREEN_WIDTH) if screen else (_BOARD, _BOARD_WIDTH)
        *keys, dense_key = jax.random.split(key, len(layers) + 1)
        made = []
        for (outputs, kernel, stride), k in zip(layers, keys, strict=True):
            conv = Conv(
                2, channels, outputs, kernel, stride=stride, padding="valid", initializer="torch", key=k
            )
            made.append(conv)
            height, width = ((size - kernel) // stride + 1 for size in (height, width))
            channels = outputs
        self.convolutions = tuple(made)
        self.norms = tuple(LayerNorm(outputs) for outputs, _, _ in layers) if normalised else ()
        flat = height * width * channels
        self.dense = DenseBody(flat, (self.features,), normalised=normalised, key=dense_key)
        self.scale = 1 / largest

    def __call__(self, x: Float[Array, "batch *observation"]) -> Float[Array, "batch features"]:
        h = x * self.scale
        for i, convolution in enumerate(self.convolutions):
            h = convolution(h)
            h = jax.nn.relu(self.norms[i](h) if self.norms else h)
        return self.dense(h)


class InputFormat(NamedTuple):
    """What a network has to know about observations."""

    shape: tuple[int, ...]
    largest: float
    """The largest entry there can be, 1 where that is not known."""


def input_format(space: Space) -> InputFormat:
    """The format of observations of a space; what a network cannot read is refused.

    Spaces may hold arrays, which are unknown inside of compiled programs: formats are made before.
    """
    if not isinstance(space, Box):
        raise ArgumentError(
            f"observations are {type(space).__name__}: a network reads arrays of numbers",
            remedy="wrap the environment: envs.vector_observations(env)",
        )
    if len(space.shape) == 3 and min(space.shape[:2]) < _BOARD[0][1]:
        raise ArgumentError(
            f"observations of shape {space.shape} are too small for a convolution",
            remedy="let the environment show a flat vector",
        )
    return InputFormat(space.shape, float(np.abs(space.high).max()) if space.bounded else 1.0)


def body(
    inputs: InputFormat, widths: Sequence[int], *, normalised: bool = False, key: Key
) -> ObservationBody:
    """A body for these observations: `widths` are those of dense layers, for anything but pictures."""
    if len(inputs.shape) == 3:
        height, width, channels = inputs.shape
        largest = max(inputs.largest, 1.0)
        return PictureBody((height, width, channels), largest=largest, normalised=normalised, key=key)
    return DenseBody(math.prod(inputs.shape), widths, normalised=normalised, key=key)


def _dense(inputs: int, outputs: int, key: Key) -> Linear:
    return Linear(inputs, outputs, key=key, initializer="torch")


@final
class ValueNetwork(eqx.Module):
    """Numbers for every action, of which `returns` makes values.

    With two heads (dueling; Wang et al., 2016) one has the value of the state, the other what each action adds to it,
    whose mean over actions is taken off.
    """

    body: ObservationBody
    actions_head: Linear
    state_head: Linear | None
    returns: Returns

    def __init__(
        self, body: ObservationBody, actions: int, returns: Returns, *, dueling: bool = False, key: Key
    ) -> None:
        one, two = jax.random.split(key)
        self.body = body
        self.actions_head = _dense(body.features, actions * returns.numbers, one)
        self.state_head = _dense(body.features, returns.numbers, two) if dueling else None
        self.returns = returns

    def __call__(self, x: Float[Array, "batch *observation"]) -> Float[Array, "batch actions numbers"]:
        """The numbers of every action."""
        h = self.body(x)
        each = self.actions_head(h).reshape(len(x), -1, self.returns.numbers)
        if self.state_head is None:
            return each
        return self.state_head(h)[:, None, :] + each - each.mean(1, keepdims=True)

    def values(self, x: Float[Array, "batch *observation"]) -> Float[Array, "batch actions"]:
        """The expected return of every action."""
        return self.returns.values(self(x))


def chosen(outputs: Float[Array, "batch actions numbers"], actions: Array) -> Float[Array, "batch numbers"]:
    """The numbers of one action in each row."""
    # A sum over few actions: picking entries would scatter in the backward pass, which takes longer.
    return (outputs * jax.nn.one_hot(actions, outputs.shape[1])[:, :, None]).sum(1)


@final
class ValuePolicy(Policy):
    """The action of the largest value, or any with probability epsilon."""

    network: ValueNetwork
    epsilon: Float[Array, ""]

    def start(self) -> Tree:
        return ()

    def act(
        self, key: Key, observation: Array, memory: Tree, *, greedy: bool, legal: Array | None = None
    ) -> Decision:
        values = self.network.values(observation[None])[0]
        explored = epsilon_greedy(key, values, 0.0 if greedy else self.epsilon, legal)
        best = (values * greedy_probabilities(values, legal)).sum()
        return Decision(explored, memory, best, values)


def count_actions(name: str, space: Any) -> int:
    """How many actions there are; anything but a finite set is refused."""
    if not isinstance(space, Discrete):
        raise ArgumentError(
            f"{name} values each of a finite set of actions; this environment's are {_described(space)}",
            remedy="use sac or ppo" if isinstance(space, Box) and space.bounded else "use ppo",
        )
    return space.n


def _described(space: Any) -> str:
    return f"continuous, of shape {space.shape}" if isinstance(space, Box) else f"{type(space).__name__}"


__all__ = [
    "DenseBody",
    "InputFormat",
    "ObservationBody",
    "PictureBody",
    "ValueNetwork",
    "ValuePolicy",
    "body",
    "chosen",
    "count_actions",
    "input_format",
]
