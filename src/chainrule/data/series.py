"""Series of numbers: one long series cut into examples, and a generated one whose law is known.

Of one long series, validation and test are the last pieces, so that a model is always judged on what came later.
"""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from chainrule.data.options import Option, number, whole
from chainrule.data.scan import Contents, Reader, Refused, Request, Scan

_SETTLING = 400
"""Steps before the first that is kept, so that a series has forgotten how it began."""


def cut(contents: Contents, window: int, where: str) -> Contents:
    """Sequences of `window` rows of a table each; a shorter rest at the end is left out.

    >>> rows = Contents("table", np.arange(7.0)[:, None], standardise=np.ones(1, bool))
    >>> cut(rows, 2, "seven rows").x[..., 0].tolist()
    [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
    """
    if contents.kind not in ("table", "points"):
        raise Refused("not a series", where, f"series={window}: {contents.kind} data have no rows in time")
    if contents.y is not None or contents.parts is not None:
        detail = f"series={window}: a series has neither targets nor parts of its own"
        raise Refused("not a series", where, detail, "for a table: data.target=none")
    x = contents.x if contents.rows is None else contents.x[contents.rows]
    count = len(x) // window
    if count < 3:
        detail = f"{len(x):,} rows make {count} examples of {window}; at least 3 are needed"
        raise Refused("too short", where, detail, f"use data.series={max(2, len(x) // 10)}")
    windows = np.asarray(x[: count * window]).reshape(count, window, -1)
    return replace(contents, kind="sequence", x=windows, columns=(), rows=None, consecutive=True)


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
        """The a and b of the law."""
        return 2 * self.kept * math.cos(2 * math.pi / self.period), -(self.kept**2)

    @property
    def reader(self) -> Reader:
        """The law as a source of data."""
        options = {
            "n": Option(1000, whole(10, 10**7), "number of sequences"),
            "steps": Option(64, whole(2, 10**5), "steps of each"),
            "noise": Option(0.2, number(0), "standard deviation of the noise in each step"),
        }
        return Reader("toy", "sequences", options, self._scan)

    def _scan(self, request: Request) -> Scan:
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

__all__ = ["OSCILLATIONS", "Oscillation", "cut"]
