"""Tables of probabilities as users give them: checked once, at the public edge, in double precision on the host."""

from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError

TOLERANCE = 1e-6
"""How far a sum may be from one; what is nearer is rounding, and is divided out."""


def table(where: str, name: str, given: Any, axes: int | None = None) -> np.ndarray:
    """Probabilities that sum to one over all axes, divided by their sum to the last digit.

    `axes` is how many of them there have to be.

    >>> table("entropy", "p", [0.5, 0.4])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: entropy(p): sums to 0.9, which is 0.1 below 1
           divide counts by their sum: p / p.sum()
    """
    values = numbers(where, name, given, axes)
    total = values.sum()
    if not abs(total - 1) <= TOLERANCE:
        raise ArgumentError(
            f"{where}({name}): sums to {total:.6g}, which is {_off(total)}",
            remedy=f"divide counts by their sum: {name} / {name}.sum()",
        )
    return values / total


def rows(where: str, name: str, given: Any) -> np.ndarray:
    """A matrix whose rows are distributions, such as a channel: entry (x, y) is the probability of y given x.

    >>> rows("capacity", "channel", [[0.5, 0.5], [0.5, 0.6]])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: capacity(channel): row 1 sums to 1.1, which is 0.1 above 1
           divide rows by their sums: channel / channel.sum(axis=1, keepdims=True)
    """
    values = numbers(where, name, given, 2)
    totals = values.sum(axis=1)
    wrong = np.abs(totals - 1) > TOLERANCE
    if wrong.any():
        row = int(np.argmax(wrong))
        remedy = f"divide rows by their sums: {name} / {name}.sum(axis=1, keepdims=True)"
        if np.all(np.abs(values.sum(axis=0) - 1) <= TOLERANCE):
            remedy = f"its columns do sum to 1: pass the transpose, {name}.T"
        raise ArgumentError(
            f"{where}({name}): row {row} sums to {totals[row]:.6g}, which is {_off(totals[row])}",
            remedy=remedy,
        )
    return values / totals[:, None]


def numbers(where: str, name: str, given: Any, axes: int | None = None) -> np.ndarray:
    """Numbers that are neither negative nor missing, in float64, whatever they sum to: masses or counts.

    >>> numbers("entropy", "p", [1.5, -0.5])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: entropy(p): entry 1 is -0.5; a probability is never negative
    """
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}({name}): needs numbers, one row as long as the other") from None
    if not values.ndim or (axes is not None and values.ndim != axes):
        wanted = {1: "a vector", 2: "a matrix"}.get(axes or 1, f"a table of {axes} axes")
        raise ArgumentError(f"{where}({name}): needs {wanted}, not an array of shape {values.shape}")
    if not values.size:
        raise ArgumentError(f"{where}({name}): has no entries, shape {values.shape}")
    for wrong, rule in ((~np.isfinite(values), "a finite number"), (values < 0, "never negative")):
        if wrong.any():
            at = [int(index) for index in np.unravel_index(int(np.argmax(wrong)), values.shape)]
            raise ArgumentError(
                f"{where}({name}): entry {at[0] if len(at) == 1 else tuple(at)} is {values[tuple(at)]:g}; "
                f"a probability is {rule}"
            )
    return values


def _off(total: float) -> str:
    return f"{abs(total - 1):.3g} {'above' if total > 1 else 'below'} 1"


__all__ = ["TOLERANCE", "numbers", "rows", "table"]
