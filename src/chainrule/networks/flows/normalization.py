"""Layers that keep values centred and of unit variance: actnorm, whose start the data say, and batch normalisation.

Both count features along the last axis of an event and share them over the axes before it, as the pixels of an image
share those of a channel. They normalise on the way from data to codes.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Bijection, Conditions, Elementary, Events, LogDets, Mapped
from chainrule.networks.flows.chain import Held
from chainrule.networks.flows.elementwise import event_shape

_FLOOR = 1e-3
"""Features that vary by less than this over a first batch are taken to vary by it."""
_EPS = 1e-5


@final
class ActNorm(Elementary):
    """`z = (x - shift) exp(-log_scale)`, a shift and a scale for each feature (Kingma and Dhariwal, 2018).

    `started` sets them so that a first batch has mean zero and variance one; from there on they are trained.

    >>> batch = jnp.array([[1.0], [3.0]])
    >>> ActNorm((1,)).started(batch, None).inverse(batch).value.tolist()
    [[-1.0], [1.0]]
    """

    shift: Float[Array, " features"]
    log_scale: Float[Array, " features"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = event_shape("ActNorm", shape)
        self.shift, self.log_scale = jnp.zeros(shape[-1]), jnp.zeros(shape[-1])

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the scale, then the shift."""
        del condition
        value = z * _last(jnp.exp(self.log_scale), z) + _last(self.shift, z)
        return Mapped(value, _shared(self.log_scale, z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """The other way round."""
        del condition
        value = (x - _last(self.shift, x)) * _last(jnp.exp(-self.log_scale), x)
        return Mapped(value, _shared(-self.log_scale, x))

    def started(self, x: Events, condition: Conditions) -> Self:
        """With mean and deviation of this batch; features that do not vary in it are named in a warning."""
        del condition
        mean, variance = _moments(x)
        spread = jnp.sqrt(variance)
        if not isinstance(spread, jax.core.Tracer):
            _warn_of_constants(np.asarray(spread))
        start = (mean, jnp.log(jnp.maximum(spread, _FLOOR)))
        return eqx.tree_at(lambda layer: (layer.shift, layer.log_scale), self, start)


def _warn_of_constants(spread: np.ndarray) -> None:
    constant = np.flatnonzero(spread < _FLOOR)
    if constant.size:
        shown = ", ".join(map(str, constant[:5])) + (" and more" if constant.size > 5 else "")
        warnings.warn(
            f"ActNorm: feature {shown} varies by less than {_FLOOR:g} over the first batch and is scaled as if by "
            "that; leave a column out that is the same for all examples",
            ChainruleWarning,
            stacklevel=2,
        )


@final
class RunningMoments(Held):
    """Mean and variance of every feature, averaged over the batches of training."""

    mean: Float[Array, " features"]
    variance: Float[Array, " features"]


@final
class FlowBatchNorm(Elementary):
    """`z = exp(log_gain) (x - mean) / sqrt(variance + eps) + offset` (Dinh, Sohl-Dickstein and Bengio, 2017).

    In training, moments are those of the batch, as constants, and running averages follow them; a batch then has no
    density, for its examples depend on each other. Everywhere else the running averages stand, so that the map is one
    of single examples. `recalibrated` sets them to the moments of all training examples.
    """

    log_gain: Float[Array, " features"]
    offset: Float[Array, " features"]
    running: RunningMoments
    shape: tuple[int, ...] = eqx.field(static=True)
    new_weight: float = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], new_weight: float = 0.1) -> None:
        self.shape, self.new_weight = event_shape("FlowBatchNorm", shape), new_weight
        features = shape[-1]
        self.log_gain, self.offset = jnp.zeros(features), jnp.zeros(features)
        self.running = RunningMoments(jnp.zeros(features), jnp.ones(features))

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the running averages."""
        del condition
        log_scale = self._log_scale(self.running)
        value = (z - _last(self.offset, z)) * _last(jnp.exp(-log_scale), z) + _last(self._held.mean, z)
        return Mapped(value, _shared(-log_scale, z))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By the running averages."""
        del condition
        return self._normalised(x, self._held)

    def trained_inverse(self, x: Events, condition: Conditions, key: Key) -> tuple[Mapped, Self]:
        """By the moments of the batch; running averages move towards them."""
        del condition, key
        if len(x) < 2:
            raise ArgumentError(
                "FlowBatchNorm: a batch of one example has no variance to train with",
                remedy="use batch=2 or more, or norm=actnorm",
            )
        seen = jax.lax.stop_gradient(RunningMoments(*_moments(x)))
        w = self.new_weight
        moved = jax.tree.map(lambda old, new: (1 - w) * old + w * new.astype(old.dtype), self.running, seen)
        return self._normalised(x, seen), eqx.tree_at(lambda layer: layer.running, self, moved)

    def started(self, x: Events, condition: Conditions) -> Self:
        """With the moments of this batch as running averages."""
        del condition
        return self.with_moments(*_moments(x))

    def with_moments(self, mean: Float[Array, " features"], variance: Float[Array, " features"]) -> Self:
        """The same layer with these in place of its running averages."""
        return eqx.tree_at(lambda layer: layer.running, self, RunningMoments(mean, variance))

    def following(self, new_weight: float) -> Self:
        """The same layer, whose running averages follow a batch by this share; 1 takes over its moments."""
        other = FlowBatchNorm(self.shape, new_weight)
        return eqx.tree_at(
            lambda layer: (layer.log_gain, layer.offset, layer.running),
            other,
            (self.log_gain, self.offset, self.running),
        )

    @property
    def _held(self) -> RunningMoments:
        return jax.lax.stop_gradient(self.running)

    def _log_scale(self, moments: RunningMoments) -> Float[Array, " features"]:
        return self.log_gain - 0.5 * jnp.log(jax.lax.stop_gradient(moments.variance) + _EPS)

    def _normalised(self, x: Events, moments: RunningMoments) -> Mapped:
        log_scale = self._log_scale(moments)
        value = (x - _last(moments.mean, x)) * _last(jnp.exp(log_scale), x) + _last(self.offset, x)
        return Mapped(value, _shared(log_scale, x))


