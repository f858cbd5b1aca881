"""AlphaZero: what goes into the window and with which outcome, self-play, gating, and play that loses no line."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.alphazero import ENTRY, AlphaZero, AlphaZeroConfig
from chainrule.agents.algorithms.alphazero.gating import begin_gate, meet, shares
from chainrule.agents.algorithms.alphazero.learner import AlphaZeroState
from chainrule.agents.algorithms.alphazero.moves import SearchedMoves, by_gumbel, evaluator, finder
from chainrule.agents.algorithms.alphazero.self_play import advance_games, begin_games
from chainrule.agents.algorithms.alphazero.window import PlayedMoves, add, draw, empty
from chainrule.agents.arena.lines import every_line
from chainrule.agents.arena.opponents import FunctionOpponent, RandomOpponent
from chainrule.agents.games.tic_tac_toe import TicTacToe
from chainrule.agents.learning import loop
from chainrule.agents.policy_value.training import restore
from chainrule.core.errors import ArgumentError

GAME = TicTacToe()


@pytest.fixture(scope="module")
def learner() -> AlphaZero:
    """A toy."""
    return ENTRY.build(AlphaZeroConfig(**ENTRY.toy), GAME, 64)


@pytest.fixture(scope="module")
def trained(learner: AlphaZero) -> tuple[dict, AlphaZeroState, list]:
    """States after 1, 3 and 4 iterations of one run, and metrics of each call."""
    states, found, metrics = loop.start(learner, jax.random.key(0)), {}, []
    for done, count in ((1, 1), (3, 2), (4, 1)):
        states, seen = loop.run_iterations(learner, states, count, most=4)
        # Buffers may be given to the next call.
        found[done] = jax.tree.map(lambda leaf: leaf.copy(), states)
        metrics.append(seen)
    return found, loop.run_of(states, 0), metrics


# ---------------------------------------------------------------------- the window


def moves_of(
    player: np.ndarray, ended: np.ndarray, truncated: np.ndarray, outcome: np.ndarray
) -> PlayedMoves:
    """Moves of two games side by side whose planes tell their number."""
    rows = player.shape[0]
    planes = np.broadcast_to(np.arange(rows, dtype=np.float32)[:, None, None, None, None], (rows, 2, 3, 3, 2))
    policy = np.full((rows, 2, 9), 1 / 9, np.float32)
    arrays = (planes, policy, player, ended, truncated, outcome)
    return PlayedMoves(*(jnp.asarray(each) for each in arrays))


def expected(player: np.ndarray, ended: np.ndarray, truncated: np.ndarray, outcome: np.ndarray) -> tuple:
    """Outcomes by looking ahead from every move to the end of its game."""
    z, known = np.zeros(player.shape), np.zeros(player.shape)
    for t, g in np.ndindex(player.shape):
        for later in range(t, len(player)):
            if truncated[later, g]:
                break
            if ended[later, g]:
                z[t, g] = outcome[later, g] * (1 if player[t, g] == 0 else -1)
                known[t, g] = 1
                break
    return z, known


def test_outcomes_are_those_of_whoever_was_to_move_and_wait_for_the_end() -> None:
    rng = np.random.default_rng(0)
    length = 24
    ended = rng.random((length, 2)) < 0.2
    truncated = ~ended & (rng.random((length, 2)) < 0.15)
    player = rng.integers(0, 2, (length, 2)).astype(np.int8)
    outcome = rng.choice([-1.0, 0.0, 1.0], (length, 2)).astype(np.float32)
    everything = (player, ended, truncated, outcome)
    push = jax.jit(add)
    window = empty(GAME, 12, 2)
    for start in range(0, length, 4):
        window = push(window, moves_of(*(each[start : start + 4] for each in everything)))
        done = start + 4
        kept = np.arange(max(0, done - 12), done)  # the ring holds the last twelve
        z, known = expected(*(each[:done] for each in everything))
        np.testing.assert_array_equal(np.asarray(window.outcome)[kept % 12], z[kept])
        np.testing.assert_array_equal(np.asarray(window.known)[kept % 12], known[kept])
        assert int(window.filled) == min(done, 12)
    assert 0 < known.mean() < 1


def test_positions_are_drawn_from_what_is_there() -> None:
    one = np.zeros((4, 2), np.int8), *[np.zeros((4, 2), bool)] * 2, np.zeros((4, 2), np.float32)
    window = jax.jit(add)(empty(GAME, 12, 2), moves_of(*one))
    drawn = jax.jit(lambda key: draw(key, window, 400))(jax.random.key(0))
    counts = np.bincount(np.asarray(drawn.planes)[:, 0, 0, 0].astype(int))
    assert len(counts) == 4
    assert counts.min() > 60


# ---------------------------------------------------------------------- self-play


@eqx.filter_jit
def _advance(
    config: AlphaZeroConfig, resign: float, games: tuple, found: SearchedMoves, key: jax.Array
) -> tuple:
    return advance_games(config, GAME, jnp.asarray(resign), games, found, key)


def played(config: AlphaZeroConfig, moves: list, *, resign: float = 0.0, value: float = 0.0) -> list:
    """Records of moves that a search might have found, in all games alike, and the games after each."""
    games, found = begin_games(jax.random.key(0), GAME, config), []
    for number, action in enumerate(moves):
        searched = SearchedMoves(
            jnp.full(config.games, action, jnp.int32),
            jnp.full((config.games, 9), 1 / 9),
            jnp.full(config.games, value),
        )
        games, (record, sums) = _advance(config, resign, games, searched, jax.random.key(number))
        found.append((record, sums, games))
    return found


def test_a_game_that_is_won_gives_way_to_the_next() -> None:
    records = played(AlphaZeroConfig(games=2, opening=0), [0, 3, 1, 4, 2])
    assert [bool(record.ended[0]) for record, _, _ in records] == [False] * 4 + [True]
    record, sums, games = records[-1]
    assert float(record.outcome[0]) == 1
    assert (int(sums.games), int(sums.moves), int(sums.first), int(sums.drawn)) == (2, 10, 2, 0)
    np.testing.assert_array_equal(games.moves, 0)
    np.testing.assert_array_equal(games.state.board, 0)
    assert [int(record.player[0]) for record, _, _ in records] == [0, 1, 0, 1, 0]


def test_a_game_at_its_limit_is_cut_off_without_an_outcome() -> None:
    *_, (record, sums, games) = played(AlphaZeroConfig(games=2, opening=0, limit=2), [0, 3])
    assert bool(record.truncated.all())
    assert not bool(record.ended.any())
    assert int(sums.truncated) == 2
    np.testing.assert_array_equal(games.moves, 0)


def test_hopeless_games_are_given_up_but_for_one_in_ten() -> None:
    config = AlphaZeroConfig(games=400, opening=0)
    (first, _, after), *_ = played(config, [0], resign=0.8, value=-0.9)
    started = begin_games(jax.random.key(0), GAME, config)
    np.testing.assert_array_equal(first.ended, ~np.asarray(started.played_on))
    assert 0.05 < started.played_on.mean() < 0.16
    # Whoever gives up has lost, and a game that is played on remembers who would have.
    np.testing.assert_array_equal(np.asarray(first.outcome)[np.asarray(first.ended)], -1)
    np.testing.assert_array_equal(np.asarray(after.would_resign)[np.asarray(started.played_on)], 0)
    *_, (_, sums, _) = played(config, [0, 3, 1, 4, 2], resign=0.8, value=-0.9)
    assert int(sums.hopeless) == int(sums.recovered) == int(started.played_on.sum())
    (calm, _, _), *_ = played(config, [0], resign=0.0, value=-0.9)
    assert not bool(calm.ended.any())


def test_moves_at_random_open_a_game_and_hide_its_outcome() -> None:
    config = AlphaZeroConfig(games=200, opening=2)
    started = begin_games(jax.random.key(0), GAME, config)
    assert set(np.asarray(started.opening).tolist()) == {0, 1, 2}
    (record, _, after), *_ = played(config, [4])
    at_random = np.asarray(started.opening) > 0
    np.testing.assert_array_equal(record.truncated, at_random)
    chosen = np.asarray(after.state.board).argmax(1)
    np.testing.assert_array_equal(chosen[~at_random], 4)
    assert set(chosen[at_random]) == set(range(9))


def test_self_play_writes_what_the_search_found(trained: tuple) -> None:
    _, state, metrics = trained
    window = state.window
    assert int(window.filled) == 16
    planes, policy = (np.asarray(each, np.float32) for each in (window.moves.planes, window.moves.policy))
    taken = planes[..., :2].sum(-1).reshape(16, 4, 9)
    np.testing.assert_allclose(policy.sum(-1), 1, rtol=1e-5)
    assert (policy * taken).max() < 1e-6  # no probability on cells with stones
    # Who is to move follows from the stones: two planes, own and other.
    own, other = (planes[..., side].sum((-1, -2)) for side in range(2))
    np.testing.assert_array_equal(own != other, np.asarray(window.moves.player) == 1)
    for seen in metrics:
        for name in ("loss", "policy_loss", "value_loss", "entropy", "value_accuracy", "search_entropy"):
            assert np.isfinite(seen[name]).all(), name


def test_going_on_gives_the_same_bits(learner: AlphaZero, trained: tuple) -> None:
    found, *_ = trained
    again, _ = loop.run_iterations(learner, found[1], 3, most=4)
    numbers = [jax.tree.map(_plain, jax.tree.leaves(each)) for each in (again, found[4])]
    for one, other in zip(*numbers, strict=True):
        np.testing.assert_array_equal(one, other)


def _plain(leaf: jax.Array) -> np.ndarray:
    key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if key else leaf)


# ---------------------------------------------------------------------- matches


def test_the_average_plays_in_earnest(learner: AlphaZero, trained: tuple) -> None:
    _, state, _ = trained
    np.testing.assert_array_equal(learner.network(state).policy.weight, state.fitted.average.policy.weight)
    assert np.abs(state.fitted.average.policy.weight - state.fitted.weights.policy.weight).max() > 0


def test_shares_of_a_match_are_balanced_between_colours() -> None:
    """Of two who always take the first free cell, whoever begins wins: one half each."""
    first = FunctionOpponent(lambda key, states: jnp.argmax(states.board == 0, -1), "first")
    found = jax.jit(lambda key: shares(GAME, first, first, 6, 0, key))(jax.random.key(0))
    assert (float(found.won), float(found.drawn), float(found.lost)) == (0.5, 0.0, 0.5)
    assert float(found.points) == 0.5
    assert float(found.margin) == 0


def test_a_candidate_takes_the_place_of_the_best_by_winning_enough(
    learner: AlphaZero, trained: tuple
) -> None:
    _, state, _ = trained
    config = AlphaZeroConfig(**{**ENTRY.toy, "gating": True, "gate_games": 4, "gate_every": 2})
    other = jax.tree.map(jnp.zeros_like, state.fitted.weights)

    @eqx.filter_jit
    def after(share: float) -> tuple:
        strict = config.model_copy(update={"gate_share": share})
        return meet(strict, GAME, learner.like, begin_gate(other), state.fitted.weights, jax.random.key(0))

    gate, facts = after(0.5)
    promoted = float(facts["gate_score"]) >= 0.5
    wanted = state.fitted.weights if promoted else other
    np.testing.assert_array_equal(gate.best.policy.weight, wanted.policy.weight)
    assert int(gate.promotions) == int(promoted)
    gated = AlphaZero(config, GAME)
    assert gated.rounds == 1
    shapes = jax.eval_shape(gated.iterate, jax.eval_shape(gated.start, jax.random.key(0)))
    assert {"gate_score", "promotions"} <= set(shapes[1])


def test_few_simulations_are_searched_by_gumbel() -> None:
    assert by_gumbel(AlphaZeroConfig(simulations=64))
    assert not by_gumbel(AlphaZeroConfig(simulations=65))
    assert not by_gumbel(AlphaZeroConfig(simulations=8, search="puct"))


def test_the_search_takes_a_win_at_hand_either_way(learner: AlphaZero, trained: tuple) -> None:
    """Two in a row and the third cell free: a fresh network with a few simulations finds it."""
    board = np.array([1, 1, 0, -1, -1, 0, 0, 0, 0], np.int32)
    states = jax.tree.map(lambda leaf: leaf[None], GAME.init()._replace(board=board, moves=np.int32(4)))
    states = jax.tree.map(jnp.asarray, states)
    network = restore(learner.like, jax.tree.map(jnp.zeros_like, trained[1].fitted.weights))
    for search in ("gumbel", "puct"):
        find = finder(AlphaZeroConfig(simulations=24, search=search), GAME, noisy=False)
        found = jax.jit(
            lambda key, find=find: find(key, evaluator(GAME, network), states, jnp.zeros(1, bool))
        )
        out = found(jax.random.key(0))
        assert int(out.action[0]) == 2
        assert int(np.argmax(out.policy)) == 2


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ArgumentError, match="window=10: a round has 128 x 16"):
        AlphaZero(AlphaZeroConfig(window=10), GAME)


@pytest.mark.slow
def test_what_was_learnt_in_seconds_loses_no_line() -> None:
    """Against every line of an opponent, first and second, with 32 simulations."""
    learner = AlphaZero(AlphaZeroConfig(), GAME)
    states, _ = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 60)
    opponent = learner.opponent(loop.run_of(states, 0))
    choose = eqx.filter_jit(lambda opponent, states: opponent.choose(jax.random.key(0), states))
    for side in range(2):
        lines = every_line(GAME, lambda states: choose(opponent, states), side)
        assert lines.losses == 0
        assert lines.wins > 40
    matched = jax.jit(lambda state, key: learner.strength(state, RandomOpponent(GAME), 100, key))(
        loop.run_of(states, 0), jax.random.key(1)
    )
    assert float(matched.won) > 0.7
