"""Generative classifiers in general: a distribution of examples for every class, turned round by Bayes' rule.

`P(class | x)` is proportional to `P(class) p(x | class)`. A model says how `p(x | class)` is learnt, evaluated and
drawn from; logits, probabilities, the density of x whatever its class, samples of a class and the loss follow. Training
maximises the likelihood of examples and classes together, not that of the classes alone as networks do.
"""

import abc
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from pydantic import Field

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanSample,
    HasLogits,
    HasLogProb,
    HasOwnTraining,
    HasPictures,
    Metrics,
    weighted_mean,
)
from chainrule.networks.conditions import class_numbers

Prior: TypeAlias = Annotated[
    Literal["empirical", "uniform"] | tuple[Annotated[float, Field(gt=0)], ...],
    Field(
        description="probabilities of the classes: their shares among training examples, all the same, or given in the "
        "order of the classes (prior=0.2,0.8), scaled to sum 1"
    ),
]


class GenerativeClassifier(HasOwnTraining, HasLogits, HasLogProb, CanSample, HasPictures):
    """Knows the distribution of the examples of every class."""

    log_prior: eqx.AbstractVar[Float[Array, " classes"]]
    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def class_log_prob(self, x: Array) -> Float[Array, "batch classes"]:
        """`log p(x | class)` of each example under every class, in model units."""

    @abc.abstractmethod
    def draw(self, key: Key, classes: Int[Array, " batch"]) -> Array:
        """An example of each of these classes."""

    @abc.abstractmethod
    def noised(self, x: Array, key: Key) -> Array:
        """Examples as their density is that of: those with levels with noise between them, where it is continuous."""

    def logits(self, x: Array) -> Float[Array, "batch classes"]:
        """`log p(x, class)`: the softmax of it is `P(class | x)`."""
        each = self.class_log_prob(x)
        return each + jnp.broadcast_to(jax.nn.log_softmax(self.log_prior), each.shape)

    def predict(self, x: Array) -> Float[Array, "batch classes"]:
        """`P(class | x)`."""
        return jax.nn.softmax(self.logits(x), axis=-1)

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Exact log-density of each example, whatever its class."""
        return jax.nn.logsumexp(self.logits(x), axis=-1)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean of `-log p(x, class)` in nats, which training minimises, with the accuracy of the predicted class."""
        joint = self.logits(self.noised(batch.x, key))
        own = jnp.take_along_axis(joint, batch.y[:, None], axis=1)[:, 0]
        right = (self.logits(batch.x).argmax(axis=-1) == batch.y).mean()
        return weighted_mean(-own, batch.weights), {"accuracy": right}

    def sample(  # type: ignore[override]  # the options of these models, by name
        self,
        key: Key,
        n: int,
        *,
        condition: Annotated[
            Any, Field(description="class, one for all or one for each; none: classes by their probabilities")
        ] = None,
    ) -> Array:
        """New examples, of a class or of all of them."""
        choose, within = jax.random.split(key)
        if condition is None:
            classes = jax.random.categorical(choose, self.log_prior, shape=(n,))
        else:
            classes = class_numbers(self.schema, condition, n)
        return self.draw(within, classes)


def log_prior(prior: Any, counts: Float[np.ndarray, " classes"]) -> Float[np.ndarray, " classes"]:
    """Logarithms of the probabilities of classes, as the setting asks for them.

    >>> np.exp(log_prior("empirical", np.array([1.0, 3.0]))).tolist()
    [0.25, 0.75]
    """
    given = (
        {"empirical": counts, "uniform": np.ones_like(counts)}.get(prior) if isinstance(prior, str) else prior
    )
    shares = np.asarray(given, np.float64)
    return np.log(shares / shares.sum())


def check_classes(prior: Any, data: Data) -> None:
    """Refuse classes without training examples, and given probabilities that are not one for each class."""
    names = data.schema.classes
    if not isinstance(prior, str) and len(prior) != len(names):
        raise ArgumentError(
            f"prior={','.join(map(str, prior))}: {len(prior)} probabilities for {len(names)} classes",
            remedy=f"give one for each of {_listed(names)}, or prior=empirical",
        )
    counts = np.bincount(np.asarray(data.train.y), minlength=len(names))
    missing = [name for name, count in zip(names, counts, strict=True) if not count]
    if missing:
        raise DataError(
            f"class {missing[0]!r} has no training examples, so that there is nothing to learn its distribution from",
            remedy="take more examples for training (data.split=0.9,0.05,0.05), or leave the class out of the data",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


__all__ = ["GenerativeClassifier", "Prior", "check_classes", "log_prior"]
