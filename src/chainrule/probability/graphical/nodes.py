"""Nodes of a directed model: a variable and its distribution given its parents."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key

Values = Mapping[str, Any]
"""The value of each variable, by name."""


class ModelNode(abc.ABC):
    """One variable, distributed according to its parents."""

    parents: tuple[str, ...]

    @abc.abstractmethod
    def check(self, name: str, parents: Mapping[str, "ModelNode"]) -> None:
        """Raise unless the node fits its parents."""

    @abc.abstractmethod
    def sample(self, key: Key, parents: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """Draws of this shape, given those of the parents."""

    @abc.abstractmethod
    def log_prob(self, value: Any, parents: Sequence[Any]) -> Array:
        """Logarithm of the probability or density of a value given those of the parents."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What kind of node it is, in a few words."""


@final
@dataclass(frozen=True, init=False, eq=False)
class FiniteNode(ModelNode):
    """A variable with finitely many values: a table with an axis for each parent, and its own values last.

    >>> FiniteNode([[0.9, 0.1], [0.2, 0.8]], parents=["rain"]).size
    2
    """

    table: np.ndarray
    parents: tuple[str, ...]

    def __init__(self, table: Any, parents: Sequence[str] = ()) -> None:
        values, names = np.asarray(table, np.float64), tuple(parents)
        if values.ndim != len(names) + 1:
            raise ArgumentError(
                f"FiniteNode(table): shape {values.shape} for {len(names)} parents",
                remedy="an axis for each parent in order, then one for the values of the node",
            )
        sums = values.sum(axis=-1)
        wrong = np.argwhere(~((values >= 0).all(axis=-1) & (np.abs(sums - 1) <= 1e-6)))
        if len(wrong):
            at = tuple(int(k) for k in wrong[0])
            given = f" given {dict(zip(names, at, strict=True))}" if names else ""
            raise ArgumentError(
                f"FiniteNode(table): probabilities{given} are negative or sum to {sums[at]:.6g}, not 1",
                remedy="divide by table.sum(axis=-1, keepdims=True)",
            )
        object.__setattr__(self, "table", values / sums[..., None])
        object.__setattr__(self, "parents", names)

    @property
    def size(self) -> int:
        """How many values it has."""
        return self.table.shape[-1]

    def check(self, name: str, parents: Mapping[str, ModelNode]) -> None:
        """Parents are finite, with as many values as the table has rows for."""
        for axis, (parent, node) in enumerate(parents.items()):
            if not isinstance(node, FiniteNode):
                raise ArgumentError(
                    f"DirectedModel: {name!r} has finitely many values, its parent {parent!r} is {node.describe()}",
                    remedy="give it parents with finitely many values, or make it a LinearGaussianNode",
                )
            if node.size != self.table.shape[axis]:
                raise ArgumentError(
                    f"DirectedModel: the table of {name!r} has {self.table.shape[axis]} rows for {parent!r}, "
                    f"which has {node.size} values"
                )

    def sample(self, key: Key, parents: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """Numbers of values."""
        with np.errstate(divide="ignore"):
            logits = jnp.asarray(np.log(self.table))
        return jax.random.categorical(key, logits[tuple(parents)], shape=shape)

    def log_prob(self, value: Any, parents: Sequence[Any]) -> Array:
        """From the table."""
        chance = jnp.asarray(self.table)[(*parents, value)]
        return jnp.where(chance > 0, jnp.log(jnp.where(chance > 0, chance, 1.0)), -jnp.inf)

    def describe(self) -> str:
        """With the number of its values."""
        return f"finite, {self.size} values"


@final
@dataclass(frozen=True, init=False, eq=False)
class LinearGaussianNode(ModelNode):
    """A number: a weighted sum of its parents, an intercept, and normal noise of this variance."""

    intercept: float
    variance: float
    parents: tuple[str, ...]
    weights: tuple[float, ...]

    def __init__(
        self, intercept: float = 0.0, variance: float = 1.0, parents: Mapping[str, float] | None = None
    ) -> None:
        """`parents` maps the name of each to its weight."""
        if not 0 < variance < np.inf:
            raise ArgumentError(f"LinearGaussianNode(variance={variance}): must be positive and finite")
        given = dict(parents or {})
        object.__setattr__(self, "intercept", float(intercept))
        object.__setattr__(self, "variance", float(variance))
        object.__setattr__(self, "parents", tuple(given))
        object.__setattr__(self, "weights", tuple(float(weight) for weight in given.values()))

    def check(self, name: str, parents: Mapping[str, ModelNode]) -> None:
        """Parents are numbers too."""
        for parent, node in parents.items():
            if not isinstance(node, LinearGaussianNode):
                raise ArgumentError(
                    f"DirectedModel: {name!r} is linear-Gaussian, its parent {parent!r} is {node.describe()}",
                    remedy="a mixture of normal distributions is probability.Mixture(weights, components)",
                )

    def sample(self, key: Key, parents: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The weighted sum with fresh noise."""
        noise = jnp.sqrt(self.variance) * jax.random.normal(key, shape)
        return self._mean(parents) + noise

    def log_prob(self, value: Any, parents: Sequence[Any]) -> Array:
        """Of the normal distribution around the weighted sum."""
        offset = jnp.asarray(value) - self._mean(parents)
        return -0.5 * (jnp.square(offset) / self.variance + jnp.log(2 * jnp.pi * self.variance))

    def describe(self) -> str:
        """The noise, by its variance."""
        return f"linear-Gaussian, variance {self.variance:g}"

    def _mean(self, parents: Sequence[Any]) -> Any:
        return self.intercept + sum(w * jnp.asarray(x) for w, x in zip(self.weights, parents, strict=True))


__all__ = ["FiniteNode", "LinearGaussianNode", "ModelNode", "Values"]
