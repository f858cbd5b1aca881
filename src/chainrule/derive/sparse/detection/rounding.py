"""Rounding of bounds: exact results stay exact, rounded ones get room for rounding.

Compilers may fuse a product with a sum, or divide by multiplying with a reciprocal, so a rounded number is known only
up to a few units in the last place. A result that needs no rounding (found with error-free transformations, Dekker
1971) is the same however it is computed.
"""

from typing import Any

import numpy as np

from chainrule.derive.sparse.detection.kinds import Bounds

_ROOM = 4
"""Units in the last place by which correct ways of computing a number may differ."""


def add(a: Bounds, b: Bounds, dtype: Any) -> Bounds:
    """Sums."""
    low = _sum(a[0], b[0], dtype)
    return widen(low, low if a[0] is a[1] and b[0] is b[1] else _sum(a[1], b[1], dtype), dtype)


def multiply(a: Bounds, b: Bounds, dtype: Any) -> Bounds:
    """Products; zero times anything is zero."""
    if a[0] is a[1] and b[0] is b[1]:
        both = _product(a[0], b[0], dtype)
        return widen(both, both, dtype)
    corners = [_product(x, y, dtype) for x in a for y in b]
    low = np.minimum.reduce([np.broadcast_arrays(*c)[0] for c in corners])
    high = np.maximum.reduce([np.broadcast_arrays(*c)[0] for c in corners])
    exact = np.logical_and.reduce([np.broadcast_arrays(*c)[1] for c in corners])
    return widen((low, exact), (high, exact), dtype)


def divide(a: Bounds, b: Bounds, dtype: Any) -> Bounds | None:
    """Quotients; unknown if the divisor may be zero."""
    if not ((b[0] > 0) | (b[1] < 0)).all():
        return None
    corners = [x / y for x in a for y in b]
    low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
    exact = ((low == 0) & (high == 0)) | _is_power_of_two(b)
    return widen((low, exact), (high, exact), dtype)


def widen(low: tuple[Any, Any], high: tuple[Any, Any], dtype: Any) -> Bounds:
    """Bounds from (number, whether it is exact) pairs."""
    info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else _small_float(dtype)
    made = []
    for (number, exact), sign in ((low, -1.0), (high, 1.0)):
        number = np.asarray(number, dtype=np.float64)
        exact = np.asarray(exact) | ~np.isfinite(number)
        room = _ROOM * float(info.eps) * np.abs(number) + float(info.smallest_subnormal)
        made.append(number if exact.all() else np.where(exact, number, number + sign * room))
    return (made[0], made[0]) if low is high and made[0] is made[1] else (made[0], made[1])


def _small_float(dtype: Any) -> Any:
    import ml_dtypes  # comes with JAX; knows bfloat16 and its like

    return ml_dtypes.finfo(dtype)


def _sum(a: np.ndarray, b: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    total = a + b
    virtual = total - a
    error = (a - (total - virtual)) + (b - virtual)
    return total, (error == 0) & _fits(total, dtype)


def _product(a: np.ndarray, b: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    product = np.where((a == 0) | (b == 0), 0.0, a * b)
    ah, al = _halves(a)
    bh, bl = _halves(b)
    error = al * bl - (((product - ah * bh) - al * bh) - ah * bl)
    return product, (product == 0) & ((a == 0) | (b == 0)) | (error == 0) & _fits(product, dtype) & (
        product != 0
    )


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    big = a * 134217729.0  # 2**27 + 1
    high = big - (big - a)
    return high, a - high


def _fits(number: np.ndarray, dtype: Any) -> Any:
    return True if np.dtype(dtype) == np.float64 else number.astype(dtype).astype(np.float64) == number


def _is_power_of_two(b: Bounds) -> Any:
    return (b[0] == b[1]) & (np.frexp(np.abs(b[0]))[0] == 0.5)


__all__ = ["add", "divide", "multiply", "widen"]
