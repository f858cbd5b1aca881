"""Lazy values of a program's variables: what is known of their numbers without running it.

Every variable gets a `TrackedValue` that remembers its operation and operands. It answers three questions:

- `bounds`: the smallest and largest number each element can be. Equal bounds are a known number; this is how indices
  and conditions that do not depend on the input are found. Floating-point bounds include rounding, so that a number
  counts as known only if every correct way of computing it gives the same.
- `mask`: where it may be different from zero. Known zeros of products, selections and scatters are found here even
  where the other elements are unknown.
- `number`: its value at the point of a local analysis.

Answers are kept. Questions are worked off with an explicit stack: programs may be longer than Python's recursion goes.
"""

from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import numpy as np

from chainrule.derive.jaxprs.local import function_of
from chainrule.derive.sparse.detection import bounds as bounds_rules
from chainrule.derive.sparse.detection import masks as mask_rules
from chainrule.derive.sparse.detection.kinds import (
    Bounds,
    Mask,
    as_bounds,
    calls_back,
    is_discrete,
    is_exact,
    kind,
)

_NOT_FOUND_YET: Any = object()
_LARGEST = 1 << 26
"""Elements up to which constants are worth evaluating."""


@final
class LocalPoint:
    """A local analysis: the conditions and indices it looked at."""

    def __init__(self) -> None:
        self.selectors: dict[int, TrackedValue] = {}

    def record(self, value: "TrackedValue") -> None:
        """Remember that the pattern relies on these numbers."""
        self.selectors[id(value)] = value


@final
class LoopAnalysis:
    """A loop whose body is analysed once for all steps; learns whether the numbers of a single step were wanted."""

    def __init__(self) -> None:
        self.used = False


@final
class TrackedValue:
    """The numbers of one variable."""

    __slots__ = (
        "_bounds",
        "_mask",
        "_number",
        "aval",
        "computable",
        "equation",
        "loop",
        "operands",
        "output",
        "point",
        "siblings",
        "varies",
    )

    def __init__(self, aval: Any, *, varies: bool, computable: bool) -> None:
        self.aval = aval
        self.varies = varies
        """Depends on the input."""
        self.computable = computable
        """Can be computed from the input and constants (not: from the unknown state of a loop, or by a callback)."""
        self.equation: Any = None
        self.operands: Sequence[TrackedValue] = ()
        self.output = 0
        self.siblings: Sequence[TrackedValue] = ()
        self.loop: LoopAnalysis | None = None
        self.point: LocalPoint | None = None
        self._bounds: Any = _NOT_FOUND_YET
        self._mask: Any = _NOT_FOUND_YET
        self._number: Any = _NOT_FOUND_YET

    def bounds(self) -> Bounds | None:
        """Smallest and largest possible numbers, or `None` where nothing is known."""
        found = self._bounds
        if found is _NOT_FOUND_YET:
            found = _lazily(self, "_bounds", _find_bounds)
        if self.loop is not None and found is not None:
            self.loop.used = True
        return found

    def mask(self) -> Mask | None:
        """False where an element is certainly zero; `None` if there is no such element."""
        found = self._mask
        if found is _NOT_FOUND_YET:
            found = _lazily(self, "_mask", _find_mask)
        if self.loop is not None and found is not None:
            self.loop.used = True
        return found

    def number(self) -> Any:
        """The value at the point of a local analysis, or of a constant."""
        found = self._number
        return _lazily(self, "_number", _find_number) if found is _NOT_FOUND_YET else found

    def known(self) -> Any:
        """The numbers as a NumPy array if all of them are known, else `None`."""
        found = self.bounds()
        return found[0] if found is not None and is_exact(found) else None


def constant(aval: Any, number: Any) -> TrackedValue:
    """Numbers written into the program."""
    if isinstance(number, jax.core.Tracer):  # they belong to a computation around this one
        return unknown(aval)
    made = TrackedValue(aval, varies=False, computable=True)
    made._number = number
    return made


def source(aval: Any, number: Any = None, point: LocalPoint | None = None) -> TrackedValue:
    """An input of the function; its numbers are used by local analyses only."""
    made = TrackedValue(aval, varies=True, computable=True)
    made._number, made.point = number, point
    made._bounds = made._mask = None
    return made


