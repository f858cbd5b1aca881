"""Imitation: stored games become a network, and a network becomes the start of self-play."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from chainrule.agents import AgentRun, resume
from chainrule.agents.algorithms import alphazero
from chainrule.agents.algorithms.alphazero import AlphaZero, AlphaZeroConfig
from chainrule.agents.algorithms.imitation import ENTRY, Imitation, ImitationConfig
from chainrule.agents.algorithms.imitation.learner import divided
from chainrule.agents.games.tic_tac_toe import TicTacToe
from chainrule.agents.learning import loop
from chainrule.agents.records.positions import GameMoves, replayed
from chainrule.agents.training.fitting import fit
from chainrule.core.errors import ArgumentError, DataError

GAME = TicTacToe()


@pytest.fixture(scope="module")
def trained() -> tuple[Imitation, dict, dict]:
    """A small network after three hundred updates."""
    settings = {"teacher_games": 128, "teacher_simulations": 64, "teacher_drawn": 3, "held_out": 0.2}
    settings |= {"batch": 64, "updates": 100, "width": 32, "learning_rate": 5e-3}
    learner = ENTRY.build(ImitationConfig(**settings), GAME, 64)
    states, metrics = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 3)
    state = loop.run_of(states, 0)
    judged = jax.jit(lambda state: learner.evaluate(state, jax.random.key(1), 20))(state)
    return learner, metrics, {name: float(value) for name, value in judged.items()}


def test_moves_of_games_that_were_not_learnt_from_are_foreseen(trained: tuple) -> None:
    _, metrics, judged = trained
    assert metrics["policy_loss"][0, -1] < metrics["policy_loss"][0, 0] - 0.1
    # A third of the moves was drawn, and of several that are as good any is made: the rest can be foreseen.
    assert judged["return_mean"] > 0.35
    assert judged["surprisal"] < np.log(9) - 0.4
    assert judged["value_error"] < 1


def test_no_game_is_on_both_sides(trained: tuple) -> None:
    learner, *_ = trained
    ours, theirs = (set(np.asarray(each.game).tolist()) for each in (learner.learnt_from, learner.held_out))
    assert not ours & theirs
    assert len(ours | theirs) == 128
    assert len(theirs) == 26
    alone = replayed(GAME, [GameMoves("one", [0, 1, 2])])
    with pytest.raises(DataError, match="one game only"):
        divided(alone, 0.5)


def test_games_that_are_left_out_are_on_neither_side() -> None:
    wrong = [GameMoves(f"wrong {number}", [0, 0]) for number in range(17)]
    good = [GameMoves(f"good {number}", [0, 1, 2 + number]) for number in range(2)]
    ours, theirs = divided(replayed(GAME, [good[0], *wrong, good[1]], "skip"), 0.1)
    assert sorted([int(ours.game[0]), int(theirs.game[0])]) == [0, 18]
    assert (len(ours), len(theirs)) == (3, 3)
    with pytest.raises(DataError, match="one game only"):
        divided(replayed(GAME, [*wrong, good[0]], "skip"), 0.1)


def test_self_play_goes_on_from_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fit(
        "imitation", "tic-tac-toe", algorithm_settings=ENTRY.toy, steps=16, run=tmp_path / "run", seed=0
    )
    monkeypatch.chdir(tmp_path)
    short = {**alphazero.ENTRY.toy, "start": "./run", "simulations": 2, "games": 2, "moves": 2}
    played = fit(
        "alphazero",
        "tic-tac-toe",
        algorithm_settings=short,
        steps=4,
        run=tmp_path / "played",
        eval_episodes=2,
    )
    assert Path(played.config["model"]["settings"]["start"]) == run.path
    toy = {**alphazero.ENTRY.toy, "start": str(run.path)}
    learner = alphazero.ENTRY.build(AlphaZeroConfig(**toy), GAME, 64)
    begun = loop.run_of(loop.start(learner, jax.random.key(5)), 0)
    learnt = run.learner.network(run.state())
    np.testing.assert_array_equal(begun.fitted.weights.policy.weight, learnt.policy.weight)
    assert np.abs(learnt.policy.weight).max() > 0
    with pytest.raises(ArgumentError, match="another size"):
        alphazero.ENTRY.build(AlphaZeroConfig(**{**toy, "width": 8}), GAME, 64)
    assert AlphaZero(AlphaZeroConfig(**alphazero.ENTRY.toy), GAME).initial is None
    shutil.rmtree(run.path)  # what came of it is in the checkpoints of the run that began with it
    opened = AgentRun.open(played.path)
    assert opened.evaluator() is not None
    assert resume(opened, steps=8).status["step"] == 8
