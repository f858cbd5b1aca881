"""Autoregressive models of vectors: exact likelihood, samples, completions.

What differs between FVSBN, NADE and MADE is the network behind the conditionals; everything else is here. Several
networks with orders of their own make an ensemble: each is trained by itself, and probabilities are averaged.
"""

import math
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.autoregressive import vector_pictures
from chainrule.models.autoregressive.conditionals import Conditionals, EnsembleConfig
from chainrule.models.autoregressive.flow import AutoregressiveFlow
from chainrule.models.protocol import CanSample, Config, HasLogProb, HasPictures, Metrics


@final
class VectorModel(CanSample, HasLogProb, HasPictures):
    """`p(x) = Π_t p(x_t | x_<t)` over the entries of an example, or a mean of such products over several orders."""

    members: tuple[Conditionals, ...]
    orders: tuple[Int[Array, " entries"], ...]
    """For each member, which entry comes when."""
    config: Config = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-likelihood, in nats per example; for an ensemble the mean over its members."""
        del key
        return -self._member_log_probs(batch.x).mean(), {}

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Log-likelihood of each example; for an ensemble that of the averaged probabilities."""
        return jax.nn.logsumexp(self._member_log_probs(x), axis=0) - math.log(len(self.members))

    def sample(self, key: Key, n: int) -> Array:  # type: ignore[override]  # there are no options
        """New examples, drawn entry after entry."""
        return self.complete(jnp.zeros((n, *self.schema.shape)), 0, key)

    def complete(self, x: Array, given: int, key: Key) -> Array:
        """Examples of which the first `given` entries are kept and the others drawn anew.

        "First" is meant in the order of the model. Each example is completed by one member of an ensemble, chosen at
        random (for `given` above zero this is the conditional of that member, not of the ensemble).
        """
        if not 0 <= given <= self.schema.dimensions:
            raise ArgumentError(f"given={given}: an example has {self.schema.dimensions} entries")
        for_choice, *keys = jax.random.split(key, 1 + len(self.members))
        found = jnp.stack(
            [
                _restored(member.continued(self._ordered(x, order), given, k), order)
                for member, order, k in zip(self.members, self.orders, keys, strict=True)
            ]
        )
        chosen = jax.random.randint(for_choice, (len(x),), 0, len(self.members))
        return found[chosen, jnp.arange(len(x))].reshape(x.shape)

    def terms(self, x: Array) -> Array:
        """`log p(x_t | x_<t)` of every entry under the first order, in the shape of the examples."""
        ordered = self._ordered(x, self.orders[0])
        terms = self.members[0].output.log_prob(self.members[0](ordered), ordered)
        return _restored(terms, self.orders[0]).reshape(x.shape)

    def expected(self, x: Array) -> Array:
        """The mean of every entry given those before it under the first order, in the shape of the examples."""
        parameters = self.members[0](self._ordered(x, self.orders[0]))
        return _restored(self.members[0].output.mean(parameters), self.orders[0]).reshape(x.shape)

    def as_flow(self) -> AutoregressiveFlow:
        """The same density as an invertible map from Gaussian noise, where conditionals are single Gaussians."""
        return AutoregressiveFlow.of(self.members, self.orders)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """For images completions, expected pixels and the order; for every kind of data where the nats go."""
        return vector_pictures.all_of(self, data, key)

    def _member_log_probs(self, x: Array) -> Float[Array, "members batch"]:
        found = []
        for member, order in zip(self.members, self.orders, strict=True):
            ordered = self._ordered(x, order)
            found.append(member.output.log_prob(member(ordered), ordered).sum(axis=-1))
        return jnp.stack(found)

    def _ordered(self, x: Array, order: Int[Array, " entries"]) -> Float[Array, "batch entries"]:
        return x.reshape(x.shape[0], self.schema.dimensions)[:, order]


def ensemble(
    members: tuple[Conditionals, ...], config: EnsembleConfig, schema: Schema, key: Key
) -> VectorModel:
    """Networks under the orders that the settings ask for."""
    return VectorModel(members, config.orders(schema.dimensions, key), config, schema)


def _restored(
    ordered: Float[Array, "batch entries"], order: Int[Array, " entries"]
) -> Float[Array, "batch entries"]:
    return jnp.zeros_like(ordered).at[:, order].set(ordered, unique_indices=True)


__all__ = ["VectorModel", "ensemble"]
