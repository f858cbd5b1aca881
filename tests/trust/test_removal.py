"""Only the run that was named in full is removed or changed, never one whose name begins like it."""

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Command


@pytest.fixture
def runs(cli: Command, finished: Path) -> Path:
    """Runs whose names begin alike."""
    for name in ("exp-1", "exp-12", "exp-2", "other"):
        shutil.copytree(finished, f"runs/{name}")
    return Path("runs")


def left(runs: Path) -> list[str]:
    return sorted(path.name for path in runs.iterdir())


def test_removing_a_run_twice_does_not_take_the_next_one(cli: Command, runs: Path) -> None:
    assert cli("runs", "rm", "exp-1", "--yes").code == 0
    again = cli("runs", "rm", "exp-1", "--yes")
    assert again.code == 2
    assert "there is no run 'exp-1'" in again.err
    assert "exp-12" in again.err
    assert left(runs) == ["exp-12", "exp-2", "other"]


@pytest.mark.parametrize("word", ["exp", "oth", "exp-1*x", "runs/exp", "", "."])
def test_what_names_no_run_in_full_removes_nothing(cli: Command, runs: Path, word: str) -> None:
    assert cli("runs", "rm", word, "--yes").code == 2
    assert left(runs) == ["exp-1", "exp-12", "exp-2", "other"]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["exp-*"], ["other"]),
        (["exp-?"], ["exp-12", "other"]),
        (["exp-1", "other"], ["exp-12", "exp-2"]),
        (["exp-1", "runs/exp-1/", "exp-1*"], ["exp-2", "other"]),
    ],
)
def test_patterns_and_several_names_remove_what_they_say(
    cli: Command, runs: Path, words: list[str], kept: list[str]
) -> None:
    done = cli("runs", "rm", *words, "--yes")
    assert done.code == 0, done.err
    assert left(runs) == kept


def test_one_run_that_cannot_be_removed_keeps_them_all(cli: Command, runs: Path) -> None:
    (runs / "exp-2" / "status.json").unlink()
    assert cli("runs", "rm", "exp-*", "--yes").code == 2
    assert cli("runs", "rm", "exp-1", "exp-3", "--yes").code == 2
    assert left(runs) == ["exp-1", "exp-12", "exp-2", "other"]


def test_a_run_is_gone_on_with_only_under_its_whole_name(cli: Command, runs: Path) -> None:
    before = (runs / "other" / "status.json").read_bytes()
    refused = cli("resume", "oth", "steps=20")
    assert refused.code == 2
    assert "names that begin like this: other" in refused.err
    assert (runs / "other" / "status.json").read_bytes() == before
    assert cli("runs", "show", "oth").code == 0
