"""Inputs and backgrounds of explanations, checked before anything is computed: numbers, columns, groups, ranges."""

import warnings
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning, suggest
from chainrule.data.inputs.frames import Frame
from chainrule.data.reading import TableReading
from chainrule.explain.methods.shapley.maskers.masker import Groups, GroupsByName, Masker

_SHOWN = 5


def frame_columns(x: Any, background: Any) -> tuple[str, ...] | None:
    """Names of the columns of data frames, which have to be those of both; nothing for arrays."""
    named = [tuple(map(str, one.columns)) for one in (x, background) if isinstance(one, Frame)]
    if len(named) == 2 and named[0] != named[1]:
        ours, theirs = (", ".join(one for one in a if one not in b) for a, b in (named, named[::-1]))
        lists = [
            f"{words}: {one}"
            for words, one in (("x alone has", ours), ("background alone has", theirs))
            if one
        ]
        raise ArgumentError(
            f"shapley: columns of x and of the background differ; {'; '.join(lists) or 'they stand in another order'}",
            remedy="give both the same columns: background[x.columns]",
        )
    return named[0] if named else None


def numbered(groups: GroupsByName, columns: Sequence[str] | None) -> Groups:
    """Groups by numbers of columns, where some are given by name.

    >>> numbered({"colour": ["red", 2]}, ["age", "red", "blue"])
    {'colour': [1, 2]}
    """
    if groups is None:
        return None
    known = list(columns or ())

    def number(title: str, column: int | str) -> int:
        if not isinstance(column, str):
            return column
        if column not in known:
            raise ArgumentError(
                f"shapley: group {title!r} has column {column!r}, which the inputs do not have{suggest(column, known)}",
                remedy="number columns from 0, or give names=, or data frames whose columns have names",
            )
        return known.index(column)

    return {title: [number(title, one) for one in members] for title, members in groups.items()}


def numbers(name: str, given: Any) -> np.ndarray:
    """An array of numbers in the precision of the program."""
    array = np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise ArgumentError(
            f"shapley: {name} holds values of type {array.dtype}, which are not numbers",
            remedy="encode categories as numbers, one column each, and group them: groups={'colour': [2, 3, 4]}",
        )
    if array.ndim and not len(array):
        raise ArgumentError(
            f"shapley: {name} has shape {array.shape}, there is nothing in it", remedy="give at least one row"
        )
    return (
        array.astype(jnp.result_type(float))
        if array.dtype.kind == "b" or array.dtype == np.float64
        else array
    )


def check_finite_rows(name: str, rows: np.ndarray) -> None:
    """Raise at the first number that is missing; `rows` have a batch axis."""
    bad = np.argwhere(~np.isfinite(rows))
    if bad.size:
        at = ", ".join(str(i) for i in bad[0][1:])
        raise ArgumentError(
            f"shapley: {name} holds {rows[tuple(bad[0])]} in row {bad[0][0]}, entry {at}",
            remedy="fill missing values first, as the model was trained to see them",
        )


def check_marks(name: str, rows: np.ndarray, reading: TableReading) -> None:
    """Raise where columns of words hold what no word becomes, such as a share; `rows` are features of a table."""
    start = 0
    for plan in reading.columns:
        own = np.arange(start, start + len(plan.features))
        start += len(own)
        if not own.size or rows.ndim != 2 or start > rows.shape[1]:
            continue
        for row in np.flatnonzero(plan.impossible(rows[:, own]))[:1].tolist():
            held = ", ".join(f"{value:g}" for value in rows[row, own][:_SHOWN].tolist())
            raise ArgumentError(
                f"shapley: {name} holds {held} in row {row} of the column {plan.name!r}, which no cell of it becomes",
                remedy=f"its features are {', '.join(plan.features[:_SHOWN])}: 1 for the word of the row, 0 elsewhere",
            )


def warn_outside(x: np.ndarray, rows: np.ndarray, masker: Masker) -> None:
    """Say which features of tables lie where no background row does."""
    if len(rows) < 2 or x.ndim != 2:
        return
    outside = ((x < rows.min(axis=0)[None]) | (x > rows.max(axis=0)[None])).any(axis=0)
    if outside.any():
        players = np.unique(np.asarray(masker.owners)[outside])
        listed = ", ".join(masker.names[i] for i in players[:_SHOWN])
        more = f" and {len(players) - _SHOWN} more" if len(players) > _SHOWN else ""
        warnings.warn(
            f"shapley: inputs lie outside of the range of the background in {listed}{more}; "
            "the function is asked about mixtures it may never have seen",
            ChainruleWarning,
            stacklevel=5,
        )


__all__ = ["check_finite_rows", "check_marks", "frame_columns", "numbered", "numbers", "warn_outside"]
