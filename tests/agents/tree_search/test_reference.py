"""The readable search, against figures worked out elsewhere."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import games, search
from chainrule.agents.games.boards import BoardGame
from chainrule.agents.tree_search import Noise, reference
from chainrule.agents.tree_search.prior import visit_policy, with_noise
from chainrule.core.errors import ArgumentError
from tests.agents.tree_search.conftest import Positions

GAME = games.make("tic-tac-toe")


@final
class OneMove(BoardGame[Any]):
    """Three moves, each of which ends the game."""

    name = "one-move"
    actions = 3
    longest = 1
    board_shape = (1, 3)

    def init(self) -> Any:
        return jnp.int32(-1)

    def advance(self, state: Any, action: Any) -> Any:
        return action

    def legal_mask(self, state: Any) -> Any:
        return jnp.ones(3, bool)

    def current_player(self, state: Any) -> Any:
        return (state >= 0).astype(jnp.int32)

    def terminated(self, state: Any) -> Any:
        return state >= 0

    def rewards(self, state: Any) -> Any:
        value = jnp.where(state >= 0, jnp.array([0.1, 0.5, -0.2])[state], 0.0)
        return jnp.stack([value, -value])

    def stones(self, state: Any) -> Any:
        return jnp.zeros((1, 3), jnp.int32)

    def symmetries(self) -> Any:
        return ()

    def move_name(self, action: int) -> str:
        return str(action)


def uniform(state: Any) -> tuple[np.ndarray, float]:
    return np.ones(9), 0.0


def test_moves_are_looked_at_in_the_order_of_the_formula() -> None:
    game = OneMove()
    picks = []
    before = np.zeros(3, int)
    for simulations in range(1, 11):
        visits = search(game, game.init(), lambda _: ([0.5, 0.3, 0.2], 0.0), simulations=simulations).visits
        picks.append(int((visits - before).argmax()))
        before = visits
    assert picks == [0, 0, 1, 1, 1, 1, 1, 1, 1, 2]


@pytest.mark.parametrize(("simulations", "visits"), [(50, [7, 42, 1]), (800, [34, 759, 7])])
def test_visits_go_to_the_better_move(simulations: int, visits: list[int]) -> None:
    game = OneMove()
    found = search(game, game.init(), lambda _: ([0.5, 0.3, 0.2], 0.0), simulations=simulations)
    assert found.visits.tolist() == visits
    assert found.policy == pytest.approx(found.visits / simulations)
    assert found.q == pytest.approx([0.1, 0.5, -0.2])
    assert found.value == pytest.approx(found.visits @ [0.1, 0.5, -0.2] / simulations)
    assert found.principal_variation == (1,)


def lines(positions: Positions, player: int, simulations: int) -> list[int]:
    """Different final positions won, drawn and lost by the search against everything that the other can do."""
    ends: dict[int, float] = {}
    seen = set()
    waiting = [positions.of(0)]
    while waiting:
        state = waiting.pop()
        i = positions.number[state.board.tobytes()]
        if i in seen:
            continue
        seen.add(i)
        if positions.over[i]:
            ends[i] = positions.rewards[i, player]
            continue
        actions = np.flatnonzero(positions.legal[i])
        if positions.player[i] == player:
            found = reference.search(GAME, state, uniform, simulations=simulations)
            actions = np.array([found.visits.argmax()])
        waiting += [positions.look(GAME, state, action)[0] for action in actions]
    results = np.array(list(ends.values()))
    return [int((results == wanted).sum()) for wanted in (1, 0, -1)]


@pytest.mark.parametrize(
    ("player", "simulations", "expected"),
    [
        (0, 200, [52, 2, 0]),
        pytest.param(1, 200, [155, 15, 13], marks=pytest.mark.slow),
        pytest.param(0, 2000, [53, 2, 0], marks=pytest.mark.slow),
    ],
)
def test_results_against_every_line(
    positions: Positions, player: int, simulations: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_look", positions.look)
    monkeypatch.setattr(jax, "device_get", lambda x: x)  # all is NumPy already
    assert lines(positions, player, simulations) == expected


@pytest.mark.parametrize(("player", "losses"), [(0, 31), pytest.param(1, 88, marks=pytest.mark.slow)])
def test_values_that_keep_their_sign_lose_many_lines(
    positions: Positions, player: int, losses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "_look", positions.look)
    monkeypatch.setattr(jax, "device_get", lambda x: x)
    monkeypatch.setattr(reference, "seen_by", lambda player, other, value: value)
    assert lines(positions, player, 200)[2] == losses


def test_a_position_is_one_node_however_it_came_about() -> None:
    counted = []

    def evaluate(state: Any) -> tuple[np.ndarray, float]:
        counted.append(state)
        return np.ones(9), 0.0

    search(GAME, GAME.init(), evaluate, simulations=120)
    merged = len(counted)
    counted.clear()
    search(GAME, GAME.init(), evaluate, simulations=120, transpositions=False)
    assert len(counted) == 121
    assert merged == 121  # every simulation still ends at a new position
    assert len({state.board.tobytes() for state in counted}) < 121


def test_an_illegal_move_is_never_looked_at_whatever_the_prior() -> None:
    state = GAME.play(GAME.init(), "b2")
    prior = np.zeros(9)
    prior[4] = 1.0
    found = search(GAME, state, lambda _: (prior, 0.0), simulations=16)
    assert found.visits[4] == 0
    assert found.visits.sum() == 16
    assert (found.visits[np.arange(9) != 4] == 2).all()  # what is left of the prior is uniform


def test_noise_falls_on_legal_moves_alone() -> None:
    legal = np.array([True, False, True, True])
    prior = legal / 3
    noise = Noise(0.03, fraction=0.25)
    drawn = jax.vmap(lambda key: with_noise(key, jnp.asarray(prior), jnp.asarray(legal), noise))(
        jax.random.split(jax.random.key(0), 500)
    )
    drawn = np.asarray(drawn)
    assert (drawn[:, 1] == 0).all()
    assert np.isfinite(drawn).all()
    np.testing.assert_allclose(drawn.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(drawn.mean(0), prior, atol=0.03)
    assert (drawn[:, legal] >= 0.75 / 3 - 1e-6).all()
    found = search(
        GAME, GAME.init(), uniform, simulations=5, noise=Noise.for_game(GAME), key=jax.random.key(3)
    )
    assert found.tree.prior.std() > 0


def test_temperature_shapes_the_policy_without_overflow() -> None:
    visits = jnp.array([1000.0, 900.0, 1000.0, 0.0])
    np.testing.assert_allclose(visit_policy(visits, 1e-4), [0.5, 0, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(visit_policy(visits, 0.0), [0.5, 0, 0.5, 0])
    np.testing.assert_allclose(visit_policy(visits, 2.0), np.sqrt(visits) / np.sqrt(visits).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"simulations": 0},
        {"simulations": 8, "c": -1.0},
        {"simulations": 8, "temperature": -0.5},
        {"simulations": 8, "noise": Noise(0.3)},
        {"simulations": 8, "noise": Noise(0.0), "key": jax.random.key(0)},
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        search(GAME, GAME.init(), uniform, **wrong)


def test_an_ended_game_is_not_searched() -> None:
    state = GAME.init()
    for move in ("a1", "a2", "b1", "b2", "c1"):
        state = GAME.play(state, move)
    with pytest.raises(ArgumentError, match="ended"):
        search(GAME, state, uniform, simulations=4)
