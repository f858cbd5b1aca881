"""Densities, bounds on them, and other numbers that judge single examples."""

import abc
from collections.abc import Mapping
from typing import NamedTuple

from chainrule.core.types import Array, Float, Key
from chainrule.data.batches import Batch
from chainrule.models.protocol.model import Model


class HasLogProb(Model):
    """Knows the density of an example exactly."""

    @abc.abstractmethod
    def log_prob(self, x: Array) -> Float[Array, " batch"]:
        """Natural logarithm of the density (or probability) of each example, in model units."""


class HasDensity(HasLogProb):
    """Its log-density is one of continuous numbers: data with levels are scored with noise that fills their gaps."""

    @property
    def gaps(self) -> Float[Array, " *shape"] | None:
        """Default: none but those between levels; otherwise the distance of values of each entry, or 0."""
        return None


class HasConditionalDensity(HasDensity):
    """Such a density also given the target of an example, where the model was told targets."""

    @property
    @abc.abstractmethod
    def conditional(self) -> bool:
        """Whether it is told anything of examples."""

    @abc.abstractmethod
    def log_prob_given(self, batch: Batch) -> Float[Array, " batch"]:
        """Log-density of each example given its own target, in model units."""


class LogPartition(NamedTuple):
    """The logarithm of a normalisation, and how it was come by."""

    value: float
    standard_error: float
    """0 where it is exact."""
    method: str
    """In a word; empty where it is exact."""
    effective: float
    """Of an estimate, the share of its draws that count."""


class HasEnergy(Model):
    """Knows the density of an example up to a factor: `log p(x) = -F(x) - log Z`, with F its free energy."""

    @abc.abstractmethod
    def free_energy(self, x: Array) -> Float[Array, " batch"]:
        """F(x) of each example, in nats of a density in the units of the model."""

    @abc.abstractmethod
    def log_partition(self, key: Key) -> LogPartition:
        """log Z: exactly where that is within reach, otherwise an estimate."""

    @property
    @abc.abstractmethod
    def is_density(self) -> bool:
        """Whether it is one of continuous numbers: data with levels are scored with noise that fills their gaps."""


class HasBound(Model):
    """Knows a lower bound of the log-density."""

    @abc.abstractmethod
    def elbo(self, x: Array, key: Key) -> Float[Array, " batch"]:
        """A lower bound of `log p(x)` for each example in nats (one-sample estimate)."""

    @property
    def likelihood_note(self) -> str:
        """Default: empty; otherwise how numbers of levels became ones with a density, in a few words."""
        return ""


class Scored(NamedTuple):
    """One number for each example, and its unit."""

    values: Array
    unit: str = ""


class BoundByLevel(NamedTuple):
    """What each noise level adds to the diffusion part of a bound, cleanest first; the sum is that part."""

    lam: Float[Array, "batch levels"]
    """Log signal-to-noise ratio where the example was looked at."""
    nats: Float[Array, "batch levels"]


class Bounded(NamedTuple):
    """The bound of each example, what it is made of, and bounds that came from the same look at it.

    All are in nats and, like `HasBound.elbo`, of a density in the units of the model.
    """

    elbo: Array
    parts: Mapping[str, Array]
    """Costs on the way to the reconstruction; what is left of `-elbo` is that of the reconstruction itself."""
    given: Mapping[str, Array]
    """Lower bounds of log p(x) where something is given, by the name of what it is."""


class HasImportanceBound(HasBound):
    """Its bound is the logarithm of an estimate that is right on average: the mean of several is a tighter one."""


class HasBoundParts(HasBound):
    """Knows what its bound is made of."""

    @abc.abstractmethod
    def bound(self, batch: Batch, key: Key) -> Bounded:
        """The bound of each example with its parts and, where targets help, the bound given them.

        It is that of `elbo`, or the better one of a model that draws a class first: log p(class) + log p(x | class).
        """


class HasBoundByLevel(HasBoundParts):
    """Removes noise level by level, and knows what each level adds to its bound."""

    @abc.abstractmethod
    def bound_by_level(self, batch: Batch, key: Key) -> tuple[Bounded, BoundByLevel]:
        """The bound as `bound` has it, by the same key, and its part `diffusion` taken apart."""


class HasScores(Model):
    """Has numbers of its own by which it is judged, beyond those its capabilities give."""

    @abc.abstractmethod
    def scores(self, batch: Batch, key: Key) -> Mapping[str, Scored]:
        """Named numbers for each example; scoring reports their means and standard errors."""


__all__ = [
    "BoundByLevel",
    "Bounded",
    "HasBound",
    "HasBoundByLevel",
    "HasBoundParts",
    "HasConditionalDensity",
    "HasDensity",
    "HasEnergy",
    "HasImportanceBound",
    "HasLogProb",
    "HasScores",
    "LogPartition",
    "Scored",
]
