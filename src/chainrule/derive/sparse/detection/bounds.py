"""Bounds of the result of an operation, from the bounds of its operands.

Exact integer and truth-value arithmetic, comparisons, selections and moves are done here in NumPy, which costs
microseconds; an operation without a rule is run by JAX if all its operands are known, and is unknown otherwise.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from chainrule.derive.jaxprs.local import function_of
from chainrule.derive.sparse.detection import rounding
from chainrule.derive.sparse.detection.arithmetic import PARTIAL, RULES
from chainrule.derive.sparse.detection.kinds import Bounds, as_bounds, calls_back, is_exact, kind
from chainrule.derive.sparse.detection.moves import MOVES


def of(equation: Any, output: int, operands: Sequence[Bounds | None]) -> Bounds | None:
    """Bounds of one result of an equation; `None` says nothing."""
    aval = equation.outvars[output].aval
    letter = kind(aval.dtype)
    if letter in "xc" or not aval.size or any(atom.aval.size == 0 for atom in equation.invars):
        return None
    known = all(one is not None and is_exact(one) for one in operands)
    full = [
        _range(atom.aval) if one is None else one for one, atom in zip(operands, equation.invars, strict=True)
    ]
    with np.errstate(all="ignore"):
        found = _sensible(_by_rule(equation, output, full, letter), aval)
        if found is None and known:
            found = _run(equation, output, [one[0] for one in operands if one is not None])
    if found is None:
        return None
    if found[0].shape == aval.shape and found[1].shape == aval.shape:
        return found
    low = np.broadcast_to(found[0], aval.shape)
    return (low, low) if found[0] is found[1] else (low, np.broadcast_to(found[1], aval.shape))


def _range(aval: Any) -> Bounds | None:
    """All that numbers of a type can be, if they are whole or truth values."""
    letter = kind(aval.dtype)
    if letter == "b":
        return np.broadcast_to(False, aval.shape), np.broadcast_to(True, aval.shape)
    if letter not in "iu" or aval.dtype in (np.int64, np.uint64):
        return None
    try:
        info = np.iinfo(aval.dtype)
    except ValueError:  # four-bit integers and the like
        return None
    low, high = np.int64(info.min), np.int64(info.max)
    return np.broadcast_to(low, aval.shape), np.broadcast_to(high, aval.shape)


def _sensible(found: Bounds | None, aval: Any) -> Bounds | None:
    """Nothing instead of bounds that say nothing, contradict themselves or leave the range of their type."""
    if found is None or not (found[0] <= found[1]).all():
        return None
    letter = kind(aval.dtype)
    if letter == "b":
        return None if found[1].all() and not found[0].any() else found
    limits = _range(aval)
    if letter not in "iu" or limits is None:
        return found
    low, high = found[0].min(), found[1].max()
    least, most = limits[0].reshape(-1)[0], limits[1].reshape(-1)[0]
    if low < least or high > most:
        return None
    return None if (found[0] == least).all() and (found[1] == most).all() else found


def _by_rule(equation: Any, output: int, operands: Sequence[Bounds | None], letter: str) -> Bounds | None:
    name = equation.primitive.name
    if name in MOVES:
        return _moved(equation, output, operands)
    rule = RULES.get(name)
    if rule is None or (name not in PARTIAL and any(one is None for one in operands)):
        return None
    return rule(equation, output, letter, *operands)


def _moved(equation: Any, output: int, operands: Sequence[Bounds | None]) -> Bounds | None:
    given = [one for one in operands if one is not None]
    if len(given) < len(operands):
        return None
    params, move = equation.params, MOVES[equation.primitive.name]
    low = move(params, *[one[0] for one in given])[output]
    if all(one[0] is one[1] for one in given):
        return low, low
    return low, move(params, *[one[1] for one in given])[output]


def _run(equation: Any, output: int, numbers: Sequence[np.ndarray]) -> Bounds | None:
    """Let JAX compute it; floating-point results get room for rounding."""
    if equation.effects or calls_back(equation):
        return None
    typed = [
        np.asarray(number).astype(atom.aval.dtype)
        for number, atom in zip(numbers, equation.invars, strict=True)
    ]
    with jax.ensure_compile_time_eval():
        found = as_bounds(function_of(equation)(*typed)[output])
    if found is None or kind(equation.outvars[output].aval.dtype) != "f":
        return found
    rounded = (found[0], np.zeros(found[0].shape, dtype=bool))
    return rounding.widen(rounded, rounded, equation.outvars[output].aval.dtype)


__all__ = ["of"]
