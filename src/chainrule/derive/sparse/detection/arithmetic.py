"""Interval arithmetic for the operations that indices, conditions and masks are made of.

A rule gets the equation, the number of the result, its kind (one letter) and the bounds of the operands. Whole numbers
whose type has limits always have bounds here; floating-point ones that are unknown are `None`, which only the rules
named in `PARTIAL` accept.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from chainrule.derive.sparse.detection import rounding, windows
from chainrule.derive.sparse.detection.kinds import Bounds, is_exact

Rule: TypeAlias = Callable[..., Bounds | None]


def _small(*operands: Bounds) -> bool:
    """Whether sums of whole numbers cannot run over."""
    return all(int(one[0].min()) > -(2**62) and int(one[1].max()) < 2**62 for one in operands)


def _both(f: Callable[..., np.ndarray]) -> Rule:
    """A function that grows with every operand."""

    def rule(_: Any, __: int, ___: str, *operands: Bounds) -> Bounds:
        low = f(*[one[0] for one in operands])
        return (low, low) if all(a is b for a, b in operands) else (low, f(*[one[1] for one in operands]))

    return rule


def _known(f: Callable[..., np.ndarray]) -> Rule:
    """A function computed only where its operands are known numbers."""

    def rule(_: Any, __: int, ___: str, *operands: Bounds) -> Bounds | None:
        if not all(is_exact(one) for one in operands):
            return None
        found = f(*[one[0] for one in operands])
        return found, found

    return rule


def _add(equation: Any, _: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    if letter == "f":
        return rounding.add(a, b, equation.outvars[0].aval.dtype)
    if not _small(a, b):
        return None
    low = a[0] + b[0]
    return (low, low) if a[0] is a[1] and b[0] is b[1] else (low, a[1] + b[1])


def _negative(_: Any, __: int, letter: str, a: Bounds) -> Bounds | None:
    if letter != "f" and not _small(a):
        return None
    low = -a[1]
    return (low, low) if a[0] is a[1] else (low, -a[0])


def _subtract(equation: Any, output: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    negative = _negative(None, 0, letter, b)
    return None if negative is None else _add(equation, output, letter, a, negative)


def _multiply(equation: Any, _: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    if letter == "f":
        return rounding.multiply(a, b, equation.outvars[0].aval.dtype)
    if a[0] is a[1] and b[0] is b[1]:
        product = a[0] * b[0]
        return product, product
    if max(float(np.abs(x).max()) for x in a) * max(float(np.abs(y).max()) for y in b) >= 2.0**62:
        return None
    corners = [x * y for x in a for y in b]
    return functools.reduce(np.minimum, corners), functools.reduce(np.maximum, corners)


def _divide(equation: Any, _: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    if letter == "f":
        return rounding.divide(a, b, equation.outvars[0].aval.dtype)
    if not is_exact(b) or not (b[0] > 0).all():
        return None
    low = _toward_zero(a[0], b[0])
    return (low, low) if a[0] is a[1] else (low, _toward_zero(a[1], b[0]))


def _toward_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sign(a) * (np.abs(a) // b)


def _remainder(_: Any, __: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    if letter == "f" or not is_exact(b) or not (b[0] > 0).all():
        return None
    if is_exact(a):
        found = a[0] - b[0] * _toward_zero(a[0], b[0])
        return found, found
    low = np.where(a[0] < 0, np.maximum(1 - b[0], a[0]), 0)
    return low, np.where(a[1] > 0, np.minimum(b[0] - 1, a[1]), 0)


def _absolute(_: Any, __: int, letter: str, a: Bounds) -> Bounds | None:
    if letter != "f" and not _small(a):
        return None
    size = np.abs(a[0])
    if a[0] is a[1]:
        return size, size
    other = np.abs(a[1])
    straddles = (a[0] <= 0) & (a[1] >= 0)
    return np.where(straddles, 0, np.minimum(size, other)), np.maximum(size, other)


def _square(equation: Any, output: int, letter: str, a: Bounds) -> Bounds | None:
    size = _absolute(equation, output, letter, a)
    return None if size is None else _multiply(equation, output, letter, size, size)


def _compare(certain: Callable[[Bounds, Bounds], Any], refuted: Callable[[Bounds, Bounds], Any]) -> Rule:
    def rule(_: Any, __: int, ___: str, a: Bounds, b: Bounds) -> Bounds:
        low, high = np.asarray(certain(a, b)), ~np.asarray(refuted(a, b))
        return (low, low) if a[0] is a[1] and b[0] is b[1] and (low == high).all() else (low, high)

    return rule


def _equal(a: Bounds, b: Bounds) -> Any:
    return (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])


def _apart(a: Bounds, b: Bounds) -> Any:
    return (a[1] < b[0]) | (b[1] < a[0])


def _not(_: Any, __: int, ___: str, a: Bounds) -> Bounds:
    low = ~a[1]
    return (low, low) if a[0] is a[1] else (low, ~a[0])


def _and(_: Any, __: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    if letter == "b" or (is_exact(a) and is_exact(b)):
        return a[0] & b[0], a[1] & b[1]
    if (a[0] >= 0).all() or (b[0] >= 0).all():
        tops = [one[1] for one in (a, b) if (one[0] >= 0).all()]
        return np.zeros_like(a[0]), functools.reduce(np.minimum, tops)
    return None


def _or(_: Any, __: int, letter: str, a: Bounds, b: Bounds) -> Bounds | None:
    if letter == "b" or (is_exact(a) and is_exact(b)):
        return a[0] | b[0], a[1] | b[1]
    return None


def _convert(equation: Any, _: int, letter: str, a: Bounds) -> Bounds | None:
    dtype = equation.outvars[0].aval.dtype
    if letter == "f":
        low, high = a[0].astype(np.float64), a[1].astype(np.float64)
        exact_low, exact_high = (one.astype(dtype).astype(np.float64) == one for one in (low, high))
        return rounding.widen((low, exact_low), (high, exact_high), dtype)
    if letter == "b":
        return _compare(lambda x, y: ~_equal(x, y) & _apart(x, y), _equal)(
            equation, 0, letter, a, (np.zeros_like(a[0]),) * 2
        )
    if a[0].dtype.kind != "f":
        low = a[0].astype(np.int64)
        return (low, low) if a[0] is a[1] else (low, a[1].astype(np.int64))
    if not (np.isfinite(a[0]).all() and np.isfinite(a[1]).all()):
        return None
    if max(np.abs(a[0]).max(initial=0), np.abs(a[1]).max(initial=0)) > 2.0**62:
        return None
    return np.trunc(a[0]).astype(np.int64), np.trunc(a[1]).astype(np.int64)


def _iota(equation: Any, _: int, letter: str, *__: Any) -> Bounds:
    shape, axis = equation.params["shape"], equation.params["dimension"]
    line = np.arange(shape[axis], dtype=np.float64 if letter == "f" else np.int64)
    full = np.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)
    return full, full


def _select(_: Any, __: int, ___: str, which: Bounds | None, *cases: Bounds | None) -> Bounds | None:
    low: Any = None
    high: Any = None
    for number, case in enumerate(cases):
        possible = True if which is None else (which[0] <= number) & (which[1] >= number)
        if not np.any(possible):
            continue
        if case is None:
            return None
        if low is None:
            low, high = case
            unsaid = ~np.asarray(possible)
            continue
        below = np.where(unsaid, case[0], np.minimum(low, case[0]))
        above = np.where(unsaid, case[1], np.maximum(high, case[1]))
        low, high = np.where(possible, below, low), np.where(possible, above, high)
        unsaid = unsaid & ~np.asarray(possible)
    return low, high


def _clamp(
    _: Any, __: int, ___: str, low: Bounds | None, a: Bounds | None, high: Bounds | None
) -> Bounds | None:
    if low is None or high is None:
        return None
    if a is None:
        return low[0], high[1]
    floor = np.minimum(np.maximum(a[0], low[0]), high[0])
    return floor, np.minimum(np.maximum(a[1], low[1]), high[1])


def _reduction(f: Callable[..., np.ndarray]) -> Rule:
    def rule(equation: Any, _: int, __: str, a: Bounds) -> Bounds:
        axes = tuple(equation.params["axes"])
        low = f(a[0], axis=axes)
        return (low, low) if a[0] is a[1] else (low, f(a[1], axis=axes))

    return rule


def _reduce_sum(equation: Any, _: int, letter: str, a: Bounds) -> Bounds:
    axes = tuple(equation.params["axes"])
    if letter != "f":
        low = a[0].sum(axis=axes)
        return (low, low) if a[0] is a[1] else (low, a[1].sum(axis=axes))
    count = math.prod(a[0].shape[axis] for axis in axes)
    room = (
        count * 4 * np.finfo(np.float32 if equation.outvars[0].aval.dtype != np.float64 else np.float64).eps
    )
    spread = room * np.maximum(np.abs(a[0]), np.abs(a[1])).sum(axis=axes)
    alone = ((a[0] != 0) | (a[1] != 0)).sum(axis=axes) <= 1
    spread = np.where(alone, 0.0, spread)
    return a[0].sum(axis=axes) - spread, a[1].sum(axis=axes) + spread


def _argument(equation: Any, _: int, __: str, a: Bounds | None) -> Bounds | None:
    if a is not None and is_exact(a):
        return None  # known numbers: JAX computes it
    (axis,) = equation.params["axes"]
    shape = equation.outvars[0].aval.shape
    top = equation.invars[0].aval.shape[axis] - 1
    return np.zeros(shape, np.int64), np.full(shape, top)


def _sort(equation: Any, output: int, _: str, *operands: Bounds | None) -> Bounds | None:
    one = operands[output]
    if one is None or all(other is not None and is_exact(other) for other in operands):
        return None
    axis = equation.params["dimension"]
    order = sorting_order(equation, operands)
    if order is not None:
        low = np.take_along_axis(one[0], order, axis)
        return low, low if one[0] is one[1] else np.take_along_axis(one[1], order, axis)
    shape = equation.outvars[output].aval.shape
    low, high = one[0].min(axis=axis, keepdims=True), one[1].max(axis=axis, keepdims=True)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def sorting_order(equation: Any, operands: Sequence[Bounds | None]) -> np.ndarray | None:
    """The order that known keys bring the other operands of a sort into, as with the bits of a random permutation."""
    params = equation.params
    axis, keys = params["dimension"], operands[: params["num_keys"]]
    known = [key[0] for key in keys if key is not None and is_exact(key)]
    if len(known) < len(keys):
        return None
    order: np.ndarray = np.lexsort(known[::-1], axis=axis)
    if params["is_stable"]:
        return order
    ranked = [np.take_along_axis(key, order, axis) for key in known]
    ties = np.logical_and.reduce([np.diff(key.astype(np.float64), axis=axis) == 0 for key in ranked])
    return None if ties.any() else order


def _top_k(equation: Any, output: int, _: str, a: Bounds | None) -> Bounds | None:
    if output == 0 or (a is not None and is_exact(a)):
        return None
    shape = equation.outvars[1].aval.shape
    top = equation.invars[0].aval.shape[equation.params.get("axis", -1)] - 1
    return np.zeros(shape, np.int64), np.full(shape, top)


def _gather(equation: Any, _: int, __: str, a: Bounds | None, *indices: Bounds | None) -> Bounds | None:
    if a is None:
        return None
    if any(one is None or not is_exact(one) for one in indices):
        if not a[0].size or not windows.stays_inside(equation):
            return None
        return np.asarray(a[0].min()), np.asarray(a[1].max())
    positions = windows.positions(equation, [one[0] for one in indices if one is not None])
    if (positions < 0).any():
        return None
    low = a[0].reshape(-1)[positions]
    return (low, low) if a[0] is a[1] else (low, a[1].reshape(-1)[positions])


_same = _both(lambda a: a)

PARTIAL = {"select_n", "clamp", "argmax", "argmin", "sort", "top_k", "gather", "dynamic_slice"}
"""Operations that can tell something although an operand is unknown."""

RULES: dict[str, Rule] = {
    "abs": _absolute,
    "add": _add,
    "add_any": _add,
    "and": _and,
    "argmax": _argument,
    "argmin": _argument,
    "ceil": _both(np.ceil),
    "clamp": _clamp,
    "convert_element_type": _convert,
    "copy": _same,
    "copy_p": _same,
    "div": _divide,
    "dynamic_slice": _gather,
    "eq": _compare(_equal, _apart),
    "floor": _both(np.floor),
    "gather": _gather,
    "ge": _compare(lambda a, b: a[0] >= b[1], lambda a, b: a[1] < b[0]),
    "gt": _compare(lambda a, b: a[0] > b[1], lambda a, b: a[1] <= b[0]),
    "iota": _iota,
    "le": _compare(lambda a, b: a[1] <= b[0], lambda a, b: a[0] > b[1]),
    "lt": _compare(lambda a, b: a[1] < b[0], lambda a, b: a[0] >= b[1]),
    "max": _both(np.maximum),
    "min": _both(np.minimum),
    "mul": _multiply,
    "ne": _compare(_apart, _equal),
    "neg": _negative,
    "not": _not,
    "or": _or,
    "reduce_and": _reduction(np.all),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "reduce_or": _reduction(np.any),
    "reduce_sum": _reduce_sum,
    "rem": _remainder,
    "select_n": _select,
    "sort": _sort,
    "square": _square,
    "stop_gradient": _same,
    "sub": _subtract,
    "top_k": _top_k,
    "xor": _known(np.bitwise_xor),
}

__all__ = ["PARTIAL", "RULES", "sorting_order"]
