import json
import os
import shutil
import time
from pathlib import Path

import pytest

import chainrule as cr
from chainrule.train import Run

from .conftest import Command


def test_runs_are_listed_by_contract(cli: Command, trained: Path) -> None:
    (row,) = cli("runs", "ls", "--json").last
    contract = {"id": "toy", "model": "mlp", "data": "moons", "status": "done", "step": 20}
    assert {name: row[name] for name in contract} == contract
    assert row["best"] == Run.open(trained).status["best"]
    day = time.strftime("%Y-%m-%d", time.localtime(row["date"]))
    *facts, day_shown, _clock, seconds, best = cli("runs", "ls").out.splitlines()[1].split()
    assert [*facts, day_shown] == ["toy", "mlp", "moons", "done", "20", day]
    assert seconds.endswith("s")
    assert float(best) == pytest.approx(row["best"]["loss"], rel=0.01)


def test_runs_are_listed_in_the_order_that_is_asked_for(cli: Command, trained: Path) -> None:
    shutil.copytree(trained, trained.with_name("a"))
    os.utime(trained.with_name("a") / "config.yaml", (0, 0))  # by far the oldest
    (trained / "status.json").write_text(
        (trained / "status.json").read_text().replace('"loss": ', '"loss": 100')
    )
    for word, expected in {
        "": ["a", "toy"],
        "sort=-date": ["toy", "a"],
        "sort=name": ["a", "toy"],
        "sort=-best": ["toy", "a"],
        "sort=duration": ["a", "toy"],
    }.items():
        rows = cli("runs", "ls", *filter(None, [word]), "--json").last
        assert [row["id"] for row in rows] == expected, word
    (trained / "status.json").write_text(
        (trained / "status.json").read_text().replace('"loss": ', '"other": ')
    )
    for word in ("sort=best", "sort=-best"):  # what was never judged is neither the best nor the worst
        assert [row["id"] for row in cli("runs", "ls", word, "--json").last] == ["a", "toy"], word
    wrong = cli("runs", "ls", "sort=modle")
    assert wrong.code == 2
    assert "sort=modle: there is no such order (did you mean 'model'?)" in wrong.err


def test_without_runs_the_way_to_begin_is_told(cli: Command) -> None:
    assert cli("runs", "ls").out == "no runs in runs   begin with: chainrule train\n"
    assert cli("runs", "ls", "--json").last == []


def test_the_folder_of_the_runs_can_be_named_by_word_or_environment(
    cli: Command, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move("runs", "other")
    assert cli("runs", "ls", "--json").last == []
    assert [row["id"] for row in cli("runs", "ls", "runs=other", "--json").last] == ["toy"]
    monkeypatch.setenv("CHAINRULE_RUNS", "other")
    assert [row["id"] for row in cli("runs", "ls", "--json").last] == ["toy"]


def test_a_damaged_run_does_not_hide_the_others(cli: Command, trained: Path) -> None:
    broken = Path("runs/broken")
    broken.mkdir()
    (broken / "config.yaml").write_text("model: [")
    result = cli("runs", "ls", "--json")
    assert result.code == 0
    assert [row["id"] for row in result.last] == ["toy"]
    assert "broken" in result.err


def test_a_run_is_shown_with_state_numbers_and_settings(cli: Command, trained: Path) -> None:
    (trained / "report.html").touch()
    text = cli("runs", "show", "toy").out
    assert "status   done at step 20 of 20" in text
    assert "best     val loss" in text
    assert "model    mlp  depth=3  width=8" in text
    assert "optimizer.lr=0.001" in text
    assert "report   runs/toy/report.html" in text
    shown = cli("runs", "show", "toy", "--json").last
    assert shown["config"] == Run.open(trained).config
    assert shown["last"]["train"]["step"] == 20
    assert shown["last"]["val"]["loss"] > 0


def test_the_layers_of_a_run_are_shown_and_listed(cli: Command, trained: Path) -> None:
    run = Run.open(trained)
    found = cli("runs", "show", "toy", "--summary", "--json").last
    assert found["layers"][-1]["layer"] == "head"
    assert found == json.loads(json.dumps(cr.summary(run).to_json() | {"name": "mlp"}))
    assert cli("runs", "show", "toy", "--summary").out.splitlines()[0] == "mlp   input 2"


@pytest.mark.parametrize("name", ["toy", "toy/", "t", "runs/toy", "./runs/toy/"])
def test_a_run_can_be_named_in_several_ways(cli: Command, trained: Path, name: str) -> None:
    assert cli("runs", "show", name, "--json").last["id"] == "toy"


def test_two_runs_differ_in_what_was_changed(cli: Command, trained: Path) -> None:
    other = Path(shutil.copytree(trained, "runs/other"))
    config, status = other / "config.yaml", other / "status.json"
    config.write_text(config.read_text().replace("lr: 0.001", "lr: 0.1").replace("width: 8", "width: 9"))
    status.write_text(json.dumps({**json.loads(status.read_text()), "best": {"loss": 0.125, "step": 10}}))
    found = cli("runs", "diff", "toy", "other", "--json").last
    assert found["runs"] == ["toy", "other"]
    assert found["settings"] == {"width": [8, 9], "optimizer.lr": [0.001, 0.1]}
    assert found["numbers"]["best.loss"][1] == 0.125
    assert "train.loss" not in found["numbers"]
    text = cli("runs", "diff", "toy", "other").out
    assert ["optimizer.lr", "0.001", "0.1"] in [line.split() for line in text.splitlines()]
    assert "same settings and the same numbers" in cli("runs", "diff", "toy", "toy").out


def test_a_run_is_removed_after_a_yes(cli: Command, trained: Path) -> None:
    refused = cli("runs", "rm", "toy")
    assert refused.code == 2
    assert refused.err == "error: removing toy needs a yes\n       add --yes\n"
    assert trained.exists()
    removed = cli("runs", "rm", "toy", "--yes")
    assert removed.code == 0
    assert removed.out.startswith("removed  runs/toy")
    assert not trained.exists()
    assert cli("runs", "rm", "toy", "--yes").code == 2


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 0), ("", 130)])
def test_on_a_terminal_the_question_is_asked(
    cli: Command, trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str, code: int
) -> None:
    (tmp_path / "answer").write_text(answer)
    with (tmp_path / "answer").open() as keyboard:
        monkeypatch.setattr("sys.stdin", keyboard)
        monkeypatch.setattr("chainrule.cli.runs._a_person_is_there", lambda: True)
        result = cli("runs", "rm", "toy")
    assert "Remove runs/toy" in result.out
    assert result.code == code
    assert trained.exists() is not answer.startswith("y")


def test_only_a_real_run_folder_is_removed(cli: Command, trained: Path, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    keep.mkdir()
    (keep / "config.yaml").write_text("model: {}\ndata: {}\ntrain: {}\n")
    assert "it has no status.json" in cli("runs", "rm", str(keep), "--yes").err
    (tmp_path / "plain").mkdir()
    assert "there is no run" in cli("runs", "rm", str(tmp_path / "plain"), "--yes").err
    Path("runs/link").symlink_to(trained.resolve())
    assert "is a link" in cli("runs", "rm", "link", "--yes").err
    assert keep.exists()
    assert (trained / "config.yaml").exists()


def test_removal_never_follows_a_link_out_of_the_folder(cli: Command, trained: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("keep me")
    (trained / "samples").symlink_to(outside)
    (trained / "note").symlink_to(outside / "file")
    assert cli("runs", "rm", "toy", "--yes").code == 0
    assert not trained.exists()
    assert (outside / "file").read_text() == "keep me"
