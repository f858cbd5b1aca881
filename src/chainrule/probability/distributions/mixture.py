"""Mixtures: one of several distributions, chosen with given weights."""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Atoms, Distribution, Shape, events
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.distributions.supports import Support


@final
class Mixture(Distribution):
    """Component k with probability `weights[k]`; the components are one distribution with an axis of them, or several.

    >>> from chainrule.probability import Normal
    >>> two = Mixture([0.5, 0.5], Normal([-1.0, 1.0], 0.5))
    >>> other = Mixture([0.5, 0.5], [Normal(-1.0, 0.5), Normal(1.0, 0.5)])
    >>> float(two.log_prob(0.0)) == float(other.log_prob(0.0))
    True
    """

    choice: Categorical
    components: Distribution

    def __init__(
        self, weights: Any, components: Distribution | Sequence[Distribution], *, normalize: bool = False
    ) -> None:
        """`weights` are probabilities along the last axis, that of the components is the last batch axis."""
        if not isinstance(components, Distribution):
            components = _joined(list(components))
        if not components.batch_shape:
            raise ArgumentError(
                "Mixture: components have no axis to choose along",
                remedy="give a sequence of distributions, or parameters with one entry for each component",
            )
        weights = floating(weights)
        count = components.batch_shape[-1]
        if weights.ndim == 0 or weights.shape[-1] != count:
            raise ArgumentError(
                f"Mixture: {count} components need {count} weights, not shape {weights.shape}"
            )
        if weights.ndim > len(components.batch_shape):
            raise ArgumentError(
                f"Mixture: weights of shape {weights.shape} have more axes than the batch {components.batch_shape}",
                remedy="give the parameters of the components the same leading axes",
            )
        self.choice = Categorical(jnp.broadcast_to(weights, components.batch_shape), normalize=normalize)
        self.components = components

    @property
    def weights(self) -> Float[Array, "*batch components"]:
        """The probability of each component."""
        return self.choice.probs

    @property
    def batch_shape(self) -> Shape:
        """That of the components, but for the axis of them."""
        return self.components.batch_shape[:-1]

    @property
    def event_shape(self) -> Shape:
        """That of the components."""
        return self.components.event_shape

    @property
    def support(self) -> Support:
        """Where a component of positive weight lives."""
        return _Union(self.components.support, self.weights > 0, len(self.event_shape))

    @property
    def mean(self) -> Array:
        """The mean of the means."""
        return self._average(self.components.mean)

    @property
    def variance(self) -> Array:
        """The mean of the variances, and the variance of the means."""
        apart = self.components.mean - self._along(self.mean)
        return self._average(self.components.variance + jnp.square(apart))

    @property
    def covariance(self) -> Array:
        """The mean of the covariances, and the covariance of the means."""
        if not self.event_shape:
            return self.variance
        apart = self.components.mean - self._along(self.mean)
        return self._average(self.components.covariance + apart[..., :, None] * apart[..., None, :])

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Logarithm of the weighted sum of the densities."""
        return jax.nn.logsumexp(self.joint_log_prob(x), axis=-1)

    def joint_log_prob(self, x: Any) -> Float[Array, "... components"]:
        """Logarithm of the weight of each component times its density."""
        x = events(self, x)
        each = self.components.log_prob(self._along(x))
        return jnp.broadcast_to(self.choice.log_probs, each.shape) + each

    def responsibilities(self, x: Any) -> Float[Array, "... components"]:
        """The probability of each component given `x`."""
        return jax.nn.softmax(self.joint_log_prob(x), axis=-1)

    def batched(self, shape: Shape) -> "Mixture":
        """Weights and components with another batch shape."""
        wide = (*shape, self.components.batch_shape[-1])
        return eqx.tree_at(
            lambda one: (one.choice, one.components),
            self,
            (self.choice.batched(shape), self.components.batched(wide)),
        )

    def select(self, index: tuple[Array, ...]) -> "Mixture":
        """Those of weights and components."""
        return eqx.tree_at(
            lambda one: (one.choice, one.components),
            self,
            (self.choice.select(index), self.components.select(index)),
        )

    def draw(self, key: Key, shape: Shape) -> Array:
        """A component, then a draw from it."""
        choose, within = jax.random.split(key)
        return self.components.draw_components(within, self.choice.draw(choose, shape))

    def entropy(self) -> Float[Array, "*batch"]:
        """By enumeration, where there are finitely many points."""
        atoms = self.atoms()
        if atoms is None:
            raise self.unavailable("entropy")
        return atoms.entropy(self)

    def atoms(self) -> Atoms | None:
        """Those of the components, less likely by their weights."""
        atoms = self.components.atoms()
        if atoms is None:
            return None
        axis = len(self.batch_shape) + 1
        points, weights = (
            jnp.moveaxis(one, axis, 1).reshape(-1, *one.shape[1:axis], *one.shape[axis + 1 :])
            for one in (atoms.points, atoms.weights * self.weights[None])
        )
        return Atoms(points, weights)

    def _along(self, x: Array) -> Array:
        """With an axis for the components, just before those of the event."""
        return jnp.expand_dims(x, x.ndim - len(self.event_shape))

    def _average(self, values: Array) -> Array:
        axis = len(self.batch_shape)
        weights = self.weights.reshape(*self.weights.shape, *(1,) * (values.ndim - axis - 1))
        # A component that never comes up may have no mean.
        return jnp.where(weights > 0, weights * values, 0.0).sum(axis=axis)


@final
class Stacked(Distribution):
    """Distributions of several families side by side, along a new last batch axis."""

    parts: tuple[Distribution, ...]

    @property
    def batch_shape(self) -> Shape:
        """That of each, and how many there are."""
        return (*self.parts[0].batch_shape, len(self.parts))

    @property
    def event_shape(self) -> Shape:
        """The same for all."""
        return self.parts[0].event_shape

    @property
    def support(self) -> Support:
        """Of each its own."""
        return _Several(tuple(part.support for part in self.parts), len(self.event_shape))

    @property
    def mean(self) -> Array:
        """Of each its own."""
        return self._stack([part.mean for part in self.parts])

    @property
    def variance(self) -> Array:
        """Of each its own."""
        return self._stack([part.variance for part in self.parts])

    @property
    def covariance(self) -> Array:
        """Of each its own."""
        return self._stack([part.covariance for part in self.parts])

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Of each its own; `x` has an axis for them, of one entry or of one for each."""
        x = events(self, x)
        axis = x.ndim - len(self.event_shape) - 1
        each = [part.log_prob(jnp.take(x, k, axis=axis)) for k, part in enumerate(self.parts)]
        return jnp.stack(each, axis=-1)

    def draw(self, key: Key, shape: Shape) -> Array:
        """Of each its own."""
        keys = jax.random.split(key, len(self.parts))
        each = [part.draw(k, shape[:-1]) for k, part in zip(keys, self.parts, strict=True)]
        return jnp.stack(each, axis=len(shape) - 1)

    def batched(self, shape: Shape) -> "Stacked":
        """Every one with another batch shape."""
        return Stacked(tuple(part.batched(shape[:-1]) for part in self.parts))

    def select(self, index: tuple[Array, ...]) -> "Stacked":
        """Those of every one, along the axes before that of the families."""
        return Stacked(tuple(part.select(index) for part in self.parts))

    def draw_components(self, key: Key, chosen: Array) -> Array:
        """A draw of each, of which the chosen one is kept: families cannot be mixed any earlier."""
        each = self.draw(key, (*chosen.shape, len(self.parts)))
        index = chosen.reshape(*chosen.shape, *(1,) * (1 + len(self.event_shape)))
        return jnp.take_along_axis(each, index, axis=chosen.ndim).squeeze(chosen.ndim)

    def entropy(self) -> Float[Array, "*batch"]:
        """Of each its own."""
        return jnp.stack([part.entropy() for part in self.parts], axis=-1)

    def atoms(self) -> Atoms | None:
        """Of each its own; where one has fewer, its first is repeated with no weight."""
        each = [atoms for part in self.parts if (atoms := part.atoms()) is not None]
        if len(each) < len(self.parts):
            return None
        most = max(len(atoms.weights) for atoms in each)
        padded = [atoms.padded(most) for atoms in each]
        axis = len(self.batch_shape)
        return Atoms(
            jnp.stack([atoms.points for atoms in padded], axis=axis),
            jnp.stack([atoms.weights for atoms in padded], axis=axis),
        )

    def _stack(self, values: list[Array]) -> Array:
        return jnp.stack(values, axis=len(self.batch_shape) - 1)


