"""Series to go on from: files, data frames and arrays, in the units of the training series."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.inputs import arrays, frames, sounds, tables
from chainrule.data.inputs.protocol import Given, Preparation
from chainrule.data.loading.problems import Problem
from chainrule.data.scaling import Scaling


class History(NamedTuple):
    """A series that has been seen."""

    name: str
    """Empty where there is only one."""
    x: Float[np.ndarray, "past features"]
    """Its last steps, in model units."""
    length: int
    """How many steps were given."""


def histories(given: Given, prepared: Preparation) -> list[History]:
    """One series of numbers (steps, or steps × features), or several of one length (series × steps × features).

    Of each the last steps are kept, as many as a training example has: more than that a model has never seen.
    """
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        found = _file(path, prepared)
    elif isinstance(given, frames.Frame):
        found = _frame(given, prepared)
    else:
        found = arrays.as_array(given)
    window, features = prepared.schema.shape
    several = found.ndim == 3
    shaped = found if several else (found[:, None] if found.ndim == 1 else found)[None]
    if shaped.ndim != 3 or shaped.shape[2] != features:
        raise ArgumentError(
            f"an array of shape {'×'.join(map(str, found.shape))}: the run was trained on series of {features} "
            f"number{'s' * (features != 1)} a step",
            remedy=f"give (steps, {features}), one row a step",
        )
    return [history(str(index) if several else "", one, prepared, window) for index, one in enumerate(shaped)]


def _file(path: Path, prepared: Preparation) -> np.ndarray:
    """The numbers of a NumPy file, a sound or a table."""
    ending = path.suffix.lower()
    if ending == ".wav":
        return sounds.read(path)
    return arrays.read_file(path)[0].x if ending in (".npy", ".npz") else _table(path, prepared)


def _table(path: Path, prepared: Preparation) -> Float[np.ndarray, "steps features"]:
    """The rows of a file as the steps of a series; NaN where a row cannot be read."""
    reading, _ = tables.reading_for(prepared)
    found = []
    for piece in tables.pieces(path, reading, prepared):
        cells = [row for row in piece.rows if not isinstance(row, Problem)]
        x = np.full((len(piece.rows), len(reading.features)), np.nan)
        x[[not isinstance(row, Problem) for row in piece.rows]] = reading.encode(piece.columns, cells).x
        found.append(x)
    return np.concatenate(found)


def _frame(given: frames.Frame, prepared: Preparation) -> Float[np.ndarray, "steps features"]:
    reading, _ = tables.reading_for(prepared)
    columns = frames.columns_of(given)
    rows = [list(row) for row in zip(*map(frames.cells, columns.values()), strict=True)]
    return reading.encode(list(columns), rows).x


def history(name: str, x: np.ndarray, prepared: Preparation, window: int) -> History:
    """The last steps of a series in the units of the data as a model sees them."""
    last = np.asarray(x[-window:], np.float64)
    bad = np.flatnonzero(~np.isfinite(last).all(axis=1))
    if len(bad):
        step = len(x) - len(last) + int(bad[0]) + 1
        raise DataError(
            f"step {step:,} of {len(x):,} is missing or no number: a series cannot be gone on from over a gap",
            remedy="fill the gap, or give what comes after it",
        )
    return History(name, of_steps(prepared.scaling).apply(last).astype(np.float32), len(x))


def of_steps(scaling: Scaling) -> Scaling:
    """The scaling of a single step: that of sequences is the same in each.

    >>> of_steps(Scaling(np.full((64, 2), 3.0), 1.0)).shift.tolist()
    [3.0, 3.0]
    """
    shift, factor = (np.asarray(one) for one in (scaling.shift, scaling.factor))
    return Scaling(shift[0] if shift.ndim else shift, factor[0] if factor.ndim else factor)


__all__ = ["History", "histories", "history", "of_steps"]
