"""What naive Bayes counts: the level of every entry, or the tokens of a text.

Entries with levels have probabilities of their own each (for two levels, Bernoulli). The tokens of a text are drawn
independently from one distribution of the class, its end being one of them, so that texts of any length together have
probability one (the multinomial model of texts, with their length).
"""

import abc
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.types import Array, Key
from chainrule.data.schema import Schema
from chainrule.networks import units
from chainrule.probability.classification import CountedClasses, count_classes


class ClassEntries(eqx.Module):
    """Logarithms of probabilities, up to a constant: `logits[class, entry, value]`."""

    logits: eqx.AbstractVar[Float[Array, "classes entries values"]]
    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def counted(
        self, x: np.ndarray, y: np.ndarray, pseudo_count: float, weights: np.ndarray | None
    ) -> CountedClasses:
        """Probabilities from examples, by counting."""

    @abc.abstractmethod
    def log_prob(self, x: Array) -> Float[Array, "batch classes"]:
        """Log-density of each example under every class, in model units."""

    @abc.abstractmethod
    def draw(self, key: Key, classes: Int[Array, " batch"]) -> Array:
        """An example of each of these classes."""

    @abc.abstractmethod
    def telling(self) -> Sequence[tuple[str, np.ndarray]]:
        """Names of what can be seen, and how much more likely each class is by it than the others, in nats."""

    def log_probs(self) -> Float[Array, "classes entries values"]:
        """Logarithms of probabilities."""
        return jax.nn.log_softmax(self.logits, axis=-1)


@final
class LevelEntries(ClassEntries):
    """Every entry has one of the levels of the data."""

    logits: Float[Array, "classes entries values"]
    schema: Schema = eqx.field(static=True)

    def __init__(self, schema: Schema) -> None:
        self.logits = jnp.zeros((len(schema.classes), schema.dimensions, schema.levels))
        self.schema = schema

    def counted(
        self, x: np.ndarray, y: np.ndarray, pseudo_count: float, weights: np.ndarray | None
    ) -> CountedClasses:
        """Of each entry by itself."""
        levels = self.schema.levels
        numbers = np.rint(x.reshape(len(x), -1) * (levels - 1)).astype(np.int64)
        classes = len(self.schema.classes)
        return count_classes(numbers, y, classes, levels, pseudo_count=pseudo_count, weights=weights)

    def log_prob(self, x: Array) -> Float[Array, "batch classes"]:
        """The sum over entries; between two levels logarithms are interpolated, so that there are gradients."""
        levels = self.schema.levels
        at = x.reshape(len(x), -1) * (levels - 1)
        low = jnp.clip(jnp.floor(at).astype(jnp.int32), 0, levels - 2)
        part = (at - low)[None]
        logs, entries = self.log_probs(), jnp.arange(at.shape[1])[None]
        each = (1 - part) * logs[:, entries, low] + part * logs[:, entries, low + 1]
        total = each.sum(axis=-1).T
        return units.log_density(self.schema, -total)

    def draw(self, key: Key, classes: Int[Array, " batch"]) -> Array:
        """A level for every entry."""
        drawn = jax.random.categorical(key, self.logits[classes])
        scaled = drawn.astype(self.logits.dtype) / (self.schema.levels - 1)
        return scaled.reshape(len(classes), *self.schema.shape)

    def telling(self) -> Sequence[tuple[str, np.ndarray]]:
        """Every entry at its most telling level."""
        names = self.schema.columns or [str(i) for i in range(self.schema.dimensions)]
        against = _against_others(np.asarray(self.log_probs(), np.float64))
        best = np.abs(against).max(axis=0).argmax(axis=-1)
        return [(f"{name} = {best[i]}", against[:, i, best[i]]) for i, name in enumerate(names)]


@final
class TokenEntries(ClassEntries):
    """Every token of a text is one of the vocabulary, or the end."""

    logits: Float[Array, "classes one tokens"]
    schema: Schema = eqx.field(static=True)

    def __init__(self, schema: Schema) -> None:
        self.logits = jnp.zeros((len(schema.classes), 1, len(schema.tokens) + 1))
        self.schema = schema

    def counted(
        self, x: np.ndarray, y: np.ndarray, pseudo_count: float, weights: np.ndarray | None
    ) -> CountedClasses:
        """Of all positions together, up to the first end."""
        end, length = len(self.schema.tokens), x.shape[1]
        tokens = np.where(np.cumsum(x == end, axis=1) <= 1, x, -1).reshape(-1, 1)
        each = np.ones(len(x)) if weights is None else weights
        classes = len(self.schema.classes)
        found = count_classes(
            tokens,
            np.repeat(y, length),
            classes,
            end + 1,
            pseudo_count=pseudo_count,
            weights=np.repeat(each, length),
        )
        return found._replace(counts=np.bincount(y, each, minlength=classes))

    def log_prob(self, x: Array) -> Float[Array, "batch classes"]:
        """The sum over tokens, the first end included."""
        end = len(self.schema.tokens)
        counts = (jnp.cumsum(x == end, axis=1) <= 1).astype(self.logits.dtype)
        each = self.log_probs()[:, 0][:, x]
        return (each * counts[None]).sum(axis=-1).T

    def draw(self, key: Key, classes: Int[Array, " batch"]) -> Array:
        """Tokens up to an end; a text that would be longer than those of the data ends there."""
        end, length = len(self.schema.tokens), self.schema.shape[0]
        logits = jnp.broadcast_to(self.logits[classes], (len(classes), length, end + 1))
        drawn = jax.random.categorical(key, logits)
        return (
            jnp.where(jnp.cumsum(drawn == end, axis=1) > 0, end, drawn).at[:, -1].set(end).astype(jnp.int32)
        )

    def telling(self) -> Sequence[tuple[str, np.ndarray]]:
        """Every token, and the end."""
        against = _against_others(np.asarray(self.log_probs(), np.float64))[:, 0]
        names = [repr(token)[1:-1].replace(" ", "␣") for token in self.schema.tokens]
        return list(zip([*names, "(end)"], against.T, strict=True))


def _against_others(logs: np.ndarray) -> np.ndarray:
    """Logarithm of the probability in each class over its mean in the others."""
    probabilities = np.exp(logs)
    others = (probabilities.sum(axis=0, keepdims=True) - probabilities) / max(len(logs) - 1, 1)
    return logs - np.log(np.maximum(others, 1e-300))


__all__ = ["ClassEntries", "LevelEntries", "TokenEntries"]
