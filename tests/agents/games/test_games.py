"""What holds for every game, and the rules of each against closed forms and pgx."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import games
from chainrule.agents.games.base import Game
from chainrule.core.errors import ArgumentError

SETTINGS: dict[str, dict[str, Any]] = {"go": {"size": 5, "limit": 40}, "gomoku": {"size": 5}}
GAMES = 16


@eqx.filter_jit
def random_games(game: Game[Any], key: Any) -> Any:
    """Random play to the end and two moves beyond: the states before every move, the moves, and what is legal."""
    begin = jax.tree.map(lambda x: jnp.broadcast_to(x, (GAMES, *x.shape)), game.init())

    def step(states: Any, key: Any) -> Any:
        legal = jax.vmap(game.legal_mask)(states)
        actions = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
        return jax.vmap(game.step)(states, actions), (states, actions, legal)

    return jax.lax.scan(step, begin, jax.random.split(key, game.longest + 2))


@pytest.fixture(scope="module", params=games.names())
def played(request: pytest.FixtureRequest) -> Any:
    game = games.make(request.param, **SETTINGS.get(request.param, {}))
    last, (states, actions, legal) = random_games(game, jax.random.key(0))

    def facts(state: Any) -> Any:
        return game.terminated(state), game.rewards(state), game.current_player(state), game.stones(state)

    found = eqx.filter_jit(jax.vmap(jax.vmap(facts)))(states)
    return game, last, states, np.asarray(actions), np.asarray(legal), [np.asarray(x) for x in found]


def test_games_end_with_opposite_rewards_and_then_stand_still(played: Any) -> None:
    game, last, states, _, legal, (over, rewards, player, stones) = played
    assert over[-1].all()
    assert (np.diff(over.astype(int), axis=0) >= 0).all()
    assert (rewards.sum(-1) == 0).all()
    assert (rewards[~over] == 0).all()
    assert set(np.unique(rewards)) <= {-1.0, 0.0, 1.0}
    assert legal[over].all()
    going = ~over[1:]
    assert (player[1:][going] != player[:-1][going]).all()
    for a, b in zip(jax.tree.leaves(last), jax.tree.leaves(states), strict=True):
        np.testing.assert_array_equal(a, b[-1])
    assert stones.shape[2:] == game.board_shape


def test_players_see_their_own_stones_first(played: Any) -> None:
    game, _, states, _, _, (_, _, _, stones) = played
    state = jax.tree.map(lambda x: x[4, 0], states)
    mine, others = (np.asarray(game.observe(state, jnp.int32(player))) for player in (0, 1))
    assert mine.shape == game.observation_shape
    half = game.observation_shape[2] // 2
    np.testing.assert_array_equal(mine[..., 0], stones[4, 0] == 1)
    np.testing.assert_array_equal(mine[..., half], stones[4, 0] == -1)
    np.testing.assert_array_equal(mine[..., :half], others[..., half : 2 * half])


def test_turned_games_are_the_same_games(played: Any) -> None:
    game, _, states, actions, legal, (over, rewards, _, stones) = played
    for symmetry in game.symmetries():
        inverse = np.argsort(symmetry.actions)
        state = jax.tree.map(lambda x: x[0, 0], states)
        step = eqx.filter_jit(game.step)
        mask = eqx.filter_jit(game.legal_mask)
        for t in range(min(6, int((~over[:, 0]).sum()))):
            np.testing.assert_array_equal(mask(state), symmetry.turn_policy(legal[t, 0].astype(np.float32)))
            planes = stones[t, 0][..., None].astype(np.float32)
            np.testing.assert_array_equal(game.stones(state), symmetry.turn_planes(planes)[..., 0])
            turned = int(inverse[actions[t, 0]])
            assert turned == symmetry.turn_action(int(actions[t, 0]))
            state = step(state, np.int32(turned))
        assert np.isfinite(rewards).all()


def test_moves_have_names_and_boards_can_be_looked_at(played: Any) -> None:
    game, _, states, *_ = played
    assert [game.move_of(game.move_name(action)) for action in range(game.actions)] == list(
        range(game.actions)
    )
    state = jax.tree.map(lambda x: x[3, 0], states)
    assert game.draw(state).count("X") == 2
    assert (
        len({game.render(jax.tree.map(lambda x, t=t: x[t, 0], states)).to_pixels().shape for t in (0, 3)})
        == 1
    )
    heat = np.full(game.board_shape, 0.5)
    assert game.render(state, heat).to_svg().count("<rect") > np.prod(game.board_shape) - 1


def test_an_illegal_move_is_refused_with_those_that_are_legal() -> None:
    game = games.make("tic-tac-toe")
    state = game.play(game.init(), "b2")
    with pytest.raises(ArgumentError, match=r"legal: a3, b3, c3, a2, c2, a1, b1, c1"):
        game.play(state, "b2")
    with pytest.raises(ArgumentError, match="moves are called a3, b3, c3"):
        game.play(state, "d9")


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("tictactoe", {}, "did you mean 'tic-tac-toe'"),
        ("pgx:otello", {}, "did you mean 'pgx:othello'"),
        ("pgx:backgammon", {}, "without chance"),
        ("pgx:othello", {"size": 6}, "pgx:othello has no settings"),
        ("go", {"size": 4}, "size=4: input should be greater than or equal to 5"),
        ("go", {"sizes": 9}, "did you mean 'size'"),
        ("go", {"komi": float("nan")}, "komi=nan: input should be a finite number"),
        ("go", {"superko": "maybe"}, "superko='maybe': input should be a valid boolean"),
        ("gomoku", {"size": 20}, "size=20: input should be less than or equal to 19"),
    ],
)
def test_what_cannot_be_made_is_said(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        games.make(name, **settings)


def follow(game: Game[Any], moves: str) -> Any:
    state = game.init()
    for move in moves.split():
        state = game.play(state, move)
    return state


def test_five_in_a_row_win_gomoku() -> None:
    game = games.make("gomoku")
    state = follow(game, "a1 a2 b2 b3 c3 c4 d4 d5 e5")
    assert np.asarray(game.rewards(state)).tolist() == [1, -1]


def test_stones_fall_down_in_connect_four() -> None:
    game = games.make("connect-four")
    state = follow(game, "a b a b a b a")
    assert game.draw(state).splitlines()[2:6] == [
        " 4 X . . . . . .",
        *[f" {n} X O . . . . ." for n in (3, 2, 1)],
    ]
    assert np.asarray(game.rewards(state)).tolist() == [1, -1]
    full = follow(game, "c c c c c c")
    assert not game.legal_mask(full)[2]


@pytest.mark.parametrize(
    ("name", "own", "settings"),
    [
        ("connect_four", "connect-four", {}),
        ("go_9x9", "go", {"superko": False}),
        ("tic_tac_toe", "tic-tac-toe", {}),
    ],
)
def test_rules_equal_those_of_pgx(
    oracle: Callable[[str], ModuleType], name: str, own: str, settings: dict[str, Any]
) -> None:
    oracle("pgx")
    game, other = games.make(own, **settings), games.make(f"pgx:{name}")
    count = 70 if own == "go" else game.longest

    @jax.jit
    def both(key: Any) -> Any:
        def step(states: Any, key: Any) -> Any:
            mine, theirs = states
            legal = game.legal_mask(mine)
            # Seldom a pass, so that games of Go last.
            logits = jnp.where(legal, 0.0, -jnp.inf).at[-1].add(-4.0 if own == "go" else 0.0)
            action = jax.random.categorical(key, logits)
            seen = jnp.all(legal == other.legal_mask(theirs))
            states = game.step(mine, action), other.step(theirs, action)
            same = jnp.all(game.rewards(states[0]) == other.rewards(states[1]))
            who = game.current_player(states[0]) == other.current_player(states[1])
            return states, (seen, same, who | game.terminated(states[0]))

        return jax.lax.scan(step, (game.init(), other.init()), jax.random.split(key, count))[1]

    for seed in range(3):
        with jax.numpy_rank_promotion("allow"):  # pgx relies on it
            found = both(jax.random.key(seed))
        assert all(np.all(x) for x in found)
