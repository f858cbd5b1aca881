"""Liveness analysis: a program as steps over values, what each reads and writes, and how long every value lives.

The convention: operations run one after another, unfused, in the order of the program. A value lives from the step
that makes it to the last step that reads it; results live to the end; an input lives from the start (the seed of the
reverse pass from the start of that pass) to its last use. Calls are written out. A loop is one step, which needs on
top of its operands and results what one run of its body needs beyond constants and state. Reshapes and broadcasts
are copies. An array of which a slice is replaced is written in place if nobody reads the old one later, also where it
is part of a loop's state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.core.scans import scan_parts
from chainrule.derive.jaxprs import cost
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.source import SourceLine, of_equation
from chainrule.derive.memory_timeline.roles import Role, moving_results


@final
@dataclass
class BufferValue:
    """A variable in memory."""

    label: str
    bytes: int
    source: SourceLine | None
    moving: bool
    born: int
    dies: int
    role: Role = "primal"
    over: int | None = None
    """The value in whose place it is written, if that one dies when this one is born."""


@final
@dataclass(frozen=True)
class ExecutionStep:
    """One operation, run once."""

    label: str
    source: SourceLine | None
    flops: int
    extra: int = field(repr=False)
    """Bytes it needs inside, beyond its operands and results."""


@final
class ExecutionSchedule:
    """Steps and values, appended program by program."""

    def __init__(self) -> None:
        self.steps: list[ExecutionStep] = []
        self.values: list[BufferValue] = []
        self._slots: dict[Any, int] = {}
        self._read_by_moving: set[int] = set()

    def append(
        self,
        program: ClosedJaxpr,
        *,
        known: dict[int, int | None] | None = None,
        moving: Sequence[int] = (),
        names: Sequence[str] = (),
    ) -> list[int | None]:
        """Add a program's steps; returns the value of each result (none for a number written into the program).

        `known` says which inputs are values of the schedule already, `moving` which new inputs are directions.
        """
        self._slots = {}
        start = len(self.steps)
        for index, variable in enumerate(program.jaxpr.invars):
            if known is not None and index in known:
                self._slots[variable] = -1 if (slot := known[index]) is None else slot
            else:
                label = names[index] if index < len(names) else "seed"
                self._add(variable, label, None, index in moving, start)
        for variable in program.jaxpr.constvars:
            self._add(variable, "constant", None, False, start)
        for equation in program.eqns:
            self._run(equation)
        return [None if eqs.is_literal(atom) else self._slots[atom] for atom in program.jaxpr.outvars]

    def keep(self, slots: Sequence[int | None]) -> None:
        """Let some values live to the end."""
        for slot in slots:
            if slot is not None and slot >= 0:
                self.values[slot].dies = max(len(self.steps) - 1, 0)

    def assign_roles(self, moving: Role, read_by_moving: Role) -> None:
        """Name what moves, and what does not move itself but is read by a step that makes something that does."""
        for value in self.values:
            if value.moving:
                value.role = moving
        for slot in self._read_by_moving:
            if not self.values[slot].moving:
                self.values[slot].role = read_by_moving

    def live_bytes(self, role: Role | None = None) -> np.ndarray:
        """Bytes alive at every step, of one role or of all (with what steps need inside)."""
        steps = max(len(self.steps), 1)
        changes = np.zeros(steps + 1, dtype=np.int64)
        extra = np.array([step.extra for step in self.steps] or [0], dtype=np.int64)
        for value in self.values:
            in_place = value.over is not None and self.values[value.over].dies == value.born
            if value.dies >= value.born and role in (None, value.role):
                born = value.born + in_place
                changes[born] += value.bytes
                changes[value.dies + 1] -= value.bytes
            if value.over is not None and not in_place:
                # Beside the state that is still needed, the new one is where the body makes it.
                extra[value.born] = max(0, extra[value.born] - value.bytes)
        live = np.cumsum(changes)[:-1]
        return live + extra if role in (None, "primal") else live

    def _run(self, equation: Any) -> None:
        now = len(self.steps)
        reads = [self._slots[atom] for atom in equation.invars if not eqs.is_literal(atom)]
        moving = moving_results(
            equation,
            [
                not eqs.is_literal(atom) and self._slots[atom] >= 0 and self.values[self._slots[atom]].moving
                for atom in equation.invars
            ],
        )
        for slot in reads:
            if slot >= 0:
                self.values[slot].dies = max(self.values[slot].dies, now)
                if any(moving):
                    self._read_by_moving.add(slot)
        label, source = eqs.label(equation), of_equation(equation)
        self.steps.append(ExecutionStep(label, source, cost.flops(equation), inner_bytes(equation)))
        for variable, moves, over in zip(equation.outvars, moving, _in_place(equation), strict=True):
            self._add(variable, label, source, moves, now)
            value = self.values[self._slots[variable]]
            value.dies = now
            if over is not None and not eqs.is_literal(over) and self._slots[over] >= 0:
                value.over = self._slots[over]

    def _add(self, variable: Any, label: str, source: SourceLine | None, moving: bool, born: int) -> None:
        self._slots[variable] = len(self.values)
        self.values.append(BufferValue(label, cost.nbytes([variable]), source, moving, born, born - 1))


def inner_bytes(equation: Any) -> int:
    """What a loop or branch needs inside at its peak, beyond what its operands and results already hold."""
    kind = eqs.kind(equation)
    if kind == "branch":
        held = cost.nbytes(equation.invars[1:]) + cost.nbytes(equation.outvars)
        return max(0, *(_peak(eqs.closed(one)) - held for one in equation.params["branches"]))
    if kind != "loop":
        return 0
    scan = equation.primitive.name == "scan"
    body = eqs.closed(equation.params["jaxpr" if scan else "body_jaxpr"])
    if scan:
        parts = scan_parts(equation)
        constants, carried = parts.constants, parts.carried
    else:
        constants, carried = equation.params["body_nconsts"], len(equation.outvars)
    # The initial and final state outside stand for the state entering and leaving one step.
    entering, leaving = body.jaxpr.invars[: constants + carried], body.jaxpr.outvars[:carried]
    apart = [one for one, over in zip(leaving, _in_place(equation), strict=False) if over is None]
    return max(0, _peak(body) - cost.nbytes(entering) - cost.nbytes(apart))


def _in_place(equation: Any) -> list[Any]:
    """For every result the operand over which it is written, if any."""
    name = equation.primitive.name
    over: list[Any] = [None] * len(equation.outvars)
    if name == "dynamic_update_slice":
        over[0] = equation.invars[0]
    elif name in ("scan", "while"):
        body = flat(eqs.closed(equation.params["jaxpr" if name == "scan" else "body_jaxpr"])).jaxpr
        parts = scan_parts(equation) if name == "scan" else None
        constants = equation.params["body_nconsts"] if parts is None else parts.constants
        carried = len(over) if parts is None else parts.carried
        outside = equation.invars[parts.constants :] if parts else equation.invars[-carried:]
        origins = {variable: variable for variable in body.invars[constants : constants + carried]}
        for inner in body.eqns:
            for variable, before in zip(inner.outvars, _in_place(inner), strict=True):
                if not eqs.is_literal(before) and before in origins:
                    origins[variable] = origins[before]
        for index, (entering, leaving) in enumerate(
            zip(body.invars[constants:], body.outvars[:carried], strict=False)
        ):
            if not eqs.is_literal(leaving) and origins.get(leaving) is entering:
                over[index] = outside[index]
    return over


def flat(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program with all calls written out and unused operations left out."""
    inlined = eqs.inline(program, lambda equation: eqs.body(equation) is not None)
    return eqs.without_dead_code(inlined)


def _peak(program: ClosedJaxpr) -> int:
    schedule = ExecutionSchedule()
    schedule.keep(schedule.append(flat(program)))
    return int(schedule.live_bytes().max(initial=0))


__all__ = ["BufferValue", "ExecutionSchedule", "ExecutionStep", "flat", "inner_bytes"]
