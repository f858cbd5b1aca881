"""All positions of tic-tac-toe, once, and what the rules say about them."""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from chainrule.agents.games.tic_tac_toe import TicTacToe, TicTacToeState


class Positions(NamedTuple):
    """Every position that play can reach, and its facts."""

    states: TicTacToeState
    legal: np.ndarray
    player: np.ndarray
    over: np.ndarray
    rewards: np.ndarray
    number: dict[bytes, int]
    """Of a position, by its stones."""

    def of(self, rows: Any) -> TicTacToeState:
        """Some of the positions, or one."""
        return TicTacToeState(self.states.board[rows], self.states.moves[rows])

    def look(self, game: Any, state: TicTacToeState, action: Any) -> tuple[Any, ...]:
        """In the manner of the readable search, whose time goes into calling compiled rules one by one otherwise."""
        del game
        board, moves = state
        if action is not None:
            board = board.copy()
            board[action] = 1 - 2 * (moves % 2)
            moves = moves + 1
        i = self.number[board.tobytes()]
        state = TicTacToeState(board, moves)
        return state, self.legal[i], self.player[i], self.over[i], self.rewards[i]


@pytest.fixture(scope="session")
def positions() -> Positions:
    """Breadth first from the empty board, all positions of a number of stones at once."""
    game = TicTacToe()

    @jax.jit
    @jax.vmap
    def facts(state: TicTacToeState) -> Any:
        legal, player = game.legal_mask(state), game.current_player(state)
        after = jax.vmap(lambda action: game.step(state, action).board)(np.arange(9))
        return legal, player, game.terminated(state), game.rewards(state), after

    boards = np.zeros((1, 9), np.int32)
    found = []
    for moves in range(10):
        padded = np.zeros((2048, 9), np.int32)  # one shape: compiled once
        padded[: len(boards)] = boards
        state = TicTacToeState(padded, np.full(2048, moves, np.int32))
        cut = [np.asarray(x)[: len(boards)] for x in (*state, *facts(state))]
        found.append(cut[:-1])
        following = cut[-1][cut[2] & ~cut[4][:, None]]
        boards = np.unique(following.reshape(-1, 9), axis=0)
    board, count, *rest = (np.concatenate(column) for column in zip(*found, strict=True))
    number = {row.tobytes(): i for i, row in enumerate(board)}
    return Positions(TicTacToeState(board, count), *rest, number)
