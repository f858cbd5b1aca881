"""Groups of the entries of an example: what one value of an explanation belongs to, and what it is called.

The columns of a table, each with all features that it became (words are one feature for each); the coordinates of a
point; square patches of an image; windows of a sequence.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int

from chainrule.core.formatting import number
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema

MOST = 64
"""Patches or windows, unless told otherwise."""


@final
@dataclass(frozen=True)
class Groups:
    """Which group each entry of an example belongs to, and the names of the groups."""

    names: tuple[str, ...]
    membership: Int[np.ndarray, " *shape"]
    """Numbers of groups, in the shape of one example."""

    def columns(self, group: int) -> np.ndarray:
        """Positions of the entries of a group in the flattened example."""
        return np.flatnonzero(self.membership.ravel() == group)

    @property
    def single(self) -> tuple[int, ...]:
        """The groups that are one entry each: quantities that can be moved along an axis."""
        counts = np.bincount(self.membership.ravel(), minlength=len(self.names))
        return tuple(int(group) for group in np.flatnonzero(counts == 1))

    def shown(self, raw: np.ndarray, data: Data) -> list[str]:
        """Names with the values of one raw example behind them, where these are short: "age = 41"."""
        cells: dict[str, str] = {}
        if data.reading is not None:
            heads, columns = data.reading.restored(np.asarray(raw, float).reshape(1, -1))
            cells = {
                head: value if isinstance(value := column[0], str) else number(float(value), 4)
                for head, column in zip(heads, columns, strict=True)
            }
        flat, found = np.asarray(raw).ravel(), []
        for group, name in enumerate(self.names):
            own = self.columns(group)
            cell = cells.get(name) or (number(float(flat[own[0]]), 4) if len(own) == 1 else "")
            found.append(f"{name} = {cell}" if cell else name)
        return found


def groups_of(data: Data, patch: int | None = None) -> Groups:
    """The groups of the examples of some data; `patch` is the side of patches, or the length of windows."""
    schema = data.schema
    if data.reading is not None and kinds.of(schema).has_rows:
        plans = [plan for plan in data.reading.columns if plan.features]
        sizes = [len(plan.features) for plan in plans]
        return Groups(tuple(plan.name for plan in plans), np.repeat(np.arange(len(plans)), sizes))
    if kinds.of(schema).spatial:
        return _patches(schema, patch)
    if len(schema.shape) > 1:
        return _windows(schema, patch)
    names = schema.columns or tuple(f"x{index}" for index in range(schema.dimensions))
    return Groups(tuple(names), np.arange(schema.dimensions))


def _patches(schema: Schema, patch: int | None) -> Groups:
    height, width, channels = schema.shape
    side = patch or max(1, int(np.ceil(np.sqrt(height * width / MOST))))
    rows, columns = np.arange(height) // side, np.arange(width) // side
    wide = int(columns[-1]) + 1
    cells = rows[:, None] * wide + columns[None, :]
    names = tuple(
        f"{_span('rows', row, side, height)}, {_span('columns', column, side, width)}"
        for row in range(int(rows[-1]) + 1)
        for column in range(wide)
    )
    return Groups(names, np.repeat(cells[..., None], channels, axis=2))


def _windows(schema: Schema, length: int | None) -> Groups:
    steps = schema.shape[0]
    size = length or max(1, int(np.ceil(steps / MOST)))
    which = np.arange(steps) // size
    names = tuple(_span("steps", index, size, steps) for index in range(int(which[-1]) + 1))
    return Groups(
        names, np.broadcast_to(which.reshape(-1, *[1] * (len(schema.shape) - 1)), schema.shape).copy()
    )


def _span(what: str, index: int, size: int, end: int) -> str:
    """The entries of one of several equal parts.

    >>> _span("steps", 1, 4, 7), _span("rows", 2, 1, 8)
    ('steps 4-6', 'row 2')
    """
    first, last = index * size, min((index + 1) * size, end) - 1
    return f"{what} {first}-{last}" if last > first else f"{what.removesuffix('s')} {first}"


__all__ = ["MOST", "Groups", "groups_of"]
