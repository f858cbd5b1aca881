"""Naive Bayes: given the class, all entries are independent, and their probabilities are frequencies."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import EntryCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.protocol import Config, Metrics
from chainrule.models.supervised.generative import GenerativeClassifier, Prior, check_classes, log_prior
from chainrule.models.supervised.naive_bayes import pictures
from chainrule.models.supervised.naive_bayes.coding import class_code
from chainrule.models.supervised.naive_bayes.entries import ClassEntries, LevelEntries, TokenEntries

_MOST_LEVELS = 1024


@final
class NaiveBayesConfig(Config):
    """Settings of naive Bayes."""

    pseudo_count: float = Field(
        1.0, gt=0, description="added to every count, so that what was never seen stays possible"
    )
    prior: Prior = "empirical"


@final
class NaiveBayes(GenerativeClassifier, HasCode):
    """`p(x | class) = Π_i p_i(x_i | class)`, every factor a table of probabilities."""

    log_prior: Float[Array, " classes"]
    entries: ClassEntries
    done: Bool[Array, ""]
    config: NaiveBayesConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: NaiveBayesConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        texts = kinds.of(schema).has_tokens
        if not texts and not 2 <= schema.levels <= _MOST_LEVELS:
            found = f"{schema.levels:,} levels" if schema.levels else "numbers without levels"
            raise CapabilityError(
                f"naive-bayes counts how often each of a few levels comes; these data have {found}",
                remedy="say how many: data.levels=2 for columns of 0 and 1, data.binarize=threshold for shares; "
                "for other numbers: gaussian-classifier covariance=diagonal",
            )
        self.log_prior = jnp.zeros(len(schema.classes))
        self.entries = TokenEntries(schema) if texts else LevelEntries(schema)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def iterate(self, examples: Batch, key: Key) -> tuple["NaiveBayes", Metrics]:
        """The closed form: counts."""
        weights = None if examples.weights is None else np.asarray(examples.weights, np.float64)
        found = self.entries.counted(
            np.asarray(examples.x), np.asarray(examples.y), self.config.pseudo_count, weights
        )
        new = eqx.tree_at(
            lambda m: (m.log_prior, m.entries.logits, m.done),
            self,
            (
                jnp.asarray(log_prior(self.config.prior, found.counts), self.log_prior.dtype),
                jnp.asarray(found.log_probs, self.log_prior.dtype),
                jnp.ones((), bool),
            ),
        )
        loss, metrics = _judged(new, jax.tree.map(jnp.asarray, examples), key)
        return new, {"loss": loss, **metrics}

    @property
    def converged(self) -> bool:
        """After the closed form."""
        return bool(self.done)

    def class_log_prob(self, x: Array) -> Float[Array, "batch classes"]:
        """The sum over entries, or over the tokens of a text."""
        return self.entries.log_prob(x)

    def draw(self, key: Key, classes: Int[Array, " batch"]) -> Array:
        """Every entry by itself."""
        return self.entries.draw(key, classes)

    def noised(self, x: Array, key: Key) -> Array:
        """As they are: levels have probabilities."""
        del key
        return x

    def code(self) -> EntryCode:
        """Entry after entry, by the classes that those before it leave likely."""
        return class_code(self)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """What every class looks like, and what speaks for it."""
        del data, key
        return pictures.all_of(self)


@eqx.filter_jit
def _judged(model: NaiveBayes, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


def examined(config: NaiveBayesConfig, data: Data) -> Mapping[str, Any]:
    """Nothing is chosen; what cannot be learnt is refused."""
    check_classes(config.prior, data)
    return {}


__all__ = ["NaiveBayes", "NaiveBayesConfig", "examined"]
