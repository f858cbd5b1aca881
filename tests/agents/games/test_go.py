"""Rules of Go, position by position."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import games
from chainrule.agents.games.go import Go
from chainrule.core.errors import ArgumentError

FIVE = games.make("go", size=5, komi=0.5)


def follow(game: Any, moves: str) -> Any:
    state = game.init()
    for move in moves.split():
        state = game.play(state, move)
    return state


def test_a_stone_without_liberties_is_taken() -> None:
    state = follow(FIVE, "b3 a3 a4 pass a2")
    assert FIVE.draw(state).splitlines()[2] == " 3 . X . . ."


def test_groups_are_taken_together() -> None:
    state = follow(FIVE, "a2 a1 b2 b1 c1")
    assert FIVE.draw(state).splitlines()[3:5] == [" 2 X X . . .", " 1 . . X . ."]


def test_suicide_is_illegal_unless_it_takes() -> None:
    state = follow(FIVE, "a2 e5 b1 e4 pass")
    with pytest.raises(ArgumentError, match="not legal"):
        FIVE.play(state, "a1")
    # The same cell takes two stones once they have no other liberty.
    state = follow(FIVE, "a2 a3 b1 b2 e5 c1 pass")
    assert FIVE.draw(FIVE.play(state, "a1")).splitlines()[3:5] == [" 2 . O . . .", " 1 O . O . ."]


KO = "b4 c4 a3 d3 b2 c2 c3 b3"
"""White has just taken a stone at c3."""


@pytest.mark.parametrize("superko", [False, True])
def test_a_ko_is_not_taken_back_at_once(superko: bool) -> None:
    game = games.make("go", size=5, superko=superko)
    state = follow(game, KO)
    with pytest.raises(ArgumentError, match="not legal"):
        game.play(state, "c3")
    later = game.play(game.play(game.play(state, "e1"), "a1"), "c3")
    assert game.draw(later).splitlines()[2] == " 3 X . X O ."


def test_cells_count_for_who_surrounds_them() -> None:
    state = follow(FIVE, "c1 d1 c2 d2 c3 d3 c4 d4 c5 d5 pass pass")
    assert float(FIVE.score(state)) == 15 - 10 - 0.5
    assert np.asarray(FIVE.rewards(state)).tolist() == [1, -1]
    assert bool(FIVE.terminated(state))


def test_cells_between_both_colours_count_for_nobody() -> None:
    state = follow(FIVE, "c3 a1 pass pass")
    assert float(FIVE.score(state)) == -0.5
    assert np.asarray(FIVE.rewards(state)).tolist() == [-1, 1]


def test_observations_show_eight_positions_and_the_colour() -> None:
    state = follow(FIVE, "c3 a1 b2")
    seen = np.asarray(FIVE.observe(state, jnp.int32(1)))
    assert seen.shape == (5, 5, 17)
    assert seen[4, 0, 0] == 1  # own, now
    assert seen[4, 0, 1] == 1  # own, one move ago
    assert seen[4, 0, 2] == 0  # own, two moves ago
    assert seen[2, 2, 8 + 2] == 1  # the other's, two moves ago
    assert not seen[..., 16].any()  # white is to move


def naive_legal(game: Go, stones: np.ndarray, color: int, seen: list[bytes]) -> np.ndarray:
    """Legal cells by following groups stone by stone."""
    size = game.size

    def near(cell: tuple[int, int]) -> list[tuple[int, int]]:
        y, x = cell
        around = ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1))
        return [(i, j) for i, j in around if 0 <= i < size and 0 <= j < size]

    def group(board: np.ndarray, cell: tuple[int, int]) -> tuple[set[tuple[int, int]], bool]:
        found, waiting, free = {cell}, [cell], False
        while waiting:
            for other in near(waiting.pop()):
                free |= board[other] == 0
                if board[other] == board[cell] and other not in found:
                    found.add(other)
                    waiting.append(other)
        return found, free

    legal = np.zeros((size, size), bool)
    for cell in zip(*np.nonzero(stones == 0), strict=True):
        board = stones.copy()
        board[cell] = color
        for other in near(cell):
            if board[other] == -color:
                taken, free = group(board, other)
                if not free:
                    for each in taken:
                        board[each] = 0
        legal[cell] = group(board, cell)[1] and board.tobytes() not in seen
    return legal.reshape(-1)


def test_legal_moves_equal_those_found_stone_by_stone() -> None:
    game = Go(size=5, limit=120)
    step, mask = jax.jit(game.step), jax.jit(game.legal_mask)
    rng = np.random.default_rng(0)
    at_once = later = 0
    for _ in range(6):
        state = game.init()
        seen: list[bytes] = []
        for move in range(110):
            stones = np.asarray(game.stones(state))
            color = 1 - 2 * (move % 2)
            legal = np.asarray(mask(state))[:-1]
            np.testing.assert_array_equal(legal, naive_legal(game, stones, color, seen))
            if move:
                simple = naive_legal(game, stones, color, seen[-1:])
                at_once += int((naive_legal(game, stones, color, []) & ~simple).sum())
                later += int((simple & ~legal).sum())
            seen.append(stones.tobytes())
            choices = np.flatnonzero(legal)
            if not choices.size:
                break
            state = step(state, np.int32(rng.choice(choices)))
    assert at_once > 0  # kos
    assert later > 0  # positions of longer ago
