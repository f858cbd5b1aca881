"""Models with a latent variable, and how much of it they use."""

import abc
from collections.abc import Mapping
from typing import NamedTuple, Self

from chainrule.core.types import Array, Float, Int, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.models.protocol.encoding import CanDecode, CanEncode
from chainrule.models.protocol.likelihood import HasBound

ACTIVE = 0.01
"""An entry of the code is in use where its mean varies by more than this over the examples (Burda et al., 2016)."""
IDLE = 0.1
"""A level of a code that costs fewer nats than this says next to nothing."""


class LatentUse(NamedTuple):
    """What the codes of some examples say about them, in nats: rate = information + marginal divergence.

    The second is in turn the sum of the total correlation and the divergence of every dimension by itself. All three
    are estimated with these examples standing for the distribution of the data, so that the information is never more
    than the logarithm of their number.
    """

    divergence: Float[Array, " size"]
    """The share of every entry of the code in the rate."""
    spread: Float[Array, " size"]
    """The variance over the examples of every entry's posterior mean.

    Where the prior of an entry depends on others, it is that of the distance from the prior's mean in deviations of it.
    """
    information: Scalar
    """Between example and code: `E log q(z|x) - log q(z)`."""
    marginal_divergence: Scalar
    """Of all codes together from the prior: `E log q(z) - log p(z)`."""
    total_correlation: Scalar
    """Of the entries of the codes, all examples together."""
    sensitivity: Scalar
    """How much the decoder's answers vary with codes drawn from the prior, as a share of the data's own variance."""

    compared: Int[Array, ""] | None = None
    """How many codes were compared with each other, if not all."""

    @property
    def active(self) -> Array:
        """Whether each entry of the code is in use."""
        return self.spread > ACTIVE


class HasLatents(HasBound, CanEncode, CanDecode):
    """Has a latent variable z with a prior p(z), a decoder p(x|z) and an encoder q(z|x).

    Where it is conditional, all of them are, and methods that take a batch use its targets.
    """

    @abc.abstractmethod
    def rate_and_distortion(
        self, batch: Batch, key: Key
    ) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
        """`KL(q(z|x) || p(z))` and `-E log p(x|z)` of each example in nats, with densities in the units of the model.

        Their sum is the bound of `-log p(x)`.
        """

    @abc.abstractmethod
    def log_weights(self, batch: Batch, key: Key, samples: int) -> Float[Array, "samples batch"]:
        """`log p(x, z) - log q(z|x)` for codes drawn from q, with densities of x in the units of the model."""

    @abc.abstractmethod
    def latent_use(self, batch: Batch, key: Key) -> LatentUse:
        """What the codes of these examples say about them."""

    def context_nats(self, batch: Batch, key: Key) -> Float[Array, " batch"] | None:
        """Default: entries are independent given the code; otherwise what hiding those before an entry would cost."""
        del batch, key
        return None

    @property
    def rate_note(self) -> str:
        """Default: the rate has a closed form given an example; otherwise how it is estimated, in a few words."""
        return ""


class CodeDraw(NamedTuple):
    """A code drawn for each example, with the two densities that a bound by any other prior needs.

    log p(x) >= E[log p(x|z) + log p(z) - log q(z|x)], whatever p(z) is.
    """

    code: Float[Array, "batch size"]
    log_posterior: Float[Array, " batch"]
    """`log q(z|x)`, a density of codes as they are."""
    log_likelihood: Float[Array, " batch"]
    """`log p(x|z)`, of examples in the units of the model."""


class HasPosterior(HasLatents):
    """Knows the density of the codes it draws, so that another prior may take the place of its own."""

    @abc.abstractmethod
    def draw_code(self, batch: Batch, key: Key) -> CodeDraw | None:
        """A code of each example from q(z|x); none where codes have no density in their space, as on a sphere."""


class HasLevels(HasLatents):
    """Has a latent variable in levels, the entries of the lowest first in a code."""

    @property
    @abc.abstractmethod
    def level_sizes(self) -> tuple[int, ...]:
        """How many entries of a code each level has."""

    @abc.abstractmethod
    def level_rates(self, batch: Batch, key: Key) -> Mapping[str, Float[Array, " batch"]]:
        """What each level, or group of levels, adds to the rate of each example, by name; they sum to the rate.

        Levels whose posterior is learned are called z1, z2 and so on from the lowest: one that costs nothing says
        nothing.
        """


class HasRateWeight(HasLatents):
    """Minimises distortion + beta rate for a beta that can be chosen."""

    @abc.abstractmethod
    def with_beta(self, beta: float) -> Self:
        """The same model with another weight of the rate."""


__all__ = [
    "ACTIVE",
    "IDLE",
    "CodeDraw",
    "HasLatents",
    "HasLevels",
    "HasPosterior",
    "HasRateWeight",
    "LatentUse",
]
