"""Autoregressive models of vectors: exact likelihood, samples, completions.

What differs between FVSBN, NADE and MADE is the network behind the conditionals; everything else is here. Several
networks with orders of their own make an ensemble: each is trained by itself, and probabilities are averaged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import EntryCode
from chainrule.information.compression.sources import HasCode
from chainrule.models.autoregressive import vector_pictures
from chainrule.models.autoregressive.coding import vector_code
from chainrule.models.autoregressive.conditionals import Conditionals, Continuation, EnsembleConfig
from chainrule.models.autoregressive.flow import gaussian_flow
from chainrule.models.protocol import (
    CanSample,
    Config,
    HasLogProb,
    HasPictures,
    HasScores,
    Metrics,
    OptionGroup,
    SampleOptions,
    Scored,
    check_options,
    read_options,
)
from chainrule.networks.conditions import class_numbers
from chainrule.networks.flows.base import Bijection


@final
class DrawingOptions(SampleOptions):
    """What is drawn, and how boldly."""

    condition: Any = Field(
        None, description="a class by name or number, one for all or each, of a model that knows classes"
    )
    temperature: float = Field(
        1.0, ge=0, description="below 1 likelier examples, above 1 more varied ones; 0: the likeliest entries"
    )


@final
class VectorModel(CanSample, HasLogProb, HasScores, HasPictures, HasCode):
    """`p(x) = Π_t p(x_t | x_<t)` over the entries of an example, or a mean of such products over several orders.

    A network that knows classes gives `p(x | c)`; with the frequencies of the classes, which are learnt beside it,
    `p(x) = Σ_c p(c) p(x | c)` is exact as well, and so is all that follows from it.
    """

    members: tuple[Conditionals, ...]
    orders: tuple[Int[Array, " entries"], ...]
    """For each member, which entry comes when."""
    config: Config = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    prior: Float[Array, " classes"] | None = None
    """Logits of the classes, where the only member knows them."""

    @property
    def conditional(self) -> bool:
        """Whether it knows classes."""
        return self.prior is not None

    def loss_unit(self) -> str:
        """That of a log-likelihood, or of a bound of one."""
        return "nats per example"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean negative log-likelihood, in nats per example; for an ensemble the mean over its members.

        With classes it is that of an example and its class together.
        """
        del key
        if self.prior is None:
            return -self._member_log_probs(batch.x).mean(), {}
        given = self._terms_of_classes(batch.x, batch.y).sum(axis=-1)
        joint = given + jax.nn.log_softmax(self.prior)[batch.y]
        return -joint.mean(), {"nats_given_class": -given.mean()}

    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Log-likelihood of each example; for an ensemble that of the averaged probabilities."""
        if self.prior is not None:
            return jax.nn.logsumexp(self._joint(x)[..., -1], axis=0)
        return jax.nn.logsumexp(self._member_log_probs(x), axis=0) - math.log(len(self.members))

    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """With classes: the likelihood given the class, and how often the class is the likeliest given the example."""
        del key
        if self.prior is None:
            return {}
        joint = self._joint(batch.x)[..., -1]
        own = jnp.take_along_axis(joint, batch.y[None], axis=0)[0] - jax.nn.log_softmax(self.prior)[batch.y]
        # A probability of levels is stated as a density.
        spacing = self.schema.dimensions * math.log(max(self.schema.levels - 1, 1))
        return {
            "nll_given_class": Scored(spacing - own, "nats"),
            "class_accuracy": Scored((joint.argmax(axis=0) == batch.y).astype(own.dtype)),
        }

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """A class, where the model knows classes, and a temperature."""
        return [OptionGroup("options", "Options of this model.", DrawingOptions)]

    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """New examples, drawn entry after entry; without a class, of classes as frequent as in the data."""
        read_options(self.sample_options(), options)
        return self.complete(jnp.zeros((n, *self.schema.shape)), 0, key, **options)

    def complete(
        self, x: Array, given: int, key: Key, *, condition: Any = None, temperature: float = 1.0
    ) -> Array:
        """Examples of which the first `given` entries are kept and the others drawn anew.

        "First" is meant in the order of the model. Each example is completed by one member of an ensemble, chosen at
        random (for `given` above zero this is the conditional of that member, not of the ensemble). A model that knows
        classes takes the class that is asked for, or draws one that what is given makes likely.
        """
        if not 0 <= given <= self.schema.dimensions:
            raise ArgumentError(f"given={given}: an example has {self.schema.dimensions} entries")
        check_options(DrawingOptions, {"temperature": temperature})
        for_choice, *keys = jax.random.split(key, 1 + len(self.members))
        labels = self._labels(x, given, for_choice, condition)
        warm = jnp.asarray(temperature, x.dtype)
        found = jnp.stack(
            [
                _continued(member, order, labels, x, Continuation(jnp.asarray(given), k, warm))
                for member, order, k in zip(self.members, self.orders, keys, strict=True)
            ]
        )
        chosen = jax.random.randint(for_choice, (len(x),), 0, len(self.members))
        return found[chosen, jnp.arange(len(x))].reshape(x.shape)

    def terms(self, x: Array) -> Array:
        """`log p(x_t | x_<t)` of every entry under the first order, in the shape of the examples."""
        if self.prior is None:
            terms = self._terms(self.members[0], self._ordered(x, self.orders[0]))
        else:
            terms = jnp.diff(jax.nn.logsumexp(self._joint(x), axis=0), axis=-1)
        return _restored(terms, self.orders[0]).reshape(x.shape)

    def expected(self, x: Array) -> Array:
        """The mean of every entry given those before it under the first order, in the shape of the examples."""
        ordered = self._ordered(x, self.orders[0])
        if self.prior is None:
            means = self._means(self.members[0], ordered)
        else:
            likely = jax.nn.softmax(self._joint(x)[..., :-1], axis=0)
            means = (likely * self._for_each_class(self._means, ordered)).sum(axis=0)
        return _restored(means, self.orders[0]).reshape(x.shape)

    def code(self) -> EntryCode:
        """Entry after entry, each by its conditional probability."""
        return vector_code(self)

    def as_flow(self) -> Bijection:
        """The same density as an invertible map of flat vectors from Gaussian noise, for single Gaussians."""
        return gaussian_flow(self.members, self.orders)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """For images completions, expected pixels and the order; for every kind of data where the nats go."""
        return vector_pictures.all_of(self, data, key)

    def _member_log_probs(self, x: Array) -> Float[Array, "members batch"]:
        pairs = zip(self.members, self.orders, strict=True)
        return jnp.stack([self._terms(one, self._ordered(x, order)).sum(axis=-1) for one, order in pairs])

    def _terms(
        self, member: Conditionals, ordered: Float[Array, "batch entries"]
    ) -> Float[Array, "batch entries"]:
        return member.output.log_prob(member(ordered), ordered)

    def _means(
        self, member: Conditionals, ordered: Float[Array, "batch entries"]
    ) -> Float[Array, "batch entries"]:
        return member.output.mean(member(ordered))

    def _terms_of_classes(self, x: Array, labels: Int[Array, " batch"]) -> Float[Array, "batch entries"]:
        return self._terms(self.members[0].of_classes(labels), self._ordered(x, self.orders[0]))

    def _for_each_class(
        self, f: Callable[[Conditionals, Array], Array], ordered: Float[Array, "batch entries"]
    ) -> Float[Array, "classes batch entries"]:
        def of(label: Int[Array, ""]) -> Array:
            return f(self.members[0].of_classes(jnp.full(len(ordered), label)), ordered)

        return jax.lax.map(of, jnp.arange(len(self.schema.classes)))

    def _joint(self, x: Array) -> Float[Array, "classes batch entries_and_one"]:
        """`log p(c, x_1, ..., x_t)` for every class and t from 0 on."""
        assert self.prior is not None
        terms = self._for_each_class(self._terms, self._ordered(x, self.orders[0]))
        start = jnp.broadcast_to(jax.nn.log_softmax(self.prior)[:, None, None], (*terms.shape[:2], 1))
        return jnp.cumsum(jnp.concatenate([start.astype(terms.dtype), terms], axis=-1), axis=-1)

    def _labels(self, x: Array, given: int, key: Key, condition: Any) -> Int[Array, " batch"] | None:
        if self.prior is None:
            if condition is not None:
                raise CapabilityError(
                    "the model draws from all classes together: it was trained without them",
                    remedy="leave class= out, or train pixel-cnn or pixel-rnn with condition=class",
                )
            return None
        if condition is not None:
            return class_numbers(self.schema, condition, len(x))
        likely = self._joint(x)[..., given] if given else self.prior[:, None]
        return jax.random.categorical(jax.random.fold_in(key, 1), likely, axis=0, shape=(len(x),))

    def _ordered(self, x: Array, order: Int[Array, " entries"]) -> Float[Array, "batch entries"]:
        return x.reshape(x.shape[0], self.schema.dimensions)[:, order]


@eqx.filter_jit
def _continued(
    member: Conditionals,
    order: Int[Array, " entries"],
    labels: Int[Array, " batch"] | None,
    x: Array,
    how: Continuation,
) -> Float[Array, "batch entries"]:
    """One program for all examples of a shape, whatever is given."""
    known = member if labels is None else member.of_classes(labels)
    return _restored(known.continued(x.reshape(len(x), len(order))[:, order], how), order)


def ensemble(
    members: tuple[Conditionals, ...], config: EnsembleConfig, schema: Schema, key: Key
) -> VectorModel:
    """Networks under the orders that the settings ask for."""
    return VectorModel(members, config.orders(schema.dimensions, key), config, schema)


def _restored(
    ordered: Float[Array, "batch entries"], order: Int[Array, " entries"]
) -> Float[Array, "batch entries"]:
    return jnp.zeros_like(ordered).at[:, order].set(ordered, unique_indices=True)


__all__ = ["DrawingOptions", "VectorModel", "ensemble"]
