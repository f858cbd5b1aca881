"""Gomoku: five or more in a row win, on a board of 5 by 5 to 19 by 19, without further rules."""

from typing import Annotated, NamedTuple, final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.agents.games.base import AnyArray, Symmetry
from chainrule.agents.games.boards import (
    BoardGame,
    cell_name,
    check_size,
    row_winner,
    rows_of,
    square_symmetries,
    win_rewards,
)
from chainrule.core.types import Array, Float, Int


class GomokuState(NamedTuple):
    """Stones row by row from above, how many there are, and who has won (1, -1, or 0)."""

    board: Int[Array, " cells"]
    moves: Int[Array, ""]
    winner: Int[Array, ""]


@final
class Gomoku(BoardGame[GomokuState]):
    """An action for every cell, row by row."""

    size: Annotated[int, Field(ge=5, le=19, description="cells a side")] = eqx.field(default=9, static=True)

    def __check_init__(self) -> None:
        check_size("gomoku", self.size, 5, 19)

    @property
    def name(self) -> str:
        return "gomoku"

    @property
    def actions(self) -> int:
        return self.size**2

    @property
    def longest(self) -> int:
        return self.size**2

    @property
    def board_shape(self) -> tuple[int, int]:
        return self.size, self.size

    def init(self) -> GomokuState:
        zero = jnp.zeros((), jnp.int32)
        return GomokuState(jnp.zeros(self.actions, jnp.int8), zero, zero)

    def advance(self, state: GomokuState, action: Int[Array, ""]) -> GomokuState:
        stone = (1 - 2 * self.current_player(state)).astype(jnp.int8)
        board = state.board.at[action].set(stone)
        return GomokuState(board, state.moves + 1, row_winner(board, rows_of(self.board_shape, 5)))

    def legal_mask(self, state: GomokuState) -> Bool[Array, " actions"]:
        return (state.board == 0) | self.terminated(state)

    def current_player(self, state: GomokuState) -> Int[Array, ""]:
        return state.moves % 2

    def terminated(self, state: GomokuState) -> Bool[Array, ""]:
        return (state.winner != 0) | (state.moves >= self.actions)

    def rewards(self, state: GomokuState) -> Float[Array, "2"]:
        return win_rewards(state.winner)

    def symmetries(self) -> tuple[Symmetry, ...]:
        return square_symmetries(self.size)

    def move_name(self, action: int) -> str:
        return cell_name(action, self.board_shape)

    def stones(self, state: GomokuState) -> Int[AnyArray, "height width"]:
        return state.board.reshape(self.board_shape)


GAME = Gomoku
__all__ = ["GAME", "Gomoku", "GomokuState"]
