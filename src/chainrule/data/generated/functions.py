"""Noisy values of a known function of one number: data on which one sees what a model knows and where it does not."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from chainrule.data.loading.options import Option, number, whole
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

ENDS = (-3.0, 3.0)
"""Where points lie."""
GAP = (0.5, 1.5)
"""Where there are none."""


def wave_function(x: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """`sin(2x) + x / 2`."""
    return np.sin(2 * x) + 0.5 * x


@final
@dataclass(frozen=True)
class Wave:
    """A rising wave, observed under noise everywhere but in a gap."""

    summary: str = "noisy values of a rising wave, with a gap"
    n: int = 200
    noise: float = 0.2

    @property
    def reader(self) -> SourceReader:
        """The wave as a source of data."""
        options = {
            "n": Option(self.n, whole(10, 10**8), "number of points"),
            "noise": Option(self.noise, number(0), "standard deviation of the noise"),
        }
        return SourceReader("wave", "points", options, self._scan)

    def _scan(self, request: ReadRequest) -> Scan:
        n = request.options["n"]
        rng = np.random.default_rng(request.seed)
        x = rng.uniform(ENDS[0], ENDS[1] - (GAP[1] - GAP[0]), n)
        x = np.where(x < GAP[0], x, x + GAP[1] - GAP[0])
        y = wave_function(x) + request.options["noise"] * rng.standard_normal(n)
        return Scan(n, n, contents=Contents("points", x[:, None].astype(np.float32), y, "value"))


FUNCTIONS = {"wave": Wave()}

__all__ = ["ENDS", "FUNCTIONS", "GAP", "Wave", "wave_function"]