T = TypeVar("T", bound=Bijection)
_AT_ONCE = 1024
"""Examples that layers between two batch norms map at a time while moments are computed."""


@final
class InPieces(Bijection):
    """A layer that maps many examples a thousand at a time, so that its networks take no more memory than that."""

    layer: Bijection
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, layer: Bijection) -> None:
        self.layer, self.shape = layer, layer.shape

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """That of the layer."""
        return self._mapped(self.layer.forward, z, condition)

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """That of the layer."""
        return self._mapped(self.layer.inverse, x, condition)

    def _mapped(
        self, direction: Callable[[Events, Conditions], Mapped], x: Events, condition: Conditions
    ) -> Mapped:
        count, pieces = len(x), -(-len(x) // _AT_ONCE)
        if pieces == 1:
            return direction(x, condition)
        rows = np.arange(pieces * _AT_ONCE) % count  # the last piece is filled with examples from the start

        def cut(array: Array) -> Array:
            return array[rows].reshape(pieces, _AT_ONCE, *array.shape[1:])

        both = cut(x), None if condition is None else cut(condition)
        found = jax.lax.map(lambda piece: direction(*piece), both)
        return Mapped(*(one.reshape(-1, *one.shape[2:])[:count] for one in found))


def recalibrated(bijection: T, x: Events, condition: Conditions, key: Key) -> T:
    """A flow whose batch norms hold the moments of these examples, best of all that it was trained on.

    >>> layer = FlowBatchNorm((1,))
    >>> recalibrated(layer, jnp.array([[1.0], [3.0]]), None, jax.random.key(0)).running.mean.tolist()
    [2.0]
    """
    usual = [node.new_weight for node in batch_norms(bijection)]

    def prepared(node: Any) -> Any:
        if isinstance(node, FlowBatchNorm):
            return node.following(1.0)
        return InPieces(node) if isinstance(node, Bijection) else node

    whole = jax.tree.map(prepared, bijection, is_leaf=_norm_or_without)
    _, moved = whole.trained_inverse(x, condition, key)
    weights = iter(usual)

    def restored(node: Any) -> Any:
        if isinstance(node, FlowBatchNorm):
            return node.following(next(weights))
        return node.layer if isinstance(node, InPieces) else node

    found: T = jax.tree.map(restored, moved, is_leaf=lambda node: isinstance(node, FlowBatchNorm | InPieces))
    return found


def batch_norms(tree: object) -> list[FlowBatchNorm]:
    """Every batch norm anywhere in a tree; of stacked layers, one stands for all."""
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, FlowBatchNorm))
    return [node for node in nodes if isinstance(node, FlowBatchNorm)]


def _norm_or_without(node: object) -> bool:
    return isinstance(node, FlowBatchNorm) or (isinstance(node, Bijection) and not batch_norms(node))


def held(tree: object) -> Sequence[Held]:
    """What anywhere in a tree training leaves alone or moves by rule: frozen layers and running averages."""
    nodes = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, Held))
    return [node for node in nodes if isinstance(node, Held)]


def _moments(x: Events) -> tuple[Float[Array, " features"], Float[Array, " features"]]:
    rows = x.reshape(-1, x.shape[-1])
    return rows.mean(axis=0), rows.var(axis=0)


def _last(features: Float[Array, " features"], like: Events) -> Array:
    return features.reshape((1,) * (like.ndim - 1) + features.shape).astype(like.dtype)


def _shared(log_scale: Float[Array, " features"], like: Events) -> LogDets:
    """The change of volume of scales that all positions of an event share, the same for every example."""
    total = math.prod(like.shape[1:-1]) * log_scale.sum()
    return jnp.broadcast_to(total.astype(like.dtype), (len(like),))


__all__ = ["ActNorm", "FlowBatchNorm", "InPieces", "RunningMoments", "batch_norms", "held", "recalibrated"]
