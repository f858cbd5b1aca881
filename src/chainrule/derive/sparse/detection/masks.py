"""Zero masks: where the result of an operation is certainly zero, from where its operands are.

Only zeros that hold whatever the other numbers are count: a product with a known zero factor, the empty entries of a
scatter, a selection between zeros. Zero times infinity counts as zero. Sums that cancel are not zeros.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from chainrule.derive.sparse.detection import contraction, windows
from chainrule.derive.sparse.detection.kinds import Bounds, Mask, is_exact
from chainrule.derive.sparse.detection.moves import MOVES

AskBounds: TypeAlias = Callable[[int], Bounds | None]
Rule: TypeAlias = Callable[[Any, int, Sequence[Mask | None], AskBounds], Mask | None]


def of(equation: Any, output: int, operands: Sequence[Mask | None], bounds: AskBounds) -> Mask | None:
    """The mask of one result of an equation."""
    name = equation.primitive.name
    if name in _SAME:
        return _shaped(equation, output, operands[0])
    if name in _SUMS:
        some = [one for one in operands if one is not None]
        if len(some) < len(operands):
            return None
        return _shaped(equation, output, np.logical_or.reduce(np.broadcast_arrays(*some)))
    rule = _move if name in MOVES else _RULES.get(name)
    return (
        None if rule is None else settled(_shaped(equation, output, rule(equation, output, operands, bounds)))
    )


def settled(mask: Mask | None) -> Mask | None:
    """A mask without zeros is no mask."""
    return None if mask is None or mask.all() else mask


def _shaped(equation: Any, output: int, mask: Mask | None) -> Mask | None:
    return None if mask is None else np.broadcast_to(mask, equation.outvars[output].aval.shape)


def _filled(equation: Any, operands: Sequence[Mask | None]) -> list[Mask]:
    """Masks with ones where nothing is known."""
    return [
        np.broadcast_to(True, atom.aval.shape) if one is None else one
        for one, atom in zip(operands, equation.invars, strict=True)
    ]


def _move(equation: Any, output: int, operands: Sequence[Mask | None], _: AskBounds) -> Mask | None:
    if all(one is None for one in operands):
        return None
    found: Mask = MOVES[equation.primitive.name](equation.params, *_filled(equation, operands))[output]
    return found


def _product(_: Any, __: int, operands: Sequence[Mask | None], ___: AskBounds) -> Mask | None:
    some = [one for one in operands if one is not None]
    return np.logical_and.reduce(np.broadcast_arrays(*some)) if some else None


def _quotient(_: Any, __: int, operands: Sequence[Mask | None], ___: AskBounds) -> Mask | None:
    return operands[0]


def _power(equation: Any, _: int, operands: Sequence[Mask | None], __: AskBounds) -> Mask | None:
    return operands[0] if equation.params["y"] > 0 else None


def _convert(_: Any, __: int, operands: Sequence[Mask | None], bounds: AskBounds) -> Mask | None:
    if operands[0] is not None:
        return operands[0]
    found = bounds(0)
    return None if found is None else (found[0] != 0) | (found[1] != 0)


def _select(equation: Any, _: int, operands: Sequence[Mask | None], bounds: AskBounds) -> Mask | None:
    cases = operands[1:]
    which = bounds(0)
    if which is None and any(case is None for case in cases):
        return None
    shape = equation.outvars[0].aval.shape
    found = np.zeros(shape, dtype=bool)
    for number, case in enumerate(cases):
        possible = np.True_ if which is None else (which[0] <= number) & (which[1] >= number)
        found |= possible if case is None else possible & case
    return found


def _reduce(equation: Any, _: int, operands: Sequence[Mask | None], __: AskBounds) -> Mask | None:
    return None if operands[0] is None else np.asarray(operands[0].any(axis=tuple(equation.params["axes"])))


def _cumulative(equation: Any, _: int, operands: Sequence[Mask | None], __: AskBounds) -> Mask | None:
    if operands[0] is None:
        return None
    axis, mask = equation.params["axis"], operands[0]
    if equation.params["reverse"]:
        return np.flip(np.logical_or.accumulate(np.flip(mask, axis), axis=axis), axis)
    return np.logical_or.accumulate(mask, axis=axis)


def _gather(equation: Any, _: int, operands: Sequence[Mask | None], bounds: AskBounds) -> Mask | None:
    if operands[0] is None:
        return None
    indices = [bounds(number) for number in range(1, len(equation.invars))]
    if any(one is None or not is_exact(one) for one in indices):
        return None
    positions = windows.positions(equation, [one[0] for one in indices if one is not None])
    # Left-out windows of a gather are filled with something, often not a number.
    return np.where(positions < 0, True, operands[0].reshape(-1)[positions])


def _scatter(equation: Any, _: int, operands: Sequence[Mask | None], bounds: AskBounds) -> Mask | None:
    if operands[0] is None:
        return None
    slices = equation.primitive.name == "dynamic_update_slice"
    updates = operands[1] if slices else operands[2]
    indices = [bounds(n) for n in (range(2, len(equation.invars)) if slices else (1,))]
    if any(one is None or not is_exact(one) for one in indices):
        return None
    positions = windows.positions(equation, [one[0] for one in indices if one is not None])
    found = operands[0].reshape(-1).copy()
    written = positions[positions >= 0]
    applies = equation.primitive.name == "scatter" and not windows.replaces(equation)
    if windows.replaces(equation):
        counts = np.bincount(written, minlength=len(found))
        found[counts > 0] = False
    values = True if updates is None or applies else updates[positions >= 0]
    np.logical_or.at(found, written, values)
    return found.reshape(operands[0].shape)


def _dot(equation: Any, _: int, operands: Sequence[Mask | None], __: AskBounds) -> Mask | None:
    if all(one is None for one in operands):
        return None
    return contraction.boolean_dot(equation, *_filled(equation, operands))


_SAME = {
    *("abs", "neg", "sqrt", "square", "cbrt", "sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh"),
    *(
        "erf",
        "expm1",
        "log1p",
        "sign",
        "floor",
        "ceil",
        "round",
        "real",
        "imag",
        "conj",
        "copy",
        "stop_gradient",
    ),
    *("reduce_precision", "name", "sharding_constraint"),
}
"""Functions of one argument that are zero at zero."""
_SUMS = {"add", "sub", "add_any", "max", "min"}

_RULES: dict[str, Rule] = {
    "and": _product,
    "convert_element_type": _convert,
    "cumsum": _cumulative,
    "div": _quotient,
    "dot_general": _dot,
    "dynamic_slice": _gather,
    "dynamic_update_slice": _scatter,
    "gather": _gather,
    "integer_pow": _power,
    "mul": _product,
    "reduce_max": _reduce,
    "reduce_min": _reduce,
    "reduce_sum": _reduce,
    "scatter": _scatter,
    "scatter-add": _scatter,
    "select_n": _select,
}

__all__ = ["of", "settled"]
