"""Runs of agents: a folder that goes on where it stood, and numbers that can be believed."""

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from chainrule.agents import AgentRun, fit, resume
from chainrule.agents.training import pictures
from chainrule.agents.training.fitting import described
from chainrule.agents.training.states import restored, storable, storable_shapes
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CheckpointError, RunError
from chainrule.explain import agent_probes
from chainrule.train import Run, checkpoints, events
from chainrule.train.history import read

TOY: dict[str, Any] = {"seeds": 2, "eval_episodes": 3, "eval_every": 128, "save_every": 128, "log_every": 64}
PPO = {"environments": 2, "length": 16, "epochs": 1, "minibatches": 2, "widths": (8,)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> AgentRun:
    path = tmp_path_factory.mktemp("agents") / "toy"
    return fit("ppo", "cartpole", algorithm_settings=PPO, run=path, steps=512, **TOY)


def arrays(run: AgentRun) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(storable(run.states_at(run.checkpoints[-1])))]


def test_a_run_that_was_stopped_ends_with_the_same_bits(trained: AgentRun, tmp_path: Path) -> None:
    path = tmp_path / "toy"
    fit("ppo", "cartpole", algorithm_settings={**PPO, "anneal": False}, run=path, steps=256, **TOY)
    stopped = resume(path, steps=512)
    whole = fit(
        "ppo",
        "cartpole",
        algorithm_settings={**PPO, "anneal": False},
        run=tmp_path / "whole",
        steps=512,
        **TOY,
    )
    assert all(np.array_equal(a, b) for a, b in zip(arrays(stopped), arrays(whole), strict=True))
    assert list(stopped.seconds) == [128, 256, 384, 512]  # with what had passed before it was stopped
    assert sorted(stopped.seconds.values()) == list(stopped.seconds.values())
    assert "returns-seconds" in [picture.name for picture in pictures.learning(stopped)]
    assert read(stopped.path) == read(whole.path)
    assert stopped.status["best"] == whole.status["best"]


def test_a_damaged_checkpoint_is_left_out(trained: AgentRun, tmp_path: Path) -> None:
    path = tmp_path / "toy"
    shutil.copytree(trained.path, path)
    newest = checkpoints.path(path / "checkpoints", trained.checkpoints[-1])
    (newest / "state.safetensors").write_bytes(b"")
    again = resume(path)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(again), arrays(trained), strict=True))


def test_every_agent_is_judged_by_the_same_episodes(trained: AgentRun) -> None:
    lines = [record for record in read(trained.path) if record["split"] == "val"]
    assert [line["step"] for line in lines] == [128, 256, 384, 512]
    for line in lines:
        assert line["return_mean"] == pytest.approx((line["return.0"] + line["return.1"]) / 2)
        assert line["return_mean"] == line["episode_length"]  # a reward of 1 for every step
    best = max(lines, key=lambda line: (line["return_mean"], line["step"]))
    assert trained.status["best"]["step"] == best["step"]
    assert trained.best_agent == int(best["return.1"] > best["return.0"])


def test_scores_have_errors_between_agents(trained: AgentRun) -> None:
    found = trained.score(4)
    assert {"return_mean", "return_stochastic", "episode_length"} == set(found)
    assert found["return_mean"].stderr is not None
    assert trained.score(4) == found
    with pytest.raises(ArgumentError, match=r"score\(episodes=1\): at least 2"):
        trained.score(1)


def test_a_run_is_compared_with_another(trained: AgentRun, tmp_path: Path) -> None:
    other, twin = tmp_path / "other", trained.path.parent / "twin"
    for copy in (other, twin):
        shutil.copytree(trained.path, copy)
    for against in (str(other), "twin"):
        found = agent_probes.examine("learning", trained, against=against)
        assert found.numbers["against"] == {"probability": 0.5, "low": None, "high": None}
        assert [row[0] for row in found.table.rows] == [trained.id, Path(against).name]
        assert {"compared", "score-distribution"} <= {picture.name for picture in found.pictures}
    with pytest.raises(ArgumentError, match="the run itself"):
        agent_probes.examine("learning", trained, against=str(trained.path))
    config = other / "config.yaml"
    config.write_text(config.read_text().replace("cartpole", "acrobot"))
    with pytest.raises(ArgumentError, match="it learnt in acrobot"):
        agent_probes.examine("learning", trained, against=str(other))


