"""The data-processing inequality among estimates: what is computed from a variable knows no more than the variable.

Along a chain X - h_1 - h_2 - ... the information about anything outside it can only fall. Estimates may rise, by
chance or because an estimator measures different layers differently; a rise beyond the error bars is a failure of the
estimator.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, final

from chainrule.core.errors import ArgumentError
from chainrule.information.estimates.result import MutualInformationEstimate


class Rise(NamedTuple):
    """Two places of a chain, one computed from the other, and an estimate that says the later one knows more."""

    before: str
    after: str
    rise: float
    error: float
    """Half the width of the interval of the difference."""


@final
@dataclass(frozen=True)
class ProcessingCheck:
    """Whether estimates along a chain can be believed together."""

    names: tuple[str, ...]
    values: tuple[float, ...]
    unit: str
    violations: tuple[Rise, ...]
    """Rises beyond the error bars."""

    @property
    def holds(self) -> bool:
        """Whether there are none."""
        return not self.violations

    def __str__(self) -> str:
        if self.holds:
            return "The data-processing inequality holds within the error bars."
        worst = max(self.violations, key=lambda one: one.rise - one.error)
        return (
            f"Estimator failure at {len(self.violations)} of {len(self.names) - 1} steps: {worst.after} is computed "
            f"from {worst.before} and reads {worst.rise:.3g} {self.unit} more, beyond ± {worst.error:.2g}."
        )


def check_processing(estimates: Mapping[str, MutualInformationEstimate]) -> ProcessingCheck:
    """Estimates by the name of the place in a chain, the first first: rises beyond the error bars are marked.

    >>> from chainrule.information import mutual_information_estimate
    >>> import numpy as np
    >>> label = np.arange(400) % 2
    >>> layers = {"first": label + 0.1, "second": np.where(np.arange(400) % 5, label, 1 - label) + 0.1}
    >>> found = {name: mutual_information_estimate(label, h, "binning") for name, h in layers.items()}
    >>> check_processing(found).holds, check_processing(dict(reversed(found.items()))).holds
    (True, False)
    """
    if len(estimates) < 2:
        raise ArgumentError(f"check_processing: a chain has at least two places, not {len(estimates)}")
    units = {one.unit for one in estimates.values()}
    if len(units) > 1:
        raise ArgumentError(f"check_processing: estimates in {' and '.join(sorted(units))} do not compare")
    stages = list(estimates.items())
    rises = []
    for number in range(1, len(stages)):
        # The lowest before it: a slow rise over several places is one, too.
        name, lowest = min(stages[:number], key=lambda stage: stage[1].value)
        after, now = stages[number]
        rise, error = now.value - lowest.value, math.hypot(now.error, lowest.error)
        if rise > error:
            rises.append(Rise(name, after, rise, error))
    values = tuple(one.value for _, one in stages)
    return ProcessingCheck(tuple(estimates), values, units.pop(), tuple(rises))


__all__ = ["ProcessingCheck", "Rise", "check_processing"]