def unknown(aval: Any, bounds: Bounds | None = None, mask: Mask | None = None) -> TrackedValue:
    """Numbers about which no more is known than is said here."""
    made = TrackedValue(aval, varies=True, computable=False)
    made._bounds, made._mask = bounds, mask
    return made


def of_step(aval: Any, bounds: Callable[[], Bounds | None], loop: LoopAnalysis) -> TrackedValue:
    """Numbers that differ from step to step of a loop; bounds hold for all steps and are found when asked for."""
    made = TrackedValue(aval, varies=True, computable=False)
    made._number, made.loop = bounds, loop
    return made


def results(equation: Any, operands: Sequence[TrackedValue]) -> list[TrackedValue]:
    """The values an equation computes."""
    varies, computable, point, loop = False, True, None, None
    for operand in operands:
        varies = varies or operand.varies
        computable = computable and operand.computable
        point = operand.point if point is None else point
        loop = operand.loop if loop is None else loop
    if computable and (point is not None or not varies):
        computable = not calls_back(equation)
    made: list[TrackedValue] = []
    for output, variable in enumerate(equation.outvars):
        one = TrackedValue(variable.aval, varies=varies, computable=computable)
        one.equation, one.operands, one.output, one.siblings = equation, operands, output, made
        one.point, one.loop = point, loop
        made.append(one)
    return made


def _lazily(value: TrackedValue, slot: str, find: Callable[[TrackedValue], Any]) -> Any:
    stack = [value]
    while stack:
        top = stack[-1]
        if getattr(top, slot) is not _NOT_FOUND_YET:
            stack.pop()
            continue
        waiting = (
            () if _alone(top, slot) else [one for one in top.operands if getattr(one, slot) is _NOT_FOUND_YET]
        )
        if waiting:
            stack.extend(waiting)
            continue
        setattr(top, slot, find(top))
        stack.pop()
    return getattr(value, slot)


def _alone(value: TrackedValue, slot: str) -> bool:
    """Whether this is found without that of the operands."""
    if slot == "_mask":
        return not value.varies
    if slot == "_bounds":
        return _by_number(value) or value.aval.size > _LARGEST
    return False


def _by_number(value: TrackedValue) -> bool:
    """Whether bounds are found by computing the value itself."""
    if not value.computable or value.equation is None:
        return False
    if value.point is not None and value.varies and is_discrete(value.aval):
        return True
    # Random keys are no numbers, but the bits drawn with them are; 64 of them leave the range of bounds.
    return not value.varies and any(
        kind(one.aval.dtype) == "x" or one.aval.dtype == np.uint64 for one in value.operands
    )


def _find_bounds(value: TrackedValue) -> Bounds | None:
    if value.equation is None:
        return value._number() if value.loop is not None else as_bounds(value._number)
    if value.aval.size > _LARGEST:
        return None
    if _by_number(value):
        if value.point is not None and value.varies:
            value.point.record(value)
        return as_bounds(value.number())
    return bounds_rules.of(value.equation, value.output, [operand._bounds for operand in value.operands])


def _find_mask(value: TrackedValue) -> Mask | None:
    if value.equation is None and value.loop is None and kind(value.aval.dtype) != "x":
        return mask_rules.settled(np.asarray(value._number) != 0)  # numbers written into the program
    if not value.varies or value.equation is None:
        found = value.bounds()
        return None if found is None else mask_rules.settled((found[0] != 0) | (found[1] != 0))
    masks = [operand._mask for operand in value.operands]
    return mask_rules.of(value.equation, value.output, masks, lambda number: value.operands[number].bounds())


def _find_number(value: TrackedValue) -> Any:
    with jax.ensure_compile_time_eval():
        found = function_of(value.equation)(*[operand._number for operand in value.operands])
    for sibling, number in zip(value.siblings, found, strict=True):
        sibling._number = number
    return found[value.output]


__all__ = [
    "LocalPoint",
    "LoopAnalysis",
    "TrackedValue",
    "constant",
    "of_step",
    "results",
    "source",
    "unknown",
]
