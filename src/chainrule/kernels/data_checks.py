"""Checks of data before a machine on a kernel learns from them: each fault is named with its place and the way out.

Faults that make an answer impossible are errors (`DataError`, `ArgumentError`); data from which a kernel learns badly
are worth a warning. Every function takes what a user gave and hands on double precision.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.core.formatting import short_number

UNLIKE = 1e3
"""How many times wider one column may range than another before it is said."""

Rows = Float[np.ndarray, "rows features"]


def checked_points(where: str, name: str, values: Any, features: int | None = None) -> Rows:
    """Points as rows of finite numbers in double precision; a vector holds points of one coordinate.

    >>> checked_points("fit", "x", [0.0, 1.0]).shape
    (2, 1)
    >>> checked_points("fit", "x", [[0.0, float("nan")]])
    Traceback (most recent call last):
    chainrule.core.errors.DataError: fit(x): row 0, column 1 is nan; numbers must be finite
           leave the row out, or fill the gap with the mean of its column
    >>> checked_points("predict", "x", np.zeros((3, 5)), features=3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: predict(x): expected (n, 3), got (3, 5): transpose it
    """
    exact = _numbers(where, name, values)
    if exact.ndim == 1:
        exact = exact[:, None]
    if exact.ndim != 2:
        raise ArgumentError(
            f"{where}({name}): points are the rows of a matrix, not an array of shape {exact.shape}",
            remedy=f"flatten them: {name}.reshape(len({name}), -1)" if exact.ndim > 2 else "",
        )
    if features is not None and exact.shape[1] != features:
        turned = ": transpose it" if exact.shape[0] == features else ""
        raise ArgumentError(f"{where}({name}): expected (n, {features}), got {exact.shape}{turned}")
    return _finite(where, name, exact)


def checked_targets(where: str, name: str, values: Any, rows: int) -> Float[np.ndarray, " rows *outputs"]:
    """Finite targets, one number or several for each row.

    >>> checked_targets("fit", "y", [1.0, 2.0], 3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: fit(y): 2 targets for 3 points; each point needs one
    """
    exact = _numbers(where, name, values)
    if exact.ndim not in (1, 2):
        raise ArgumentError(f"{where}({name}): targets are a vector or a matrix, not of shape {exact.shape}")
    if len(exact) != rows:
        turned = f"transpose it: {name}.T" if exact.ndim == 2 and exact.shape[1] == rows else ""
        raise ArgumentError(
            f"{where}({name}): {len(exact)} targets for {rows} points; each point needs one", remedy=turned
        )
    if not rows:
        raise DataError(f"{where}: there are no points to learn from")
    return _finite(where, name, exact)


def _numbers(where: str, name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{where}({name}): not an array of numbers",
            remedy="rows must have one length, and words must become numbers first",
        ) from None


def _finite(where: str, name: str, exact: np.ndarray) -> np.ndarray:
    wrong = np.argwhere(~np.isfinite(exact))
    if len(wrong):
        first = tuple(int(i) for i in wrong[0])
        column = f", column {first[1]}" if len(first) > 1 else ""
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(
            f"{where}({name}): row {first[0]}{column} is {exact[first]:g}{more}; numbers must be finite",
            remedy="leave the row out, or fill the gap with the mean of its column",
        )
    return exact


def checked_cross_gram(
    where: str, name: str, values: Any, training: int
) -> Float[np.ndarray, "new training"]:
    """Kernels of new points with the training points: a row for each new one.

    >>> checked_cross_gram("predict", "K", np.zeros((412, 5)), 412)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: predict(K): expected (n_test, 412), got (412, 5): transpose it
    """
    exact = _numbers(where, name, values)
    if exact.ndim != 2 or exact.shape[1] != training:
        turned = ": transpose it" if exact.ndim == 2 and exact.shape[0] == training else ""
        raise ArgumentError(f"{where}({name}): expected (n_test, {training}), got {exact.shape}{turned}")
    return _finite(where, name, exact)


def one_of_two(where: str, x: Any, gram: Any) -> None:
    """Raise unless either new points are given, or their kernels with the training points."""
    if (x is None) == (gram is None):
        raise ArgumentError(
            f"{where}: give new points x, or gram, the kernels of new points with the training points"
        )


def warn_of_columns(where: str, x: Rows, *, scales: int = 1, columns: Sequence[str] = ()) -> None:
    """Warn of columns that are constant although each has a scale of its own, and of ranges that differ a thousandfold.

    `scales` is how many scales the kernel has; `columns` are names to call them by.
    """
    if x.shape[1] < 2 or len(x) < 2:
        return
    ranges = np.ptp(x, axis=0)
    constant = np.flatnonzero(ranges == 0)
    if scales > 1 and len(constant):
        first = [_column(columns, int(i)) for i in constant[:3]]
        more = f" and {len(constant) - 3} more" if len(constant) > 3 else ""
        warnings.warn(
            f"{where}: {', '.join(first)}{more} never changes, so that nothing can be learnt about its scale; "
            "leave it out",
            ChainruleWarning,
            stacklevel=3,
        )
    varying = np.flatnonzero(ranges > 0)
    if scales > 1 or len(varying) < 2:  # with a scale for every column, units do not matter
        return
    wide, narrow = varying[np.argmax(ranges[varying])], varying[np.argmin(ranges[varying])]
    if ranges[wide] > UNLIKE * ranges[narrow]:
        warnings.warn(
            f"{where}: {_column(columns, int(wide))} ranges over {short_number(ranges[wide])} and "
            f"{_column(columns, int(narrow))} over {short_number(ranges[narrow])}: distances see the first alone. "
            "Standardise the columns, (x - x.mean(0)) / x.std(0), or give every column a scale",
            ChainruleWarning,
            stacklevel=3,
        )


def _column(names: Sequence[str], index: int) -> str:
    return f"column {names[index]!r}" if index < len(names) else f"column {index}"


def refuse_contradictions(
    where: str,
    x: Rows,
    y: Float[np.ndarray, " rows *outputs"],
    remedy: str = "give the noise a positive variance",
) -> None:
    """Refuse equal points with different targets: no function passes through both, so that some noise is needed.

    >>> refuse_contradictions("fit", np.array([[1.0], [2.0], [1.0]]), np.array([0.0, 0.0, 1.0]))
    Traceback (most recent call last):
    chainrule.core.errors.DataError: fit: rows 0 and 2 are the same point with targets 0 and 1; without noise no ...
           give the noise a positive variance, or leave one of the rows out
    """
    order = np.lexsort(x.T[::-1])
    same = (x[order[1:]] == x[order[:-1]]).all(axis=1)
    apart = (y[order[1:]] != y[order[:-1]]).reshape(len(same), -1).any(axis=1)
    found = np.flatnonzero(same & apart)
    if len(found):
        first, second = sorted((int(order[found[0]]), int(order[found[0] + 1])))
        said = [", ".join(short_number(float(v)) for v in np.atleast_1d(y[i])[:3]) for i in (first, second)]
        raise DataError(
            f"{where}: rows {first} and {second} are the same point with targets {said[0]} and {said[1]}; without "
            "noise no function passes through both",
            remedy=f"{remedy}, or leave one of the rows out",
        )


__all__ = [
    "checked_cross_gram",
    "checked_points",
    "checked_targets",
    "one_of_two",
    "refuse_contradictions",
    "warn_of_columns",
]
