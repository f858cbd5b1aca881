"""What every estimator of mutual information gives: a number, interval and unit, and what it is not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, final

from chainrule.information.units import scale

Meaning: TypeAlias = Literal["estimate", "lower bound", "upper bound"]
SURE = 1.959964
"""Standard errors on either side of a value that 95 % of draws of a normal lie within."""


@final
@dataclass(frozen=True)
class MutualInformationEstimate:
    """Mutual information of two variables, from pairs of their values."""

    method: str
    value: float
    interval: tuple[float, float]
    """Where the quantity this method measures lies; what about it is certain and what is not, `interval_means` says."""
    unit: str
    """"bits" or "nats", of every number here."""
    meaning: Meaning
    """What the value is of the mutual information, on average."""
    interval_means: str
    caveat: str
    """Why the number may not be the mutual information, in sentences."""
    count: int
    """Pairs it rests on."""
    null: tuple[float, float] | None = None
    """Where 95 % of the values of shuffled pairs lie, which have nothing in common; none where that was not asked."""
    details: Mapping[str, float] = field(default_factory=dict)
    """Further numbers of the method; those of information are in `unit`."""

    @property
    def error(self) -> float:
        """Half the width of the interval."""
        return (self.interval[1] - self.interval[0]) / 2

    def __str__(self) -> str:
        low, high = self.interval
        bound = "" if self.meaning == "estimate" else f", a {self.meaning}"
        return (
            f"{self.value:.4g} {self.unit} ({low:.4g} to {high:.4g}) by {self.method}{bound}: {self.caveat}"
        )


def in_unit(found: MutualInformationEstimate, unit: str, where: str) -> MutualInformationEstimate:
    """An estimate in nats in another unit; entries of `details` whose names begin with "n_" are counts."""
    factor = scale(unit, where)
    return replace(
        found,
        value=factor * found.value,
        interval=(factor * found.interval[0], factor * found.interval[1]),
        unit=unit,
        null=None if found.null is None else (factor * found.null[0], factor * found.null[1]),
        details={
            name: value if name.startswith("n_") else factor * value for name, value in found.details.items()
        },
    )


def around(value: float, error: float) -> tuple[float, float]:
    """The interval of 95 % around a value with a standard error.

    >>> [round(end, 3) for end in around(1.0, 0.1)]
    [0.804, 1.196]
    """
    return value - SURE * error, value + SURE * error


__all__ = ["SURE", "Meaning", "MutualInformationEstimate", "around", "in_unit"]
