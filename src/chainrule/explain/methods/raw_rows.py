"""Rows of splits in raw units, as functions of raw examples take them."""

from typing import NamedTuple

import numpy as np

from chainrule.data.splits import Split
from chainrule.explain.methods.chosen_rows import chosen_rows
from chainrule.train import Run

_DIGITS = 6


class RawRows(NamedTuple):
    """Examples in raw units, their targets as the split keeps them, and their numbers in the split."""

    x: np.ndarray
    y: np.ndarray
    """Empty where there are none."""
    numbers: np.ndarray


def raw_rows(run: Run, split: Split, rows: str | int) -> RawRows:
    """The rows that are asked for: "0:64", or so many, spread evenly over the split."""
    if isinstance(rows, str):
        which = chosen_rows(rows, len(split))
    else:
        which = np.unique(np.linspace(0, len(split) - 1, min(rows, len(split))).astype(int))
    batch = split.batch(which)
    raw = np.asarray(run.scaling.inverse(np.asarray(batch.x, np.float64)))
    unit = np.abs(run.scaling.shift) + 1 / np.abs(run.scaling.factor)
    raw = _rounded(raw, np.broadcast_to(unit, raw.shape[1:]))
    y = np.asarray(batch.y) if isinstance(batch.y, np.ndarray) else np.zeros(0)
    return RawRows(raw, y, which)


def _rounded(raw: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Six digits of the largest value of each entry: what scaling and its inverse leave of the numbers in a table.

    `unit` is what such values are like, for rows that happen to hold nothing as large.

    >>> _rounded(np.array([[28.0000013, 2e-7], [60.0, 3e-8]]), np.array([40.0, 1.0])).tolist()
    [[28.0, 0.0], [60.0, 0.0]]
    """
    largest = np.maximum(np.abs(raw).max(axis=0, initial=0.0), np.abs(unit))
    step = 10.0 ** (np.ceil(np.log10(np.where(largest > 0, largest, 1.0))) - _DIGITS)
    return np.asarray(np.rint(raw / step[None]) * step[None], np.float32)


__all__ = ["RawRows", "raw_rows"]
