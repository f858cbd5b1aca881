"""Opponents, matches and ratings, against closed forms and each other."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import arena
from chainrule.agents.games.connect_four import ConnectFour
from chainrule.agents.games.tic_tac_toe import TicTacToe
from chainrule.core.errors import ArgumentError, DataError

GAME = TicTacToe()
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def by_chance() -> arena.Match:
    return arena.play_match(GAME, arena.RandomOpponent(GAME), arena.RandomOpponent(GAME), games=4000, key=KEY)


def test_random_play_meets_its_odds(by_chance: arena.Match) -> None:
    # First .584921, second .288095, draws .126984: within four standard errors.
    for count, games, share in (
        (by_chance.wins_first, 2000, 0.584921),
        (by_chance.wins_second, 2000, 0.288095),
        (by_chance.draws, 4000, 0.126984),
    ):
        assert abs(count - games * share) < 4 * np.sqrt(games * share * (1 - share))
    assert by_chance.games == 4000
    assert by_chance.wins == by_chance.wins_first + by_chance.wins_second


def test_recorded_moves_are_the_games(by_chance: arena.Match) -> None:
    lengths = (by_chance.actions >= 0).sum(1)
    np.testing.assert_array_equal(lengths, by_chance.lengths)
    assert lengths.min() >= 5
    for actions in by_chance.actions[:20]:
        made = actions[actions >= 0]
        assert len(set(made.tolist())) == len(made)


def test_opponents_see_as_far_ahead_as_they_look() -> None:
    state = GAME.init()
    for move in ("a1", "a3", "b1", "b3"):
        state = GAME.play(state, move)
    states = jax.tree.map(lambda x: jnp.stack([x] * 8), state)
    assert (np.asarray(arena.greedy(GAME).choose(KEY, states)) == GAME.move_of("c1")).all()
    # The second player's threat is seen two moves ahead.
    threatened = jax.tree.map(lambda x: jnp.stack([x] * 8), GAME.play(state, "c2"))
    assert (np.asarray(arena.MinimaxOpponent(GAME, 2).choose(KEY, threatened)) == GAME.move_of("c3")).all()


def test_search_without_a_network_beats_chance_at_connect_four() -> None:
    game = ConnectFour()
    match = arena.play_match(
        game, arena.SearchOpponent(game, 24), arena.RandomOpponent(game), games=24, key=jax.random.key(2)
    )
    assert match.wins >= 18


def test_colours_are_balanced_by_construction() -> None:
    for wrong in ({"games": 5}, {"games": 4, "opening": 1}):
        with pytest.raises(ArgumentError):
            arena.play_match(GAME, arena.greedy(GAME), arena.greedy(GAME), key=KEY, **wrong)


def test_a_search_of_minimax_is_refused_where_it_cannot_end() -> None:
    with pytest.raises(ArgumentError, match="positions"):
        arena.MinimaxOpponent(ConnectFour(), 9)


def test_ratings_of_two_sides_have_a_closed_form() -> None:
    found = arena.ratings({("new", "old"): (300, 20, 80)}, anchor="old", prior=0.0)
    share = 310 / 400
    assert found["new"].elo == pytest.approx(400 * np.log10(share / (1 - share)))
    error = 1.959964 / np.sqrt(400 * share * (1 - share)) / (np.log(10) / 400)
    assert found["new"].high - found["new"].elo == pytest.approx(error)
    assert found["old"] == (0, 0, 0, 400)


def test_true_ratings_are_found_from_expected_results() -> None:
    true = {"random": 0.0, "greedy": 150.0, "search": 430.0, "network": 620.0}
    names = list(true)
    results = {}
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            wins = 100_000 / (1 + 10 ** ((true[other] - true[one]) / 400))
            results[one, other] = (round(wins), 0, 100_000 - round(wins))
    found = arena.ratings(results, prior=0.0)
    assert list(found) == ["network", "search", "greedy", "random"]
    for name, elo in true.items():
        assert found[name].elo == pytest.approx(elo, abs=0.5)
    assert all(rating.games == 300_000 for rating in found.values())


def test_intervals_of_ratings_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    true = {"random": 0.0, "middle": 120.0, "top": 300.0}
    covered = 0
    for _ in range(400):
        results = {}
        for one, other in (("random", "middle"), ("middle", "top"), ("random", "top")):
            wins = rng.binomial(200, 1 / (1 + 10 ** ((true[other] - true[one]) / 400)))
            results[one, other] = (int(wins), 0, 200 - int(wins))
        top = arena.ratings(results)["top"]
        covered += top.low <= true["top"] <= top.high
    assert 0.92 < covered / 400 < 0.98


def test_what_ratings_cannot_say_is_refused() -> None:
    with pytest.raises(DataError, match="no games join"):
        arena.ratings({("a", "b"): (1, 1, 1), ("c", "d"): (1, 1, 1)})
    with pytest.raises(DataError, match="won all its games"):
        arena.ratings({("a", "b"): (9, 0, 0)}, prior=0.0)
    assert arena.ratings({("a", "b"): (9, 0, 0)})["a"].elo > 300


def test_the_gate_is_the_published_one() -> None:
    verdict = arena.gate(220, 400)
    assert verdict.passed
    assert not arena.gate(219, 400).passed
    assert verdict.probability == pytest.approx(0.0255, abs=5e-5)
    assert verdict.elo == pytest.approx(34.86, abs=5e-3)
    assert arena.elo_of_share(0.875) == pytest.approx(338.04, abs=5e-3)
    with pytest.raises(ArgumentError):
        arena.gate(401, 400)


def test_a_tournament_is_rated_from_chance_upwards() -> None:
    sides: list[Any] = [arena.RandomOpponent(GAME), arena.greedy(GAME), arena.MinimaxOpponent(GAME, 2)]
    results = arena.tournament(GAME, sides, games=40, key=KEY)
    found = arena.ratings(results)
    assert list(found) == ["minimax-2", "greedy", "random"]
    assert found["random"].elo == 0
    with pytest.raises(ArgumentError, match="names must differ"):
        arena.tournament(GAME, [sides[0], sides[0]], games=2, key=KEY)


def test_every_line_of_an_opponent_is_followed() -> None:
    def choose(states: Any) -> Any:
        return jnp.argmax(jax.vmap(GAME.legal_mask)(states), -1)

    def followed(board: tuple[int, ...], stone: int, ends: dict[tuple[int, ...], int]) -> None:
        rows = np.array(board).reshape(3, 3)
        sums = [*rows.sum(0), *rows.sum(1), np.trace(rows), np.trace(rows[::-1])]
        if 3 in sums or -3 in sums or all(board):
            ends[board] = 1 if 3 in sums else -1 if -3 in sums else 0
            return
        free = [cell for cell in range(9) if not board[cell]]
        for cell in free[:1] if stone == 1 else free:
            followed((*board[:cell], stone, *board[cell + 1 :]), -stone, ends)

    ends: dict[tuple[int, ...], int] = {}
    followed((0,) * 9, 1, ends)
    expected = [list(ends.values()).count(result) for result in (1, 0, -1)]
    assert list(arena.every_line(GAME, choose, 0)) == expected
    with pytest.raises(ArgumentError, match="play matches"):
        arena.every_line(GAME, choose, 1, most=10)
