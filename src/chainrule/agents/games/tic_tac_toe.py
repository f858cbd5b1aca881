"""Tic-tac-toe: three in a row on a board of three by three. With best play nobody wins."""

from typing import NamedTuple, final

import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.agents.games.base import AnyArray, Symmetry
from chainrule.agents.games.boards import (
    BoardGame,
    cell_name,
    row_winner,
    rows_of,
    square_symmetries,
    win_rewards,
)
from chainrule.core.types import Array, Float, Int

_SHAPE = (3, 3)
_ROWS = rows_of(_SHAPE, 3)


class TicTacToeState(NamedTuple):
    """Stones, and how many there are."""

    board: Int[Array, "9"]
    moves: Int[Array, ""]


@final
class TicTacToe(BoardGame[TicTacToeState]):
    """Nine actions, the cells row by row."""

    @property
    def name(self) -> str:
        return "tic-tac-toe"

    @property
    def actions(self) -> int:
        return 9

    @property
    def longest(self) -> int:
        return 9

    @property
    def board_shape(self) -> tuple[int, int]:
        return _SHAPE

    def init(self) -> TicTacToeState:
        return TicTacToeState(jnp.zeros(9, jnp.int32), jnp.zeros((), jnp.int32))

    def advance(self, state: TicTacToeState, action: Int[Array, ""]) -> TicTacToeState:
        stone = 1 - 2 * self.current_player(state)
        return TicTacToeState(state.board.at[action].set(stone), state.moves + 1)

    def legal_mask(self, state: TicTacToeState) -> Bool[Array, " actions"]:
        return (state.board == 0) | self.terminated(state)

    def current_player(self, state: TicTacToeState) -> Int[Array, ""]:
        return state.moves % 2

    def terminated(self, state: TicTacToeState) -> Bool[Array, ""]:
        return (row_winner(state.board, _ROWS) != 0) | (state.moves >= 9)

    def rewards(self, state: TicTacToeState) -> Float[Array, "2"]:
        return win_rewards(row_winner(state.board, _ROWS))

    def symmetries(self) -> tuple[Symmetry, ...]:
        return square_symmetries(3)

    def move_name(self, action: int) -> str:
        return cell_name(action, _SHAPE)

    def stones(self, state: TicTacToeState) -> Int[AnyArray, "height width"]:
        return state.board.reshape(_SHAPE)


GAME = TicTacToe
__all__ = ["GAME", "TicTacToe", "TicTacToeState"]
