"""What every layer of a normalizing flow can do: map codes to data and back, with the change of volume either way.

A flow is `x = T(z)` with z drawn from a simple distribution. `forward` generates, `inverse` normalises; each gives,
with its value, `log |det d output / d input|` of its own direction for every example, so that a chain adds them up:

    log p(x) = log p_z(T⁻¹(x)) + log |det J_{T⁻¹}(x)|

Reference: Papamakarios, Nalisnick, Rezende, Mohamed and Lakshminarayanan, Normalizing flows for probabilistic modeling
and inference, JMLR 2021.
"""

import abc
from typing import NamedTuple, Self, TypeAlias

import equinox as eqx

from chainrule.core.types import Array, Float, Key

Events: TypeAlias = Float[Array, "batch *event"]
Conditions: TypeAlias = Float[Array, "batch features"] | None
"""What is known of each example, as numbers; None for flows that are told nothing."""
LogDets: TypeAlias = Float[Array, " batch"]


class Mapped(NamedTuple):
    """Where events went, and the logarithm of the change of volume on the way, one for each example."""

    value: Events
    log_det: LogDets


class Passes(NamedTuple):
    """How many evaluations of its network, one after another, each direction of a layer takes."""

    forward: int
    inverse: int


class Bijection(eqx.Module):
    """An invertible map of events of one shape; the logarithms of its volumes are summed over the event alone."""

    shape: eqx.AbstractVar[tuple[int, ...]]
    """Of an event."""

    @abc.abstractmethod
    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """From codes to data."""

    @abc.abstractmethod
    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """From data to codes."""

    @property
    def passes(self) -> Passes:
        """Default: one pass either way."""
        return Passes(1, 1)

    def inverse_estimate(self, x: Events, condition: Conditions, key: Key) -> Mapped:
        """Default: `inverse` itself; otherwise one whose change of volume is right on average over keys."""
        del key
        return self.inverse(x, condition)

    def trained_inverse(self, x: Events, condition: Conditions, key: Key) -> tuple[Mapped, Self]:
        """Default: `inverse_estimate`, and the layer itself; otherwise with running averages moved on by a batch."""
        return self.inverse_estimate(x, condition, key), self

    def started(self, x: Events, condition: Conditions) -> Self:
        """Default: the layer itself; otherwise the one that training begins with, given a first batch of its data."""
        del x, condition
        return self


class Elementary(Bijection):
    """A layer without a network, whose cost counts for nothing beside layers that have one."""

    @property
    def passes(self) -> Passes:
        """None either way."""
        return Passes(0, 0)


__all__ = ["Bijection", "Conditions", "Elementary", "Events", "LogDets", "Mapped", "Passes"]
