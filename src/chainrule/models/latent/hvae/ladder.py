"""Ladders: networks of a hierarchical variational auto-encoder in which every level sees all levels above it.

A state goes down from the top: at each level it gives the prior of the code, takes the code in, and passes through a
residual block; what arrives at the bottom decodes the example. Another state goes up from the example. Levels are
inferred either on the way down, from both states together, so that inference shares the generative path (Sønderby et
al., 2016; Kingma et al., 2016), or on the way up, each from the example and the codes below it.

States are vectors, or feature maps of images at several resolutions; codes are vectors, or maps of a few channels.
"""

import abc
import math
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.latent.hierarchy import Choose, Hierarchy, Path, joined, standard
from chainrule.models.latent.posteriors import Gaussian, gaussian
from chainrule.networks.conv_autoencoder import ConvResidual
from chainrule.nn import Conv, GroupNorm, Linear, upsample
from chainrule.nn.activations import activation

_COMPARED = 256
"""Examples compared with each other: every pair of code and example goes through the networks."""


@final
class DenseResidual(eqx.Module):
    """`x + f(x)` with dense layers, each after an activation; the last starts at zero."""

    layers: tuple[Linear, ...]
    activation: str = eqx.field(static=True)

    def __init__(self, width: int, depth: int, name: str, key: Key) -> None:
        keys = jax.random.split(key, depth + 1)
        gain = activation(name).gain
        hidden = [Linear(width, width, key=k, gain=gain) for k in keys[:-1]]
        self.layers = (*hidden, Linear(width, width, key=keys[-1], initializer="zero"))
        self.activation = name

    def __call__(self, x: Float[Array, "batch width"]) -> Float[Array, "batch width"]:
        """The features, moved on."""
        h = x
        for layer in self.layers:
            h = layer(activation(self.activation)(h))
        return x + h


@final
class Rung(eqx.Module):
    """One level: residual blocks of both states, and layers between states and the code."""

    up: DenseResidual | ConvResidual
    down: DenseResidual | ConvResidual
    shrink: Conv | None
    """From the resolution of the level below to that of this one."""
    grow: Conv | None
    """And back, after upsampling."""
    posterior: Linear
    prior: Linear | None
    """None at the top, whose prior is standard normal."""
    code: Linear
    heard: Linear | None
    """Where levels are inferred on the way up: what the state that goes up hears of the code."""
    shape: tuple[int, ...] = eqx.field(static=True)
    """Of the code."""
    below: tuple[int, ...] = eqx.field(static=True)
    """Rows and columns of the level below."""
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        blocks: tuple[DenseResidual | ConvResidual, DenseResidual | ConvResidual],
        resampling: tuple[Conv | None, Conv | None],
        *,
        width: int,
        shape: tuple[int, ...],
        below: tuple[int, ...],
        activation: str,
        is_top: bool,
        shares_path: bool,
        key: Key,
    ) -> None:
        keys = jax.random.split(key, 4)
        (self.up, self.down), (self.shrink, self.grow) = blocks, resampling
        size = shape[-1]
        both = shares_path and not is_top
        self.posterior = Linear((2 if both else 1) * width, 2 * size, key=keys[0])
        self.prior = None if is_top else Linear(width, 2 * size, key=keys[1], initializer="zero")
        self.code = Linear(size, width, key=keys[2])
        self.heard = None if shares_path else Linear(size, width, key=keys[3])
        self.shape, self.below, self.activation = shape, below, activation

    def rise(self, state: Array) -> Array:
        """The state that goes up, at this level."""
        return self.up(state if self.shrink is None else self.shrink(state))

    def informed(self, state: Array, z: Float[Array, "batch size"]) -> Array:
        """The state that goes up, once it has heard of the code."""
        assert self.heard is not None, "levels are inferred on the way down"
        return state + self.heard(z.reshape(len(z), *self.shape))

    def descend(self, state: Array, z: Float[Array, "batch size"]) -> Array:
        """The state that goes down, with this code, as the level below sees it."""
        state = self.down(state + self.code(z.reshape(len(z), *self.shape)))
        if self.grow is None:
            return state
        height, width = self.below
        return self.grow(upsample(state, 2)[:, :height, :width])

    def prior_of(self, state: Array) -> Gaussian:
        """The distribution of the code given the levels above."""
        if self.prior is None:
            return standard(jnp.zeros((len(state), math.prod(self.shape)), _wide(state).dtype))
        return self._gaussian(self.prior(self._active(state)))

    def posterior_of(self, *states: Array) -> Gaussian:
        """The distribution of the code given the state that goes up and, where it is given, the one that goes down."""
        return self._gaussian(self.posterior(jnp.concatenate([self._active(s) for s in states], axis=-1)))

    def _active(self, state: Array) -> Array:
        return activation(self.activation)(state)

    def _gaussian(self, parameters: Array) -> Gaussian:
        mean, spread = jnp.split(_wide(parameters), 2, axis=-1)
        flat = [part.reshape(len(parameters), -1) for part in (mean, spread)]
        return gaussian(jnp.concatenate(flat, axis=-1))


