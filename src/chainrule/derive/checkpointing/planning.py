"""Memory-recomputation frontier of a computation, and the cheapest point on it that fits a budget.

Every candidate is a real checkpointed program whose memory timeline is analysed like any other; of loops, the steps
that are computed again are counted. The choice is compiled, and stands only if the compiler says that it fits, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from chainrule.core import notebook
from chainrule.core.formatting import memory_size
from chainrule.core.pictures import Scatter
from chainrule.derive.checkpointing import binomial, drawing
from chainrule.derive.checkpointing.policies import CheckpointSchedule, Policy, as_function, checkpoint
from chainrule.derive.checkpointing.steps import Chain, ProgramSteps, Stage, Steps
from chainrule.derive.jaxprs.tracing import trace
from chainrule.derive.memory_budget import MemoryBudgetError, parse
from chainrule.derive.memory_timeline import Timeline
from chainrule.derive.memory_timeline import memory as live_memory

_REPEATS = 6
_ALL = "store all"


@final
@dataclass(frozen=True)
class FrontierPoint:
    """One way of checkpointing, with the peak bytes and the operations of its gradient."""

    label: str
    policy: Policy
    snapshots: int | None
    peak: int
    """Bytes by the model of `memory`."""
    flops: int
    compiled: int | None = None
    """Bytes by the compiler's own account, of the chosen one and of those that were tried before it."""


@final
@dataclass(frozen=True)
class Plan:
    """All candidates, those worth taking, and the cheapest one that fits the budget, confirmed by compiling it."""

    points: tuple[FrontierPoint, ...]
    chosen: FrontierPoint
    budget: int
    f: Callable[..., Any] | Steps

    @property
    def frontier(self) -> tuple[FrontierPoint, ...]:
        """Points that no other beats in both memory and work, the smallest memory first."""
        best: list[FrontierPoint] = []
        for point in sorted(self.points, key=lambda one: (one.peak, one.flops)):
            if not best or point.flops < best[-1].flops:
                best.append(point)
        return tuple(best)

    @property
    def reason(self) -> str:
        """Why the choice is what it is.

        >>> import jax.numpy as jnp
        >>> plan([jnp.sin] * 9, jnp.ones(1000), memory="1MiB").reason.split(",")[0]
        'store all: 43 KiB by the model'
        """
        found = self.chosen
        sizes = f"{memory_size(found.peak)} by the model, {memory_size(found.compiled or 0)} compiled"
        passed = [one for one in self.points if one.compiled is not None and one is not found]
        over = "".join(f"; {one.label} compiles to {memory_size(one.compiled or 0)}" for one in passed)
        return f"{found.label}: {sizes}, within {memory_size(self.budget)}{over}"

    def apply(self) -> Callable[..., Any]:
        """The function checkpointed the chosen way."""
        return checkpoint(self.f, self.chosen.policy, snapshots=self.chosen.snapshots)

    def picture(self) -> Scatter:
        """The candidates and the chosen point as data."""
        cheapest = min(point.flops for point in self.points)

        def coordinates(points: Sequence[FrontierPoint]) -> np.ndarray:
            return np.array([[point.peak, point.flops / max(cheapest, 1)] for point in points])

        groups = {
            "considered": coordinates(self.points),
            "worth taking": coordinates(self.frontier),
            "chosen": coordinates([self.chosen]),
        }
        return Scatter(
            "checkpoint plan", "memory against recomputation", "peak bytes", "work, relative", groups
        )

    def to_svg(self, path: str | Path | None = None) -> str:
        """The frontier as a picture."""
        picture = drawing.svg(
            [(point.label, point.peak, point.flops) for point in self.points],
            [point.label for point in self.frontier],
            self.chosen.label,
            self.budget,
        )
        if path is not None:
            Path(path).write_text(picture, encoding="utf-8")
        return picture

    def _repr_html_(self) -> str:
        return notebook.drawing(self.to_svg(), self)


def plan(
    f: Callable[..., Any] | Steps | Sequence[Stage],
    *args: Any,
    memory: str | int | None = None,
    argnums: int | Sequence[int] = 0,
) -> Plan:
    """Compare ways to checkpoint the gradient of `f` and pick the cheapest that fits `memory`, model and compiled.

    `memory` is a number of bytes or a text such as "2GiB"; by default a quarter of what is free. The cheapest of the
    candidates that fit by the model is compiled; if the compiler needs more than the budget, the next one is.

    >>> import jax.numpy as jnp
    >>> x = jnp.ones(1000)
    >>> found = plan([jnp.sin] * 16, x, memory=10 * x.nbytes)
    >>> found.chosen.peak <= found.budget < found.points[0].peak
    True
    """
    budget = parse("plan", memory)
    steps: Callable[..., Any] | Steps = Chain(f) if isinstance(f, Sequence) else f
    cut_up = steps if isinstance(steps, Chain) else _program(as_function(steps), args)
    loops = list(cut_up.loops.values()) if isinstance(cut_up, ProgramSteps) else []
    points: dict[str, FrontierPoint] = {}
    timelines: dict[str, Timeline] = {}
    for label, policy, snapshots in _candidates(max((loop.length for loop in loops), default=cut_up.length)):
        timeline = live_memory(checkpoint(steps, policy, snapshots=snapshots), *args, argnums=argnums)
        flops = timeline.flops
        if loops and isinstance(policy, (str, int)):
            cut = CheckpointSchedule(policy, snapshots)
            flops = points[_ALL].flops + sum(cut.again(loop) * loop.flops for loop in loops)
        points[label] = FrontierPoint(label, policy, snapshots, timeline.peak, flops)
        timelines[label] = timeline
    fitting = [point for point in points.values() if point.peak <= budget]
    for point in sorted(fitting, key=lambda point: (point.flops, point.peak)):
        point = replace(point, compiled=timelines[point.label].compiled_peak)
        points[point.label] = point
        if point.compiled is not None and point.compiled <= budget:
            return Plan(tuple(points.values()), point, budget, steps)
    least = min(points.values(), key=lambda point: max(point.peak, point.compiled or 0))
    raise MemoryBudgetError(
        f"plan(memory={memory!r}): no way of checkpointing fits {memory_size(budget)}",
        remedy=f"the least is {memory_size(max(least.peak, least.compiled or 0))}, with {least.label}",
    )


def _program(f: Callable[..., Any], args: Sequence[Any]) -> ProgramSteps:
    return ProgramSteps(trace("plan", f, args, abstract=True).program)


def _candidates(length: int) -> list[tuple[str, Policy, int | None]]:
    found: list[tuple[str, Policy, int | None]] = [(_ALL, None, None)]
    lengths = {-(-length // pieces) for pieces in _spread(length)} - {1, length}
    found += [(f"segments of {one}", one, None) for one in sorted(lengths)]
    for snapshots in _spread(length):
        if binomial.repeats_needed(length, snapshots) <= _REPEATS and snapshots < length:
            found.append((f"{snapshots} snapshots", "binomial", snapshots))
    return found


def _spread(length: int) -> list[int]:
    """2, 3, 4, 6, 8, 12, ... up to the length."""
    return [
        one
        for power in range(1, length.bit_length())
        for one in (2**power, 3 * 2 ** (power - 1))
        if one <= length
    ]


__all__ = ["FrontierPoint", "Plan", "plan"]