@final
class _Union(Support):
    """Where one of the components of positive weight lives."""

    components: Support
    weighty: Bool[Array, "*batch components"]
    rank: int = eqx.field(static=True)

    @property
    def is_discrete(self) -> bool:
        """As the components are."""
        return self.components.is_discrete

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether one of them does."""
        x = jnp.asarray(x)
        each = self.components.contains(jnp.expand_dims(x, x.ndim - self.rank))
        return (each & jnp.broadcast_to(self.weighty, each.shape)).any(axis=-1)


@final
class _Several(Support):
    """Several supports side by side, along the last batch axis."""

    parts: tuple[Support, ...]
    rank: int = eqx.field(static=True)

    @property
    def is_discrete(self) -> bool:
        """As all of them are."""
        return self.parts[0].is_discrete

    def contains(self, x: Any) -> Bool[Array, "..."]:
        """Whether each contains its entry along that axis."""
        x = jnp.asarray(x)
        axis = x.ndim - self.rank - 1
        wide = jnp.broadcast_to(x, (*x.shape[:axis], len(self.parts), *x.shape[axis + 1 :]))
        return jnp.stack(
            [one.contains(jnp.take(wide, k, axis=axis)) for k, one in enumerate(self.parts)], axis=-1
        )


def _joined(parts: list[Distribution]) -> Distribution:
    """Distributions along a new last batch axis: of one family by their parameters, else side by side."""
    if not parts or not all(isinstance(part, Distribution) for part in parts):
        raise ArgumentError("Mixture: components must be a distribution or a sequence of distributions")
    shapes = {(part.batch_shape, part.event_shape) for part in parts}
    if len(shapes) > 1:
        shown = ", ".join(f"{type(one).__name__} {one.batch_shape} {one.event_shape}" for one in parts)
        raise ArgumentError(f"Mixture: components need one batch and one event shape, not {shown}")
    if len({part.support.is_discrete for part in parts}) > 1:
        shown = ", ".join(
            f"{type(one).__name__} is {'discrete' if one.support.is_discrete else 'continuous'}"
            for one in parts
        )
        raise ArgumentError(
            f"Mixture: densities and probabilities cannot be added: {shown}",
            remedy="keep the discrete part apart, or give it a width (Dirac to a narrow Normal)",
        )
    return Stacked(tuple(parts))


__all__ = ["Mixture", "Stacked"]
