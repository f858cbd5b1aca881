"""Connect-four: stones fall down columns; four in a row win. The first player wins with best play (Allis, 1988)."""

from typing import NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.agents.games.base import AnyArray, Symmetry
from chainrule.agents.games.boards import COLUMNS, BoardGame, row_winner, rows_of, win_rewards
from chainrule.core.types import Array, Float, Int

_SHAPE = (6, 7)
_ROWS = rows_of(_SHAPE, 4)


class ConnectFourState(NamedTuple):
    """Stones row by row from above, how many there are, and who has won (1, -1, or 0)."""

    board: Int[Array, "42"]
    moves: Int[Array, ""]
    winner: Int[Array, ""]


@final
class ConnectFour(BoardGame[ConnectFourState]):
    """Seven actions, the columns."""

    @property
    def name(self) -> str:
        return "connect-four"

    @property
    def actions(self) -> int:
        return 7

    @property
    def longest(self) -> int:
        return 42

    @property
    def board_shape(self) -> tuple[int, int]:
        return _SHAPE

    def init(self) -> ConnectFourState:
        zero = jnp.zeros((), jnp.int32)
        return ConnectFourState(jnp.zeros(42, jnp.int8), zero, zero)

    def advance(self, state: ConnectFourState, action: Int[Array, ""]) -> ConnectFourState:
        column = state.board.reshape(_SHAPE)[:, action]
        row = (column == 0).sum() - 1
        stone = (1 - 2 * self.current_player(state)).astype(jnp.int8)
        board = state.board.at[row * 7 + action].set(stone)
        return ConnectFourState(board, state.moves + 1, row_winner(board, _ROWS))

    def legal_mask(self, state: ConnectFourState) -> Bool[Array, " actions"]:
        return (state.board[:7] == 0) | self.terminated(state)

    def current_player(self, state: ConnectFourState) -> Int[Array, ""]:
        return state.moves % 2

    def terminated(self, state: ConnectFourState) -> Bool[Array, ""]:
        return (state.winner != 0) | (state.moves >= 42)

    def rewards(self, state: ConnectFourState) -> Float[Array, "2"]:
        return win_rewards(state.winner)

    def symmetries(self) -> tuple[Symmetry, ...]:
        cells, actions = np.arange(42), np.arange(7)
        mirrored = cells.reshape(_SHAPE)[:, ::-1].reshape(-1)
        return Symmetry(cells, actions), Symmetry(mirrored, actions[::-1])

    def move_name(self, action: int) -> str:
        return COLUMNS[action]

    def stones(self, state: ConnectFourState) -> Int[AnyArray, "height width"]:
        return state.board.reshape(_SHAPE)


GAME = ConnectFour
__all__ = ["GAME", "ConnectFour", "ConnectFourState"]
