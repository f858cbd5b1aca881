"""Runs in wrapped environments: what wrappers have gathered is saved, and agents are judged by what is earned."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import AgentRun, algorithms, envs, fit, resume
from chainrule.agents.envs import Box, Discrete, Environment, HasLegalActions, TimeStep
from chainrule.agents.envs.wrappers import (
    FrameStack,
    NormalizeObservation,
    TimeLimit,
    WrapperSettings,
    wrapped,
)
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.evaluation.recording import Recording
from chainrule.agents.learning import loop
from chainrule.agents.learning.base import HasWorlds
from chainrule.agents.training import pictures
from chainrule.agents.training.judging import judged_in
from chainrule.agents.training.states import storable
from chainrule.core.errors import ArgumentError
from chainrule.explain import agent_probes

PPO = {"environments": 2, "length": 16, "epochs": 1, "minibatches": 2, "widths": (8,)}
TOY: dict[str, Any] = {"eval_episodes": 2, "eval_every": 64, "save_every": 64, "log_every": 64}
AROUND = {"normalise_observations": True, "frames": 2, "reward_scale": 0.01, "limit": 40}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> AgentRun:
    path = tmp_path_factory.mktemp("wrapped") / "toy"
    return fit("ppo", "cartpole", algorithm_settings=PPO, wrappers=AROUND, run=path, steps=128, **TOY)


@pytest.mark.slow
def test_an_agent_is_judged_by_its_own_moments_and_by_what_is_earned(trained: AgentRun) -> None:
    env = trained.judged_in()
    assert isinstance(env, FrameStack)
    assert isinstance(env.env, NormalizeObservation)
    assert isinstance(env.env.env, TimeLimit)  # rewards are not scaled when judging
    assert env.env.moments is not None
    assert float(env.env.moments.number) > 128  # steps of both worlds, and first observations
    found = trained.score(2)
    assert found["return_mean"].value == found["episode_length"].value <= 40
    assert trained.threshold is None
    (kept,) = {one.score for one in trained.recordings.values() if one is trained.recordings["best"]}
    assert kept == len(trained.recordings["best"])


@pytest.mark.slow
def test_what_wrappers_have_gathered_is_saved_with_the_agent(trained: AgentRun, tmp_path: Path) -> None:
    settings = {**PPO, "anneal": False}
    stopped = fit(
        "ppo", "cartpole", algorithm_settings=settings, wrappers=AROUND, run=tmp_path / "a", steps=64, **TOY
    )
    gone_on = resume(stopped, steps=128)
    whole = fit(
        "ppo", "cartpole", algorithm_settings=settings, wrappers=AROUND, run=tmp_path / "b", steps=128, **TOY
    )
    for one, other in zip(
        *(jax.tree.leaves(storable(run.states_at(128))) for run in (gone_on, whole)), strict=True
    ):
        assert np.array_equal(one, other)
    opened = AgentRun.open(whole.path)
    assert opened.config["env"]["wrappers"] == AROUND
    assert agent_probes.examine("episodes", opened, episodes=2, frames=2, step=64).findings
    pictures.episodes(opened)
    (kept,) = sorted((opened.path / "episodes").glob("step-*"))
    for folder, step in ((kept, int(kept.name[5:])), (kept.parent, opened.step)):
        again = Recording.load(folder / "median", opened.judged_in(step=step))
        now = opened.recordings_at(step)["median"]
        for one, other in zip(*(jax.tree.leaves(each.states) for each in (again, now)), strict=True):
            assert np.array_equal(one, other)
    assert agent_probes.examine("learning", opened, against=str(stopped.path)).findings


@pytest.mark.parametrize("name", [pytest.param("reinforce", marks=pytest.mark.slow), "dqn", "tabular"])
def test_every_kind_of_learner_hands_its_moments_on(name: str) -> None:
    entry = algorithms.entry(name)
    around = WrapperSettings(
        **({"normalise_returns": True} if name == "tabular" else {"normalise_observations": True})
    )
    env = wrapped(envs.make(entry.toy_env), around, gamma=0.9, whole_numbers=entry.whole_numbers)
    toy = {**entry.toy, **({"episodes": 2, "horizon": 8} if name == "reinforce" else {})}
    learner = entry.build(algorithms.configure(name, **toy), env, 128)
    state = loop.run_of(loop.start(learner, jax.random.key(0)), 0)
    assert isinstance(learner, HasWorlds)
    iterate = jax.jit(learner.iterate)
    counts = []
    for _ in range(2):
        state, _ = iterate(state)
        counts.append(float(learner.worlds(state).moments.number.sum()))
    assert counts[1] >= counts[0] + learner.steps_per_iteration
    judged = judged_in(learner, env, state)
    assert judged is not env
    if name == "dqn":
        np.testing.assert_array_equal(judged.moments.number, counts[1])


class Guarded(Environment[Any], HasLegalActions):
    """Action 1 is never legal."""

    @property
    def params(self) -> Any:
        return ()

    @property
    def observation_space(self) -> Box:
        return Box(0, 1, (1,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: Any, params: Any) -> tuple[Any, Any]:
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def advance(self, key: Any, state: Any, action: Any, params: Any) -> TimeStep:
        over = state >= 7
        return TimeStep(state + 1, jnp.zeros(1), -jnp.float32(action), over, jnp.zeros((), bool), {})

    def legal(self, state: Any) -> Any:
        return jnp.array([True, False])


@pytest.mark.parametrize("name", [pytest.param("ppo", marks=pytest.mark.slow), "dqn"])
def test_actions_that_are_not_legal_stay_so_inside_wrappers(name: str) -> None:
    env = wrapped(Guarded(), WrapperSettings(limit=5, frames=2), gamma=0.9)
    entry = algorithms.entry(name)
    learner = entry.build(algorithms.configure(name, **entry.toy), env, 128)
    state, seen = jax.jit(learner.iterate)(learner.start(jax.random.key(0)))
    assert float(seen["return_mean"]) == 0
    keys = jax.random.split(jax.random.key(1), 3)
    assert not np.asarray(evaluate(learner.policy(state), env, keys, greedy=False).returns).any()


def test_wrappers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for name, env, around, says in (
        ("tabular", "cliff-walking", {"frames": 2}, "frames: a table needs"),
        ("alphazero", "tic-tac-toe", {"frames": 2}, "frames: wrappers are for environments"),
        ("ppo", "cartpole", {"frame": 2}, "did you mean 'frames'"),
        ("ppo", "cartpole", {"sticky": 2}, "sticky"),
    ):
        with pytest.raises(ArgumentError, match=says):
            fit(name, env, wrappers=around, run=tmp_path / "none")
