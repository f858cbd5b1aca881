"""Examples with a latent variable, whatever its shape: what they are judged as, their likelihood and their pictures.

Which codes there are, one vector or levels of them, is for the models to say; a decoder gives the parameters of every
entry of an example, and from these on all models are the same.
"""

import abc
from typing import Annotated, Literal

import equinox as eqx
from pydantic import Field

from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.latent import likelihoods
from chainrule.models.protocol import CanSample, HasBound, HasLatents, HasPictures
from chainrule.probability.distributions.outputs import OutputDistribution

AT_ONCE = 2048
"""Examples drawn at a time."""

Temperature = Annotated[
    float, Field(ge=0, description="factor on the spread of the codes; below 1: tamer examples")
]
Entries = Annotated[
    Literal["auto", "mean", "drawn"],
    Field(
        description="what a code becomes: the mean of every entry, or a draw of each; auto: the mean of pixels, else "
        "draws"
    ),
]


class JudgesEntries(HasBound, CanSample, HasPictures):
    """The distribution of every entry of an example given its code, whatever that is."""

    schema: eqx.AbstractVar[Schema]

    @property
    @abc.abstractmethod
    def output(self) -> OutputDistribution:
        """The family of distributions of an entry."""

    def target(self, x: Array, key: Key) -> Array:
        """Examples as the likelihood judges them: levels get uniform noise where it is a density."""
        return likelihoods.target(self.output, self.schema, x, key)

    @property
    def likelihood_note(self) -> str:
        """Uniform noise fills the gaps between levels where the likelihood is a density."""
        return "uniform dequantisation" if likelihoods.fills_gaps(self.output, self.schema) else ""

    def entry_log_likelihood(
        self, x: Array, parameters: Float[Array, "*entries numbers"]
    ) -> Float[Array, "*draws batch"]:
        """`log p(x|z)` in the units of the model from parameters of entries, for examples as `target` gives them."""
        return likelihoods.log_likelihood(self.output, self.schema, parameters, x)

    def nats(self, log_likelihood: Array) -> Array:
        """The cost that a log-likelihood in the units of the model is: of levels, that of their probability."""
        return likelihoods.nats(self.schema, log_likelihood)

    def shown(self, parameters: Array, key: Key, entries: str) -> Array:
        """The examples that parameters of entries become: means, draws, or what suits the data."""
        return (
            self.output.mean(parameters) if self.shows_means(entries) else self.output.sample(parameters, key)
        )

    def shows_means(self, entries: str) -> bool:
        """Whether examples are shown as means of entries: always, never, or if they are pixels."""
        return kinds.of(self.schema).spatial if entries == "auto" else entries == "mean"


class Coded(JudgesEntries, HasLatents):
    """A latent variable, and the distribution of every entry of an example given it."""

    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """The lower bound of log p(x), without a condition, from one code of each example."""
        rate, distortion = self.rate_and_distortion(Batch(x), key)
        return -rate - distortion


__all__ = ["AT_ONCE", "Coded", "Entries", "JudgesEntries", "Temperature"]
