"""Agents on the command line: from `train` to a report, a score and a run that goes on."""

import json
import shlex
from pathlib import Path

import pytest

from chainrule.agents import algorithms, sources
from chainrule.cli import agents
from chainrule.cli.arguments import parse
from tests.contracts.checks import check_card, sections

from .conftest import Command

TOY = ["ppo", "env=cartpole", "steps=256", "environments=2", "length=16", "minibatches=2", "widths=8"]
SHORT = ["eval_episodes=3", "eval_every=128", "log_every=64"]


@pytest.fixture
def trained(cli: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    ended = cli("train", *TOY, *SHORT, "run=toy", "--json")
    assert ended.code == 0, ended.err
    assert ended.last | {"path": ""} == {
        "run": "toy",
        "path": "",
        "status": "done",
        "step": 256,
        "best": ended.last["best"],
    }
    return Path("runs/toy")


def test_a_run_is_trained_scored_listed_and_gone_on_with(cli: Command, trained: Path) -> None:
    assert {"return_mean", "step"} <= json.loads((trained / "status.json").read_text())["best"].keys()
    page = (trained / "report.html").read_text()
    assert "cartpole" in page
    assert "chainrule resume toy" in page
    found = cli("score", "toy", "episodes=4", "--json").last["metrics"]
    assert found["return_mean"]["stderr"] > 0
    assert "return_mean" in cli("score", "toy", "episodes=4", "seed=1").out
    (row,) = cli("runs", "ls", "--json").last
    assert (row["model"], row["data"], row["status"]) == ("ppo", "cartpole", "done")
    assert "env      cartpole" in cli("runs", "show", "toy").out
    assert cli("resume", "toy", "steps=320", "--json").last["step"] == 320
    assert cli("runs", "rm", "toy", "--yes").code == 0


def test_a_recipe_repeats_the_run(cli: Command, trained: Path) -> None:
    again = cli("train", f"config={trained / 'config.yaml'}", "run=again", "--json")
    assert again.last["best"] == json.loads((trained / "status.json").read_text())["best"]
    assert (trained / "metrics.jsonl").read_text() == Path("runs/again/metrics.jsonl").read_text()


def test_a_run_to_begin_with_is_looked_for_where_runs_are(cli: Command, trained: Path) -> None:
    Path("elsewhere").mkdir()
    trained.rename("elsewhere/toy")
    words = ["train", "ppo", "env=cartpole", "widths=8", "runs=elsewhere", "--dry-run"]
    begun = cli(*words, "start=to")
    assert begun.code == 0, begun.err
    assert f"start={Path('elsewhere/toy').resolve()}" in begun.out
    assert "there is no run 'nobody' in elsewhere" in cli(*words, "start=nobody").err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ppo", "env=cartpoel"], "did you mean 'cartpole'?"),
        (["ppo", "env=cartpole", "stpes=3"], "did you mean 'steps'?"),
        (["ppo", "env=cartpole", "env.gravty=3"], "did you mean 'gravity'?"),
        (["ppo", "env=cartpole", "env.name=3"], "unknown setting 'name'"),
        (["ppo", "env=cartpole", "wrap.frame=3"], "did you mean 'wrap.frames'?"),
        (["tabular", "env=cliff-walking", "wrap.frames=3"], "leave it out, or use dqn or ppo"),
        (["ppo", "data=digits"], "agents learn from an environment"),
        (["ppo", "env=cartpole", "minibatches=7"], "minibatches"),
        (["dqn", "env=pendulum"], "sac or ppo"),
        (["ppo", "env=tic-tac-toe"], "chainrule train alphazero env=tic-tac-toe"),
        (["alphazero", "env=bandit"], "bandit is none"),
        (["ppo", "env=pendulum", "gamma=1"], "pendulum never ends by itself"),
        (["ppo", "env=cartpole", "--find-lr"], "not for agents"),
        (["ppo", "env=nowhere.py"], "nowhere.py"),
    ],
)
def test_what_cannot_be_is_said_and_leaves_nothing(cli: Command, words: list[str], said: str) -> None:
    ended = cli("train", *words)
    assert ended.code == 2
    assert said in ended.err
    assert not list(Path().glob("runs/*"))


@pytest.mark.parametrize("name", algorithms.names())
def test_cards_have_their_headings_figures_and_commands_that_can_be_typed(name: str) -> None:
    card = algorithms.card(name)
    check_card(card, name)
    assert "FIGURES" not in card
    commands = [shlex.split(line) for line in sections(card)["Use it"].splitlines() if line != "```"]
    assert ["chainrule", "train", name] in [words[:3] for words in commands]
    for words in commands:
        algorithm, env, *_ = agents.request(parse(words[2:]))
        assert algorithm in algorithms.names()
        assert env in sources.names()


def test_other_verbs_say_what_is_for_agents(cli: Command, trained: Path) -> None:
    ended = cli("sample", "toy")
    assert ended.code == 2
    assert "is a run of agents" in ended.err
    assert "did you mean 'episodes'" in cli("score", "toy", "episode=3").err


def test_lists_and_help_know_agents(cli: Command) -> None:
    rows = cli("models", "ls", "--json").last
    assert set(algorithms.names()) == {row["name"] for row in rows if row["family"] == "agents"}
    for name in algorithms.names():
        assert cli("models", "show", name, "--json").last["settings"]
    assert "env.gravity" in cli("data", "show", "cartpole").out
    assert "tic-tac-toe" in cli("data", "ls").out
    assert "env.komi" in cli("data", "show", "go").out
    help = cli("train", "ppo", "--help").out
    assert "eval_episodes" in help
    assert "minibatches" in help
    assert "wrap.normalise_observations" in help
    planned = cli("train", *TOY, "wrap.frames=4", "wrap.reward_scale=0.1", "--dry-run", "--json").last
    assert planned["train"]["steps"] == 256
    assert planned["env"]["wrappers"] == {"reward_scale": 0.1, "frames": 4}
