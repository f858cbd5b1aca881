"""Grids that one walks on: maps as text, where each move leads, slipping sideways, and drawings."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Shaped

from chainrule.agents.envs.drawing import Circle, Drawing, Rectangle, Shape
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float

Cells: TypeAlias = Shaped[np.ndarray, "height width"]
"""One character a cell."""
UP, RIGHT, DOWN, LEFT = (-1, 0), (0, 1), (1, 0), (0, -1)
CELL = 32
"""Pixels of a cell in a drawing."""
_ROUNDING = 1e-6


def read_cells(rows: Sequence[str], known: Collection[str], where: str) -> Cells:
    """A map as an array of characters; it is refused where rows differ in length or a character has no meaning."""
    if not rows or not rows[0]:
        raise ArgumentError(f"{where}: the map is empty")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ArgumentError(
                f"{where}: row {number} has {len(row)} cells, the first one has {len(rows[0])}",
                remedy="fill it up with free cells",
            )
        for character in row:
            if character not in known:
                raise ArgumentError(
                    f"{where}: {character!r} in row {number} has no meaning",
                    remedy=f"known: {' '.join(known)}",
                )
    return np.array([list(row) for row in rows])


def moves(
    cells: Cells, directions: Sequence[tuple[int, int]], walls: str = ""
) -> Int[np.ndarray, "cells moves"]:
    """The cell that each move leads to from each cell, counted row by row; walls and the edge keep one where one is."""
    height, width = cells.shape
    rows, columns = np.mgrid[:height, :width]
    here = rows * width + columns
    found = []
    for down, right in directions:
        there = np.clip(rows + down, 0, height - 1), np.clip(columns + right, 0, width - 1)
        found.append(np.where(np.isin(cells[there], list(walls)), here, here[there]))
    return np.stack(found, -1).reshape(height * width, len(directions)).astype(np.int32)


def sideways(action: Array, count: int = 4) -> Int[Array, "3"]:
    """The directions one may go in when slipping: to the one side, as meant, to the other side."""
    return (action + jnp.arange(-1, 2)) % count


def slipping(share: Array | float) -> Float[Array, "3"]:
    """How likely each of the three is, where a share of all moves goes to either side."""
    side = jnp.asarray(share, jnp.float32) / 2
    ahead = 1 - 2 * side
    # Thirds are equal: a rounding between them would make one of equally good actions the better one.
    return jnp.stack([side, jnp.where(jnp.abs(ahead - side) < _ROUNDING, side, ahead), side])


def drawn_cells(cells: Cells, colors: Mapping[str, str]) -> list[Shape]:
    """The cells of a map in their colours; others are free."""
    return [
        Rectangle(CELL * column + 1, CELL * row + 1, CELL - 2, CELL - 2, colors.get(character, "grid"), 4)
        for (row, column), character in np.ndenumerate(cells)
    ]


def drawn_walker(cells: Cells, colors: Mapping[str, str], number: int, label: str) -> Drawing:
    """A map, and who walks on it."""
    height, width = cells.shape
    row, column = divmod(number, width)
    walker = Circle(CELL * (column + 0.5), CELL * (row + 0.5), 0.3 * CELL, "1")
    return Drawing(CELL * width, CELL * height, (*drawn_cells(cells, colors), walker), label)


__all__ = [
    "CELL",
    "DOWN",
    "LEFT",
    "RIGHT",
    "UP",
    "Cells",
    "drawn_cells",
    "drawn_walker",
    "moves",
    "read_cells",
    "sideways",
    "slipping",
]