def test_episodes_that_are_still_under_way_are_no_alarm(tmp_path: Path) -> None:
    short = {"environments": 2, "length": 4, "epochs": 1, "minibatches": 1, "widths": (4,)}
    run = fit(
        "ppo", "mountain-car", algorithm_settings=short, run=tmp_path / "short", steps=16, eval_episodes=2
    )
    assert not [alarm for alarm in run.alarms if alarm.name == "not finite"]
    assert "return_mean" not in read(run.path)[0]
    assert tree.first_nonfinite(storable(run.states)) is None


def test_what_is_stored_comes_back() -> None:
    state = {"key": jax.random.key(3), "x": np.arange(3.0), "name": "a word"}
    arrays = storable(state)
    assert arrays["key"].dtype == np.uint32
    back = restored(arrays, state)
    assert back["name"] == "a word"
    assert (jax.random.key_data(back["key"]) == jax.random.key_data(state["key"])).all()
    assert storable_shapes(state)["key"].shape == arrays["key"].shape


def test_the_same_folder_goes_on_and_another_run_is_refused(trained: AgentRun) -> None:
    same = fit("ppo", "cartpole", algorithm_settings=PPO, run=trained.path, steps=512, **TOY)
    assert same.status["step"] == 512
    with pytest.raises(RunError, match="holds a run with other settings"):
        fit("ppo", "acrobot", algorithm_settings=PPO, run=trained.path, steps=512, **TOY)
    with pytest.raises(ArgumentError, match="cannot end at step 100"):
        resume(trained.path, steps=100)
    with pytest.raises(ArgumentError, match=r"seeds=3: toy has begun with 2"):
        resume(trained.path, seeds=3)
    with pytest.raises(RunError, match="is a run of agents"):
        Run.open(trained.path)
    with pytest.raises(ArgumentError, match="agent=2: toy has agents 0 to 1"):
        trained.policy(2)


def test_an_agent_of_another_world_is_not_loaded(trained: AgentRun, tmp_path: Path) -> None:
    shutil.copytree(trained.path, tmp_path / "toy")
    config = tmp_path / "toy" / "config.yaml"
    config.write_text(config.read_text().replace("cartpole", "acrobot"))
    with pytest.raises(CheckpointError, match=r"network.actor.*\n.*has acrobot changed since"):
        AgentRun.open(tmp_path / "toy").score(2)


def test_what_cannot_be_learnt_leaves_no_folder(tmp_path: Path) -> None:
    for name, settings in (("ppo", {"minibatches": 3}), ("dqn", {"batch": 100, "buffer": 10})):
        with pytest.raises(ArgumentError):
            fit(name, "cartpole", algorithm_settings={**settings}, run=tmp_path / "none", steps=512)
    with pytest.raises(ArgumentError, match="unknown environment 'cartpoel'"):
        fit("ppo", "cartpoel", run=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_settings_that_depend_on_the_device_are_kept_with_the_run() -> None:
    for env, expected in (("cartpole", (4, 128, 4, 2.5e-4)), ("pendulum", (1, 2048, 32, 3e-4))):
        kept = described("ppo", env, {"epochs": 2}, {}, {})["model"]["settings"]
        found = (kept[name] for name in ("environments", "length", "minibatches", "learning_rate"))
        assert tuple(found) == expected
        assert kept["epochs"] == 2


def test_events_are_told_in_order(trained: AgentRun, tmp_path: Path) -> None:
    heard: list[events.Event] = []
    shutil.copytree(trained.path, tmp_path / "toy")
    resume(tmp_path / "toy", steps=640, listener=heard.append)
    kinds = [type(event) for event in heard]
    assert kinds[0] is events.Started
    assert kinds[-1] is events.Finished
    assert kinds.count(events.Saved) == 1
    finished = heard[-1]
    assert isinstance(finished, events.Finished)
    assert (finished.status, finished.step) == ("done", 640)
