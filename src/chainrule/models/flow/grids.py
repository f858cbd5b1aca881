"""Columns whose values lie on a grid: whole numbers, numbers of few decimals, zeros and ones.

A density of numbers that only take some values could grow without limit, column by column: a spike on each of them.
Columns of a table that repeat their values are looked at here. Where these are equally spaced, noise over the space
between two fills it, in training and in scores, and draws are rounded back; where they are not, the column is refused.
So is one that other columns give by a sum: all rows lie on a plane then, where a density has no limit either.
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.core.quoting import plain, shell_word
from chainrule.data import kinds
from chainrule.data.dataset import Data

_REPEATED = 0.5
"""Columns with more distinct values than this share of the rows are continuous."""
_FEW = 256
"""Distinct values of a column that is no grid of decimals, up to which it may be another one, or is refused."""
_OFTEN = 20
"""Rows to each distinct value, from which on a column without a grid counts as discrete."""
_DECIMALS = 7
_SAME = 0.02
"""How far from a point of the grid values may lie, in gaps: they were scaled in single precision."""
_COUNTED = 0.3
"""Error of a number of gaps up to which it is that whole number."""
_ROWS, _NUMBERS = 100_000, 2**22
"""Rows, and numbers, that are looked at at most."""
_ROUNDING = 1e-6
"""Of values in the units of the model."""
_GIVEN = 1e-4
"""What the columns before leave of a column that they give, as a share of its deviation: some of it is rounding."""
_SPARE = 10
"""Rows beyond as many as there are columns, from which on that is no chance."""
_PART = 1e-3
"""Coefficients of standardised columns below this are none."""

Column = Float[np.ndarray, " rows"]


class ColumnGrid(NamedTuple):
    """Equally spaced values."""

    first: float
    gap: float


def column_grid(values: Column, rounding: float) -> ColumnGrid | None:
    """The grid on which all values lie, up to their rounding; none where there is none, or no value comes again.

    >>> column_grid(np.array([3.0, 5.0, 3.0, 9.0, 5.0, 3.0, 3.0, 5.0]), 1e-6)
    ColumnGrid(first=3.0, gap=2.0)
    >>> column_grid(np.array([0.1, 0.25, 0.7]), 1e-6) is None
    True
    """
    distinct = np.unique(values)
    if len(distinct) < 2 or len(distinct) > _REPEATED * len(values):
        return None
    for decimals in range(_DECIMALS):
        scaled = distinct * 10.0**decimals
        whole = np.rint(scaled)
        if rounding * 10.0**decimals > _SAME:
            break
        if np.abs(scaled - whole).max() < _SAME:
            steps = np.diff(np.unique(whole).astype(np.int64))
            gap = int(np.gcd.reduce(steps)) if len(steps) else 1
            return ColumnGrid(float(whole[0]) / 10.0**decimals, gap / 10.0**decimals)
    return _other_grid(distinct, rounding)


def _other_grid(distinct: Column, rounding: float) -> ColumnGrid | None:
    """One that is no grid of decimals, such as shares of 255."""
    span, least = float(distinct[-1] - distinct[0]), float(np.diff(distinct).min())
    if len(distinct) > _FEW or span * rounding > _COUNTED * least**2:
        return None  # too many, or too close to each other, to be counted
    gap = span / round(span / least)
    multiples = (distinct - distinct[0]) / gap
    spaced = np.abs(multiples - np.rint(multiples)).max() < _SAME
    return ColumnGrid(float(distinct[0]), gap) if spaced else None


def measured(data: Data) -> tuple[tuple[float, float], ...]:
    """First value and gap of every column in the units of the model, gap 0 for continuous ones; empty without any.

    A warning names the columns that will be filled with noise. Columns of few values without a grid are an error.
    """
    schema = data.schema
    if schema.levels:
        return ()
    most = min(len(data.train), _ROWS, max(2, _NUMBERS // schema.dimensions))
    rows = np.unique(np.linspace(0, len(data.train) - 1, most).astype(int))
    x = np.asarray(data.train.batch(rows).x, np.float64)
    kind = "entry" if len(schema.shape) == 1 else "channel"
    names = schema.columns or tuple(f"{kind} {j}" for j in range(schema.shape[-1]))
    for name, values in zip(names, x.reshape(-1, schema.shape[-1]).T, strict=True):
        _refuse_constant(data, name, values)
    if len(schema.shape) != 1:
        _refuse_levels(data, x)
        return ()
    shift, factor = (
        np.broadcast_to(np.asarray(one, np.float64), schema.shape)
        for one in (data.scaling.shift, data.scaling.factor)
    )
    raw = x / factor[None] + shift[None]
    found = [column_grid(raw[:, j], _ROUNDING / abs(factor[j])) for j in range(raw.shape[1])]
    for name, grid, column in zip(names, found, raw.T, strict=True):
        _refuse_few(name, grid, column)
    free = [j for j, grid in enumerate(found) if grid is None]
    _refuse_given(data, [names[j] for j in free], x[:, free])
    noisy = [f"{plain(name)} ({grid.gap:g})" for name, grid in zip(names, found, strict=True) if grid]
    if not noisy:
        return ()
    shown = ", ".join(noisy[:6]) + (f" and {len(noisy) - 6} more" if len(noisy) > 6 else "")
    warnings.warn(
        f"values of {shown} are equally spaced and come again: their density could grow without limit, so noise as "
        "wide as the space between two, in brackets, fills it, and likelihoods are bounds",
        ChainruleWarning,
        stacklevel=2,
    )
    placed = [
        (0.0, 0.0) if one is None else ((one.first - a) * f, one.gap * f)
        for one, a, f in zip(found, shift, factor, strict=True)
    ]
    return tuple((float(first), float(gap)) for first, gap in placed)


def _refuse_constant(data: Data, name: str, values: Column) -> None:
    """What is the same in all training examples: all of them could be put on it, as densely as one likes."""
    if len(data.train) > 1 and np.ptp(values) == 0:
        column = bool(data.schema.columns)
        raise DataError(
            f"{f'column {plain(name)!r}' if column else name} is the same in all training examples: no density of it "
            "has a limit",
            remedy=f"leave it out: data.drop={shell_word(name)}" if column else "leave it out of the arrays",
        )


def _refuse_few(name: str, grid: ColumnGrid | None, column: Column) -> None:
    distinct = len(np.unique(column))
    if grid is None and distinct <= _FEW and len(column) >= _OFTEN * distinct:
        word = shell_word(name)
        raise DataError(
            f"column {plain(name)!r} has {distinct} distinct values in {len(column):,} rows, at unequal distances: no "
            "density of it has a limit",
            remedy=f"leave it out: data.drop={word}   or tell it to the flow: data.target={word} conditional=true",
        )


def _refuse_given(data: Data, names: list[str], x: Float[np.ndarray, "rows columns"]) -> None:
    """A column that is a sum of multiples of others: a plane, on which all rows could be as dense as one likes."""
    count, size = x.shape
    if size < 2 or count < size + _SPARE:
        return
    unit = (x - x.mean(axis=0)) / x.std(axis=0)
    left = np.abs(np.diagonal(np.linalg.qr(unit, mode="r"))) / math.sqrt(count)
    if left.min() >= _GIVEN:
        return
    last = int(np.argmax(left < _GIVEN))
    parts = np.linalg.lstsq(unit[:, :last], unit[:, last], rcond=None)[0]
    columns = bool(data.schema.columns)
    others = [f"{plain(names[j])!r}" if columns else names[j] for j in np.flatnonzero(abs(parts) > _PART)]
    shown = ", ".join(others[:6]) + (f" and {len(others) - 6} more" if len(others) > 6 else "")
    raise DataError(
        f"{f'column {plain(names[last])!r}' if columns else names[last]} is a sum of multiples of {shown}, up to "
        f"{left[last]:.1g} of its deviation: no density of all of them has a limit",
        remedy=f"leave it out: data.drop={shell_word(names[last])}"
        if columns
        else "leave it out of the arrays",
    )


def _refuse_levels(data: Data, x: np.ndarray) -> None:
    """Images of numbers between 0 and 1 that are levels in fact."""
    if not kinds.of(data.schema).in_unit_interval(data.schema):
        return
    distinct = np.unique(x)
    grid = _other_grid(distinct, _ROUNDING) if len(distinct) > 1 else None
    levels = 0 if grid is None else round(1 / grid.gap) + 1
    if grid is not None and math.isclose((levels - 1) * grid.gap, 1, rel_tol=_SAME):
        raise ArgumentError(
            f"these images hold {len(distinct)} distinct numbers, shares of {levels - 1}: no density of them has a "
            "limit",
            remedy=f"give them as the whole numbers they were, 0 to {levels - 1}: data.levels={levels}",
        )


__all__ = ["ColumnGrid", "column_grid", "measured"]
