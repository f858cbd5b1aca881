"""Boards of stones: what tic-tac-toe, connect-four, gomoku and Go have in common.

A board is an array of 1 (a stone of the player who moves first), -1 (of the other) and 0. Cells are numbered row by
row from the upper left; people call them by a letter for the column and a number for the row, counted from below.
"""

import abc
import functools
import string
from typing import Generic, final

import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.drawing import Circle, Drawing, Line, Rectangle, Shape, Text
from chainrule.agents.games.base import AnyArray, Game, State, Symmetry
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int

COLUMNS = string.ascii_lowercase.replace("i", "")
"""Letters of columns, as on Go boards: without the one that reads like a digit."""
_CELL, _MARGIN = 32, 18
_STONES = {0: ".", 1: "X", -1: "O"}


class BoardGame(Game[State], Generic[State]):
    """A game whose state shows as stones on a board."""

    @property
    @abc.abstractmethod
    def board_shape(self) -> tuple[int, int]:
        """Height and width."""

    @abc.abstractmethod
    def stones(self, state: State) -> Int[AnyArray, "height width"]:
        """1 and -1 where a stone of the first and second player lies, else 0."""

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """Default: two planes."""
        return (*self.board_shape, 2)

    def observe(self, state: State, player: Int[Array, ""]) -> Float[Array, "height width planes"]:
        """Default: two planes, own stones and those of the other player."""
        own = self.stones(state) * (1 - 2 * player)
        return jnp.stack([own == 1, own == -1], -1).astype(jnp.float32)

    def draw(self, state: State) -> str:
        height, width = self.board_shape
        board = np.asarray(self.stones(state))
        rows = [
            f"{height - i:2} " + " ".join(_STONES[int(stone)] for stone in row) for i, row in enumerate(board)
        ]
        return "\n".join([*rows, "   " + " ".join(COLUMNS[:width])])

    @final
    def render(self, state: State, heat: Float[Array, "height width"] | np.ndarray | None = None) -> Drawing:
        """The board as a drawing; `heat`, a number from 0 to 1 for each cell, shades it (visits of a search)."""
        height, width = self.board_shape
        board = np.asarray(self.stones(state))
        shapes: list[Shape] = [
            Line(((_MARGIN + x * _CELL, _MARGIN), (_MARGIN + x * _CELL, _MARGIN + height * _CELL)), "axis", 1)
            for x in range(width + 1)
        ]
        shapes += [
            Line(((_MARGIN, _MARGIN + y * _CELL), (_MARGIN + width * _CELL, _MARGIN + y * _CELL)), "axis", 1)
            for y in range(height + 1)
        ]
        for (y, x), stone in np.ndenumerate(board):
            left, top = _MARGIN + x * _CELL, _MARGIN + y * _CELL
            if heat is not None and heat[y, x] > 0:
                shapes.append(Rectangle(left, top, _CELL, _CELL, "3", opacity=float(min(heat[y, x], 1.0))))
            if stone:
                color = "1" if stone > 0 else "2"
                shapes.append(Circle(left + _CELL / 2, top + _CELL / 2, 0.38 * _CELL, color))
        for x in range(width):
            middle = _MARGIN + (x + 0.5) * _CELL
            shapes.append(Text(middle, 1.5 * _MARGIN + height * _CELL, COLUMNS[x], "soft", size=11))
        for y in range(height):
            middle = _MARGIN + (y + 0.5) * _CELL
            shapes.append(Text(_MARGIN / 2, middle, str(height - y), "soft", size=11))
        size = 2 * _MARGIN + width * _CELL, 2 * _MARGIN + height * _CELL
        return Drawing(*size, tuple(shapes), f"{self.name}, {int((board != 0).sum())} stones")


def cell_name(cell: int, shape: tuple[int, int]) -> str:
    """The letter of the column and the number of the row, from below.

    >>> cell_name(0, (3, 3)), cell_name(8, (3, 3))
    ('a3', 'c1')
    """
    row, column = divmod(cell, shape[1])
    return f"{COLUMNS[column]}{shape[0] - row}"


def square_symmetries(size: int, more: int = 0) -> tuple[Symmetry, ...]:
    """The eight ways of laying a square board; actions are its cells, and `more` that stay as they are."""
    grid = np.arange(size * size).reshape(size, size)
    turned = [np.rot90(side, k).reshape(-1) for side in (grid, grid.T) for k in range(4)]
    rest = np.arange(size * size, size * size + more)
    return tuple(Symmetry(cells, np.concatenate([cells, rest])) for cells in turned)


@functools.cache
def rows_of(shape: tuple[int, int], length: int) -> np.ndarray:
    """All rows of `length` cells, across, down and aslant: numbers of cells, one row of the result each."""
    height, width = shape
    found = []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        for y in range(height):
            for x in range(width):
                cells = [(y + k * dy, x + k * dx) for k in range(length)]
                if all(0 <= i < height and 0 <= j < width for i, j in cells):
                    found.append([i * width + j for i, j in cells])
    return np.array(found)


def row_winner(board: Int[Array, " cells"], rows: np.ndarray) -> Int[Array, ""]:
    """Whose stones fill a row: 1, -1, or 0 for nobody's."""
    sums = board[rows].astype(jnp.int32).sum(1)
    length = rows.shape[1]
    return (sums == length).any().astype(jnp.int32) - (sums == -length).any().astype(jnp.int32)


def win_rewards(winner: Int[Array, ""] | Float[Array, ""]) -> Float[Array, "2"]:
    """What a game is worth to both players, from who has won it."""
    won = winner.astype(jnp.float32)
    return jnp.stack([won, 0 - won])


def check_size(game: str, size: int, least: int, most: int) -> None:
    """Refuse boards that a game is not played on."""
    if not least <= size <= most:
        raise ArgumentError(f"{game}(size={size}): size must lie between {least} and {most}")


__all__ = [
    "COLUMNS",
    "BoardGame",
    "cell_name",
    "check_size",
    "row_winner",
    "rows_of",
    "square_symmetries",
    "win_rewards",
]
