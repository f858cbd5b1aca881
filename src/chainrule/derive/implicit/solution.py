"""Solutions of implicit functions, with how they were found."""

from typing import NamedTuple, final

import equinox as eqx
import numpy as np

from chainrule.core.types import Array, Float, Int, Tree
from chainrule.derive.implicit.conditions import CONDITIONS
from chainrule.derive.implicit.report import SolutionReport, first_failure, largest


class Stats(NamedTuple):
    """How a solution was found and how well the theorem holds there; every entry has the batch axes of the solve."""

    steps: Int[Array, "..."]
    """Of our solver; -1 for the user's."""
    factorisations: Int[Array, "..."]
    """In all: one for each Newton step, and the one that all derivatives share (unless they inherit Newton's last).
    None where solves with A iterate."""
    residual: Float[Array, "..."]
    """Norm of F at the solution."""
    rcond: Float[Array, "..."]
    """Estimated reciprocal condition of A = dF/dw; NaN for solvers without a factor."""
    drift: Float[Array, "..."]
    """Relative change of A within the uncertainty of the solution; a fold or a multiple root has 1/2 or more."""
    failure: Int[Array, "..."]
    """0 if the theorem holds; `condition` says it in words."""

    @property
    def condition(self) -> str:
        """What is violated, in words; outside of compiled and batched code."""
        return CONDITIONS[int(self.failure)]


@final
class Solution(eqx.Module):
    """A solution with its derivatives, and what is known about it."""

    value: Tree
    stats: Stats
    what: str = eqx.field(static=True)
    """The function it is of."""
    linear: str = eqx.field(static=True)
    """How derivatives solve with A."""
    unknowns: int = eqx.field(static=True)
    factor_bytes: int = eqx.field(static=True)
    """What all derivatives share; 0 where nothing is stored."""

    @property
    def report(self) -> SolutionReport:
        """How it was found, and what was checked, to read or to keep; outside of compiled code."""
        stats, where = self.stats, f"report of {self.what}"
        failed, code = first_failure(where, stats.failure)
        steps = largest(where, stats.steps)
        return SolutionReport(
            what=self.what,
            unknowns=self.unknowns,
            solutions=int(np.size(stats.failure)),
            failed=failed,
            condition=CONDITIONS[code],
            steps=None if steps < 0 else int(steps),
            factorisations=int(largest(where, stats.factorisations)),
            checks={
                "residual": largest(where, stats.residual),
                "reciprocal condition": -largest(where, -stats.rcond),
                "drift": largest(where, stats.drift),
            },
            linear=self.linear,
            factor_bytes=self.factor_bytes or None,
        )


__all__ = ["Solution", "Stats"]
