"""Behaviour cloning: episodes become a policy with the values they show, and a policy becomes the start of PPO."""

import math
import shutil
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import AgentRun, algorithms, envs, fit, resume
from chainrule.agents.algorithms.behaviour_cloning import ENTRY, CloningConfig
from chainrule.agents.algorithms.behaviour_cloning.teachers import SolvedPolicy, episodes_for
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.learning import loop
from chainrule.agents.learning.policies import GaussianActions
from chainrule.agents.mdp import enumerated
from chainrule.agents.records.episodes import divided_episodes, steps_of
from chainrule.agents.training.states import storable
from chainrule.core.errors import ArgumentError, DataError

LAKE = envs.vector_observations(envs.make("frozen-lake", slippery=False))
SMALL: dict[str, Any] = {"episodes": 4, "batch": 16, "updates": 100, "widths": (16,), "gamma": 0.9}


def test_the_best_actions_are_learnt_with_what_comes_of_them() -> None:
    config = CloningConfig(**SMALL, learning_rate=0.01)
    learner = ENTRY.build(config, LAKE, 3200)
    state, seen = eqx.filter_jit(learner.iterate)(learner.start(jax.random.key(0)))
    state, seen = eqx.filter_jit(learner.iterate)(state)
    assert float(seen["held_out_same"]) == 1
    assert float(seen["policy_loss"]) < 0.1
    policy = learner.policy(state)
    assert evaluate(policy, LAKE, jax.random.split(jax.random.key(1), 2)).returns.tolist() == [1, 1]
    exact = enumerated(LAKE.env).solve(0.9).values  # type: ignore[attr-defined]
    first = policy.act(jax.random.key(0), jax.nn.one_hot(0, 16), (), greedy=True)
    assert float(first.value) == pytest.approx(exact[0], abs=0.1)


def test_returns_are_known_where_nothing_is_missing() -> None:
    recordings = episodes_for(CloningConfig(episodes=3), LAKE)
    steps = steps_of(recordings, 0.5)
    assert len(steps) == 18  # three times six steps to the goal
    np.testing.assert_allclose(steps.outcome[:6], 0.5 ** np.arange(5, -1, -1))
    assert steps.known.all()
    cut = [type(one)(**{**vars(one), "terminated": False}) for one in recordings]
    # 0.5^5 is the first power below 5 %: the last four steps of each do not know what would have come.
    assert steps_of(cut, 0.5).known.tolist() == 3 * [1, 1, 0, 0, 0, 0]
    learnt, held = divided_episodes(steps, 0.1)
    assert (len(learnt), len(held)) == (12, 6)
    assert not set(learnt.episode.tolist()) & set(held.episode.tolist())
    with pytest.raises(DataError, match="one episode only"):
        divided_episodes(steps_of(recordings[:1], 0.5), 0.1)


def test_bounded_actions_are_taken_back_to_what_was_drawn() -> None:
    actions = GaussianActions(np.array([-2.0, 0.0]), np.array([2.0, 1.0]))
    drawn = jnp.array([[0.3, -1.0], [0.0, 2.0]])
    np.testing.assert_allclose(actions.drawn(actions.action(drawn)), drawn, rtol=1e-4, atol=1e-5)
    assert np.isfinite(actions.drawn(jnp.array([[2.0, 0.0]]))).all()
    free = GaussianActions(np.array([-math.inf]), np.array([math.inf]))
    assert free.drawn(jnp.array([[3.0]])).tolist() == [[3.0]]


def test_who_is_learnt_from_has_to_be_named(tmp_path: Path) -> None:
    cartpole = envs.make("cartpole")
    for settings, error, says in (
        ({}, ArgumentError, "teacher=RUN"),
        ({"records": "a", "teacher": "b"}, ArgumentError, "give one of them"),
        ({"records": str(tmp_path)}, DataError, "no recorded episodes"),
    ):
        with pytest.raises(error, match=says):
            ENTRY.build(CloningConfig(**settings), cartpole, 64)
    normalised = envs.wrappers.NormalizeObservation(cartpole)
    with pytest.raises(ArgumentError, match="takes no steps"):
        ENTRY.build(CloningConfig(), normalised, 64)
    solved = SolvedPolicy(jnp.array([1, 0]), jnp.array([2.0, 3.0]), 2)
    decision = solved.act(jax.random.key(0), jnp.array([0.0, 1.0]), (), greedy=True)
    assert (int(decision.action), float(decision.value)) == (0, 3)


@pytest.mark.slow
def test_runs_teach_and_rewards_go_on_from_there(tmp_path: Path) -> None:
    quick = {"eval_episodes": 2, "run": tmp_path}
    teacher = fit(
        "ppo",
        "pendulum",
        algorithm_settings={**algorithms.entry("ppo").toy},
        steps=64,
        **{**quick, "run": tmp_path / "teacher"},
    )
    for name, one in teacher.recordings.items():
        one.save(teacher.path / "episodes" / name)
    own = {"episodes": 2, "batch": 16, "updates": 2, "widths": (8, 8)}
    taught = fit(
        "behaviour-cloning",
        "pendulum",
        algorithm_settings={**own, "teacher": str(teacher.path)},
        steps=64,
        **{**quick, "run": tmp_path / "taught"},
    )
    read = fit(
        "behaviour-cloning",
        "pendulum",
        algorithm_settings={**own, "records": str(teacher.path / "episodes")},
        steps=64,
        **{**quick, "run": tmp_path / "read"},
    )
    assert len(read.learner.learnt_from) == 2 * len(read.learner.held_out) == 400  # type: ignore[attr-defined]
    begun = fit(
        "ppo",
        "pendulum",
        algorithm_settings={**algorithms.entry("ppo").toy, "start": str(taught.path)},
        steps=32,
        **{**quick, "run": tmp_path / "begun"},
    )
    first = loop.run_of(begun.beginning(), 0).network
    shutil.rmtree(taught.path)
    assert np.isfinite(resume(begun.path, steps=64).status["best"]["return_mean"])
    assert np.isfinite(AgentRun.open(begun.path).score(2)["return_mean"].value)
    for mine, fresh in zip(
        jax.tree.leaves(storable(first)),
        jax.tree.leaves(storable(loop.run_of(AgentRun.open(begun.path).beginning(), 0).network)),
        strict=True,
    ):
        assert mine.shape == fresh.shape
    with pytest.raises(ArgumentError, match="another size"):
        fit(
            "ppo",
            "pendulum",
            algorithm_settings={**algorithms.entry("ppo").toy, "start": str(read.path), "widths": (4,)},
            run=tmp_path / "none",
        )
