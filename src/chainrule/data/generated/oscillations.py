"""Sequences of a known autoregressive process."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from chainrule.data.loading.options import Option, number, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

_SETTLING = 400
"""Steps before the first that is kept, so that a series has forgotten how it began."""


@final
@dataclass(frozen=True)
class Oscillation:
    """`x_t = a x_{t-1} + b x_{t-2} + noise`: a cycle that noise keeps alive and throws out of step."""

    summary: str
    period: float
    """Steps in a cycle."""
    kept: float
    """How much of the cycle is left after a step."""

    @property
    def coefficients(self) -> tuple[float, float]:
        """The a and b of the process."""
        return 2 * self.kept * math.cos(2 * math.pi / self.period), -(self.kept**2)

    @property
    def reader(self) -> SourceReader:
        """The process as a source of data."""
        options = {
            "n": Option(1000, whole(10, 10**7), "number of sequences"),
            "steps": Option(64, whole(2, 10**5), "steps of each"),
            "noise": Option(0.2, number(0), "standard deviation of the noise in each step"),
        }
        return SourceReader("toy", "sequences", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        n, steps, noise = (request.options[name] for name in ("n", "steps", "noise"))
        rng = np.random.default_rng(request.seed)
        a, b = self.coefficients
        before, last = np.zeros(n), np.zeros(n)
        x = np.empty((n, steps, 1), np.float32)
        for step in range(-_SETTLING, steps):
            before, last = last, a * last + b * before + noise * rng.standard_normal(n)
            if step >= 0:
                x[:, step, 0] = last
        return Scan(n, n, contents=Contents("sequence", x))


OSCILLATIONS = {"cycles": Oscillation("noisy cycles of twelve steps, an AR(2) process", 12.0, 0.95)}

__all__ = ["OSCILLATIONS", "Oscillation"]
