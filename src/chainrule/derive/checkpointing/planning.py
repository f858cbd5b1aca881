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
from chainrule.core.errors import CapabilityError
from chainrule.core.formatting import memory_size
from chainrule.core.pictures import Scatter
from chainrule.derive.checkpointing import binomial, drawing
from chainrule.derive.checkpointing.policies import CheckpointSchedule, Policy, as_function, checkpoint
from chainrule.derive.checkpointing.steps import Chain, ProgramSteps, Stage, Steps
from chainrule.derive.jaxprs.branches import at_point
from chainrule.derive.jaxprs.tracing import flatten, trace
from chainrule.derive.memory_budget import MemoryBudgetError, parse, refuse
from chainrule.derive.memory_timeline import Timeline
from chainrule.derive.memory_timeline import memory as live_memory

_REPEATS = 6
_ALL = "store all"
_FORWARD = "forward mode"


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
    note: str = ""
    """What else is to be known about it."""

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
        note = f"; {self.note}" if self.note else ""
        return f"{found.label}: {sizes}, within {memory_size(self.budget)}{over}{note}"

    def __str__(self) -> str:
        least = max(min(point.flops for point in self.points), 1)
        lines = [f"plan of the gradient: {self.reason}"]
        for point in sorted(self.points, key=lambda one: (one.flops, one.peak)):
            mark = ">" if point is self.chosen else " "
            compiled = "" if point.compiled is None else f", {memory_size(point.compiled)} compiled"
            work = f"{point.flops / least:.2f} times the work"
            lines.append(f"{mark} {point.label:<17} {memory_size(point.peak):>9}{compiled}, {work}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        points = [
            {
                "label": point.label,
                "peak": point.peak,
                "compiled": point.compiled,
                "flops": point.flops,
                "chosen": point is self.chosen,
            }
            for point in self.points
        ]
        return {"budget": self.budget, "reason": self.reason, "points": points}

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
    candidates that fit by the model is compiled; if the compiler needs more than the budget, the next one is. Where `f`
    branches in Python on values, the plan is for the branch taken at the arguments. Where it has no reverse rule, as
    loops of unknown length have none, what is planned is a forward product, which stores nothing.

    >>> import jax.numpy as jnp
    >>> x = jnp.ones(1000)
    >>> found = plan([jnp.sin] * 16, x, memory=10 * x.nbytes)
    >>> found.chosen.peak <= found.budget < found.points[0].peak
    True
    """
    budget = parse("plan", memory)
    given: Callable[..., Any] | Steps = Chain(f) if isinstance(f, Sequence) else f
    flatten("plan", as_function(given), args, abstract=True)  # what is no array is named here
    steps = given if isinstance(given, Chain) else at_point("plan", as_function(given), args)
    note = "" if steps is given or isinstance(given, Steps) else "for the branch taken at these arguments"
    cut_up = steps if isinstance(steps, Chain) else _program(steps, args)
    loops = cut_up.loops if isinstance(cut_up, ProgramSteps) else []
    points: dict[str, FrontierPoint] = {}
    timelines: dict[str, Timeline] = {}
    for label, policy, snapshots in _candidates(max((loop.length for loop in loops), default=cut_up.length)):
        try:
            timeline = live_memory(checkpoint(steps, policy, snapshots=snapshots), *args, argnums=argnums)
        except CapabilityError as error:
            return _forward(given, steps, args, argnums, budget, error, note)
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
            return Plan(tuple(points.values()), point, budget, given, note)
    least = min(points.values(), key=lambda point: max(point.peak, point.compiled or 0))
    raise MemoryBudgetError(
        f"plan(memory={memory!r}): no way of checkpointing fits {memory_size(budget)}",
        remedy=f"the least is {memory_size(max(least.peak, least.compiled or 0))}, with {least.label}",
    )


def _forward(
    given: Callable[..., Any] | Steps,
    steps: Callable[..., Any] | Steps,
    args: Sequence[Any],
    argnums: int | Sequence[int],
    budget: int,
    refusal: CapabilityError,
    note: str,
) -> Plan:
    """The only way for a function without a reverse rule: forward products, one after another."""
    function = as_function(steps)
    try:
        timeline = live_memory(function, *args, mode="forward", argnums=argnums)
    except CapabilityError:
        raise refusal from None
    point = FrontierPoint(_FORWARD, None, None, timeline.peak, timeline.flops, timeline.compiled_peak)
    needed = max(point.peak, point.compiled or 0)
    if needed > budget:
        refuse("plan", "a forward product (there is no reverse rule)", needed, budget, "a larger memory=")
    why = "f has no reverse rule, and forward products have nothing to store or to compute again"
    return Plan((point,), point, budget, given, "; ".join(filter(None, [why, note])))


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