class Ladder(Hierarchy):
    """Rungs between the first and the last layer."""

    entry: Linear | Conv
    rungs: tuple[Rung, ...]
    start: Array
    """The state at the top before any code."""
    norm: GroupNorm | None
    exit: Linear | Conv
    shape: tuple[int, ...] = eqx.field(static=True)
    """Of the parameters of an example."""
    sizes: tuple[int, ...] = eqx.field(static=True)

    @abc.abstractmethod
    def followed(self, x: Array, choose: Choose) -> Path:
        """The codes of examples as they are chosen given q, level by level, with q and p of each."""

    def inferred(self, x: Array, noise: Array) -> Path:
        """Codes from noise, each level where it is inferred."""
        return self.followed(x, lambda level, q: q.draw(noise[:, self.part(level)]))

    def path(self, x: Array, codes: Array) -> Path:
        """The same, each level given the codes of those inferred before it."""
        return self.followed(x, lambda level, _: codes[:, self.part(level)])

    def entered(self, x: Float[Array, "batch ..."]) -> Array:
        """The state that goes up, before the lowest level."""
        return self.entry(x.reshape(len(x), -1) if self.start.ndim == 1 else x)

    def begun(self, count: int) -> Array:
        """The state that goes down, before the top level."""
        return jnp.broadcast_to(self.start[None], (count, *self.start.shape))

    def left(self, state: Array) -> Float[Array, "batch ..."]:
        """The parameters of every entry from the state at the bottom."""
        name = self.rungs[0].activation
        h = activation(name)(state) if self.norm is None else self.norm(state, activation="silu")
        return _wide(self.exit(h)).reshape(len(state), *self.shape)

    def walked(self, count: int, choose: Choose) -> tuple[list[Array], list[Gaussian], Array]:
        """The way down: codes as they are chosen, their priors, and the state at the bottom."""
        state = self.begun(count)
        codes: list[Array] = []
        priors: list[Gaussian] = []
        for level in reversed(range(len(self.rungs))):
            rung = self.rungs[level]
            priors.insert(0, rung.prior_of(state))
            codes.insert(0, choose(level, priors[0]))
            state = rung.descend(state, codes[0])
        return codes, priors, state

    def generated(self, noise: Array, temperature: float | Array, known: Array, fixed: int) -> Array:
        """Level by level from the top."""

        def choose(level: int, prior: Gaussian) -> Array:
            part = self.part(level)
            is_fixed = level >= len(self.rungs) - fixed
            return known[:, part] if is_fixed else prior.draw(noise[:, part], temperature)

        return jnp.concatenate(self.walked(len(noise), choose)[0], axis=-1)

    def entry_parameters(self, codes: Array) -> Array:
        """From the state at the bottom, which has taken in all codes."""
        return self.left(self.walked(len(codes), lambda level, _: codes[:, self.part(level)])[2])


@final
class TopDown(Ladder):
    """Levels inferred on the way down, from the state that goes up and the one that goes down.

    The posterior is given as a change of the prior (Vahdat and Kautz, 2020).
    """

    exact: ClassVar[bool] = True
    compared: ClassVar[int] = _COMPARED

    def followed(self, x: Array, choose: Choose) -> Path:
        """From the top."""
        rising = [self.entered(x)]
        for rung in self.rungs:
            rising.append(rung.rise(rising[-1]))
        state = self.begun(len(x))
        codes: list[Array] = []
        posteriors: list[Gaussian] = []
        priors: list[Gaussian] = []
        for level in reversed(range(len(self.rungs))):
            rung, up = self.rungs[level], rising[level + 1]
            prior = rung.prior_of(state)
            change = rung.posterior_of(up) if rung.prior is None else rung.posterior_of(up, state)
            q = Gaussian(prior.mean + change.mean, prior.log_variance + change.log_variance)
            codes.insert(0, choose(level, q))
            posteriors.insert(0, q)
            priors.insert(0, prior)
            state = rung.descend(state, codes[0])
        return Path(jnp.concatenate(codes, axis=-1), joined(posteriors), joined(priors), self.left(state))


@final
class BottomUp(Ladder):
    """Levels inferred on the way up, each from the example and the codes below it."""

    exact: ClassVar[bool] = False
    compared: ClassVar[int] = _COMPARED

    def followed(self, x: Array, choose: Choose) -> Path:
        """From the bottom."""
        state = self.entered(x)
        codes: list[Array] = []
        posteriors: list[Gaussian] = []
        for level, rung in enumerate(self.rungs):
            state = rung.rise(state)
            posteriors.append(rung.posterior_of(state))
            codes.append(choose(level, posteriors[-1]))
            state = rung.informed(state, codes[-1])
        _, priors, bottom = self.walked(len(x), lambda level, _: codes[level])
        return Path(jnp.concatenate(codes, axis=-1), joined(posteriors), joined(priors), self.left(bottom))


def _wide(numbers: Array) -> Array:
    """Parameters of distributions in single precision at least, whatever the layers compute in."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


__all__ = ["BottomUp", "DenseResidual", "Ladder", "Rung", "TopDown"]
