"""The whole game, counted: all positions, all games, random play and best play."""

import itertools

import jax
import numpy as np
import pytest

from chainrule.agents.games.tic_tac_toe import TicTacToe, TicTacToeState

GAME = TicTacToe()
SAME = np.array([symmetry.cells for symmetry in GAME.symmetries()])


@pytest.fixture(scope="module")
def levels() -> list[dict[str, np.ndarray]]:
    """Positions by number of stones, with how many games and which share of random play come by."""

    @jax.jit
    @jax.vmap
    def facts(board: np.ndarray, moves: np.ndarray) -> tuple[jax.Array, ...]:
        state = TicTacToeState(board, moves)
        after = jax.vmap(lambda action: GAME.step(state, action).board)(np.arange(9))
        return GAME.legal_mask(state), GAME.terminated(state), GAME.rewards(state)[0], after

    boards, games, chance = np.zeros((1, 9), np.int32), np.ones(1, int), np.ones(1)
    found = []
    for moves in range(10):
        padded = np.zeros((2048, 9), np.int32)  # one shape: compiled once
        padded[: len(boards)] = boards
        legal, over, reward, after = (
            np.asarray(x)[: len(boards)] for x in facts(padded, np.full(2048, moves, np.int32))
        )
        found.append({"boards": boards, "games": games, "chance": chance, "over": over, "reward": reward})
        rows, actions = np.nonzero(legal & ~over[:, None])
        share = chance[rows] / legal.sum(1)[rows]
        boards, number = np.unique(after[rows, actions], axis=0, return_inverse=True)
        number = number.reshape(-1)
        children = np.full((len(over), 9), -1)
        children[rows, actions] = number
        found[-1]["children"] = children
        games = np.bincount(number, games[rows], len(boards)).astype(int)
        chance = np.bincount(number, share, len(boards))
    return found


def test_positions_and_their_classes_are_counted(levels: list[dict[str, np.ndarray]]) -> None:
    assert sum(len(level["boards"]) for level in levels) == 5478
    weights = 3 ** np.arange(9)
    classes = [np.unique((level["boards"][:, SAME] @ weights).min(1)).size for level in levels]
    assert sum(classes) == 765


def test_games_and_their_results_are_counted(levels: list[dict[str, np.ndarray]]) -> None:
    counts = [
        sum(int(level["games"][level["over"] & (level["reward"] == wanted)].sum()) for level in levels)
        for wanted in (1, -1, 0)
    ]
    assert counts == [131184, 77904, 46080]
    assert sum(counts) == 255168


def test_random_play_has_known_odds(levels: list[dict[str, np.ndarray]]) -> None:
    odds = [
        sum(level["chance"][level["over"] & (level["reward"] == wanted)].sum() for level in levels)
        for wanted in (1, -1, 0)
    ]
    np.testing.assert_allclose(odds, [0.584921, 0.288095, 0.126984], atol=5e-7)


def test_best_play_is_a_draw(levels: list[dict[str, np.ndarray]]) -> None:
    values = levels[-1]["reward"]
    for moves, level in reversed(list(enumerate(levels))[:-1]):
        best = np.where(
            level["children"] >= 0, values[level["children"]], -np.inf if moves % 2 == 0 else np.inf
        )
        chosen = best.max(1) if moves % 2 == 0 else best.min(1)
        values = np.where(level["over"], level["reward"], chosen)
    assert values.tolist() == [0.0]


def test_all_ways_of_turning_the_board_differ() -> None:
    assert SAME[0].tolist() == list(range(9))
    assert len(SAME) == len({tuple(cells) for cells in SAME}) == 8
    for one, other in itertools.product(SAME, SAME):
        assert any((one[other] == cells).all() for cells in SAME)
