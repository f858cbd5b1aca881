"""`chainrule play`: a game from standard input, with everything that can be typed."""

import io
import json
from pathlib import Path

import pytest

from chainrule.agents import algorithms, fit

from .conftest import Command


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("players")
    settings = dict(algorithms.entry("alphazero").toy)
    steps = algorithms.entry("alphazero").toy_steps
    fit(
        "alphazero",
        "tic-tac-toe",
        algorithm_settings=settings,
        run=folder / "toy",
        steps=steps,
        eval_episodes=2,
    )
    return folder


def typed(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*lines, ""])))


def test_a_whole_game_can_be_played(
    cli: Command, player: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = [f"runs={player}", "simulations=4"]
    moves = [
        "back",
        "why",
        "HINT",
        "b2",
        "Why",
        "nowhere",
        "b2",
        "moves",
        "back",
        "b2",
        "save half.json",
        "save nowhere/half.json",
        "save half.sgf",
        "resign",
    ]
    typed(monkeypatch, *moves)
    ended = cli("play", "toy", *words, f"out={tmp_path / 'game.json'}")
    assert ended.code == 0, ended.err
    for said in (
        "you have made no move yet",
        "hint     ",
        "no move has been made yet",
        "why      ",
        "visits   ",
        "'nowhere' is no move of tic-tac-toe",
        "this move is not legal here",
        "legal    ",
        "there is no folder 'nowhere' to save the game in",
        "SGF is for games of Go",
        "plays",
        "won after",
    ):
        assert said in ended.out
    assert json.loads((tmp_path / "game.json").read_text())["moves"][0] == "b2"
    assert Path("half.json").exists()


@pytest.mark.parametrize("against", ["random", "greedy", "minimax:2", "search"])
def test_it_plays_others_while_one_watches(cli: Command, player: Path, against: str) -> None:
    ended = cli("play", "toy", f"runs={player}", "simulations=4", "side=none", f"against={against}")
    assert ended.code == 0, ended.err
    assert "a draw" in ended.out or "won after" in ended.out


def test_one_may_leave_at_any_time(cli: Command, player: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side, moves in (("first", 0), ("second", 1), ("both", 0)):
        typed(monkeypatch, "quit")
        ended = cli("play", "toy", f"runs={player}", "simulations=4", f"side={side}")
        assert f"left     after {moves} moves" in ended.out
    typed(monkeypatch)
    assert cli("play", "toy", f"runs={player}", "simulations=4").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["side=third"], "side"),
        (["against=god"], "there is no such opponent"),
        (["simulation=3"], "did you mean 'simulations'"),
        (["seed=4294967296"], "a seed is between 0 and 4294967295"),
        (["seed=99999999999999999999"], "a seed is between 0 and 4294967295"),
        (["simulations=1000000000"], "simulations=100000 at most"),
        (["against=minimax:99999999999999"], "a depth of 1 to 6"),
    ],
)
def test_slips_are_said(cli: Command, player: Path, words: list[str], said: str) -> None:
    ended = cli("play", "toy", f"runs={player}", *words)
    assert ended.code == 2
    assert said in ended.err


def test_a_run_of_a_game_is_examined(cli: Command, player: Path) -> None:
    found = cli(
        "probe", "toy", "tree-search", f"runs={player}", "moves=b2,a1", "simulations=8", "--json"
    ).last
    assert sum(found["results"]["tree-search"]["numbers"]["visits"].values()) == 8
    assert cli("probe", "toy", "episodes", f"runs={player}").code == 2
    assert "moves" in cli("probe", "toy", "tree-search", "--help").out
