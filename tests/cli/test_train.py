import dataclasses
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from chainrule import models
from chainrule.cli.training import what_next
from chainrule.data.schema import Schema
from chainrule.models.supervised import mlp as registered
from chainrule.train import Run, beginning
from chainrule.train.config import FORMER_SETTINGS
from chainrule.train.step import Stepper

from .conftest import TOY, Command


@pytest.mark.parametrize(
    ("name", "schema", "more"),
    [
        ("separator", Schema("audio", (2048, 1), "sources", (2, 2048, 1), ("a", "b"), rate=8192), ""),
        (
            "identifier",
            Schema("image", (32, 32, 1), "identity", (), ("a", "b"), levels=256),
            " gallery=FOLDER",
        ),
    ],
)
def test_what_has_answers_of_its_own_kind_is_used_on_files_next(name: str, schema: Schema, more: str) -> None:
    model = models.build(name, schema, **models.entry(name).toy)
    run: Any = SimpleNamespace(path=Path("runs/toy"), schema=schema, config={"model": {"name": name}})
    assert what_next(run, model)[0].endswith(f"toy FILE{more}")


@pytest.mark.usefixtures("unreported")
def test_the_last_json_line_is_the_contract(cli: Command, tmp_path: Path) -> None:
    result = cli("train", *TOY, "seed=3", f"runs={tmp_path / 'elsewhere'}", "--json")
    assert result.code == 0, result.err
    path = tmp_path / "elsewhere" / "moons-mlp-001"
    last = result.last
    assert last == {
        "run": "moons-mlp-001",
        "path": str(path),
        "status": "done",
        "step": 20,
        "best": {"loss": last["best"]["loss"], "step": last["best"]["step"]},
    }
    events = [line.get("event") for line in result.lines[:-1]]
    assert events[:2] == ["started", "compiled"]
    assert "progress" in events
    assert "saved" in events
    assert events[-1] == "report"
    assert Run.open(path).settings.seed == 3


def test_people_get_the_story_in_order_and_no_carriage_return(cli: Command) -> None:
    result = cli("train", *TOY)
    assert result.code == 0, result.err
    assert "\r" not in result.out
    labels = [line.split()[0] for line in result.out.splitlines()]
    assert labels[:5] == ["data", "model", "device", "run", "compile"]
    assert set(labels[5:-3]) == {"step"}
    assert labels[-3:] == ["done", "report", "next"]
    assert "continue with: chainrule resume moons-mlp-001" in result.out
    assert "report   runs/moons-mlp-001/report.html" in result.out
    assert (
        result.out.splitlines()[-1]
        == "next     chainrule predict moons-mlp-001 FILE   ·   chainrule score moons-mlp-001   ·   "
        "chainrule probe moons-mlp-001"
    )
    assert Path("runs/moons-mlp-001/report.html").is_file()


@pytest.mark.usefixtures("unreported")
def test_settings_reach_model_data_and_training(cli: Command) -> None:
    words = [
        "data.n=300",
        "data.split=0.6,0.2,0.2",
        "depth=2",
        "optimizer.betas=0.8,0.9",
        "optimizer.clip=none",
    ]
    result = cli("train", *TOY, *words, "shuffle=false", "schedule.name=constant", "run=named", "--quiet")
    assert result.code == 0, result.err
    assert result.out == "runs/named\n"
    config = Run.open("runs/named").config
    assert config["model"]["settings"]["depth"] == 2
    assert config["data"]["n"] == 300
    assert config["data"]["split"] == [0.6, 0.2, 0.2]
    assert list(config["train"]["optimizer"]["betas"]) == [0.8, 0.9]
    assert config["train"]["optimizer"]["clip"] is None
    assert config["train"]["shuffle"] is False
    assert config["train"]["schedule"]["name"] == "constant"


def test_the_model_brings_its_training_settings_and_words_override_them(cli: Command) -> None:
    shown = cli("train", "mlp", "data=moons", "epochs=2", "--dry-run", "--json").last
    assert shown["settings"]["train"]["optimizer"]["decay"] == 0.01
    assert shown["settings"]["train"]["steps"] is None
    assert shown["steps"] == 100
    assert not Path("runs").exists()


def test_a_dry_run_shows_every_setting_in_words_that_can_be_used_again(cli: Command) -> None:
    first = cli("train", *TOY, "--dry-run")
    assert first.code == 0, first.err
    words = [line for line in first.out.splitlines() if "=" in line]
    assert "data=moons" in words
    again = cli("train", "mlp", *(word for word in words if word != "epochs=none"), "--dry-run")
    shown = [
        [line for line in one.out.splitlines() if not line.startswith("estimate")] for one in (again, first)
    ]
    assert shown[0] == shown[1]
    assert "for 20 steps" in first.out
    assert not Path("runs").exists()


@pytest.mark.usefixtures("unreported")
def test_a_recipe_repeats_a_run_and_later_words_override_it(cli: Command, trained: Path) -> None:
    recipe = trained / "config.yaml"
    assert cli("train", f"config={recipe}", "run=same", "--quiet").code == 0
    same = Run.open("runs/same")
    assert same.config == Run.open(trained).config
    assert same.curve("loss")[1].tolist() == Run.open(trained).curve("loss")[1].tolist()
    shown = cli(
        "train", f"config={recipe}", "width=9", "epochs=1", "data.noise=0.2", "--dry-run", "--json"
    ).last
    assert shown["settings"]["model"]["width"] == 9
    assert shown["settings"]["train"]["epochs"] == 1
    assert shown["settings"]["train"]["steps"] is None
    assert shown["settings"]["data"]["noise"] == 0.2
    assert shown["settings"]["data"]["n"] == 200


@pytest.mark.parametrize(
    ("change", "words", "message"),
    [
        ({"model": {"name": None, "settings": {}}}, [], "holds a model class of your own"),
        ({"data": {}}, [], "were built in Python"),
        ({"model": 3}, [], "config.yaml"),
        ({"train": {"epoch": 3}}, [], "unknown setting 'epoch'"),
        ({}, ["gpt"], "is a recipe for mlp, not for gpt"),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused(
    cli: Command, tmp_path: Path, change: dict[str, Any], words: list[str], message: str
) -> None:
    recipe = {
        "model": {"name": "mlp", "settings": {}},
        "data": {"name_or_path": "moons"},
        "train": {},
        **change,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(recipe))
    result = cli("train", *words, "config=config.yaml")
    assert result.code == 2
    assert message in result.err


def test_settings_that_fit_no_data_leave_no_folder_behind(cli: Command) -> None:
    result = cli("train", *TOY, "batch=4000")
    assert result.code == 2
    assert "batch=4000: a batch must hold between 1 and 160 examples" in result.err
    assert not Path("runs").exists()


def test_divergence_ends_with_exit_code_4_and_the_way_on(cli: Command) -> None:
    result = cli("train", *TOY, "optimizer.name=sgd", "optimizer.lr=1e30", "activation=identity", "--json")
    assert result.code == 4
    assert "at step" in result.err
    assert "chainrule resume moons-mlp-001 optimizer.lr=" in result.err
    assert len(result.err.splitlines()) <= 6
    assert result.last["exit_code"] == 4
    assert cli("runs", "ls", "--json").last[0]["status"] == "diverged"


def test_a_full_disk_ends_with_exit_code_5(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "free_bytes", lambda path: 1000)
    result = cli("train", *TOY)
    assert result.code == 5
    assert "free" in result.err


def test_help_lists_every_training_setting_and_those_of_the_model(cli: Command) -> None:
    text = cli("train", "--help").out
    assert text.startswith("Usage: chainrule train")
    for name in ("steps", "optimizer.lr", "schedule.warmup", "stopping.patience", "data=", "config="):
        assert f"\n{name} " in text
    assert "\ndropout " not in text
    assert "\ndropout " in cli("train", "mlp", "--help").out


def test_the_rate_finder_suggests_rates_and_draws_them(cli: Command) -> None:
    result = cli("train", *TOY, "--find-lr")
    assert result.code == 0, result.err
    assert [line.split()[0] for line in result.out.splitlines()] == ["steepest", "safe", "picture"]
    found = cli("train", *TOY, "steps=30", "--find-lr", "--json").last
    assert 0 < found["safe"] < 10
    assert Path(found["picture"]).read_text().startswith("<svg")
    assert cli("runs", "ls", "--json").last == []


def test_a_single_batch_is_learnt_by_heart_and_leaves_no_run(cli: Command) -> None:
    found = cli("train", *TOY, "steps=30", "--one-batch", "--json").last
    assert found["steps"] == 30
    assert found["last"] < found["first"]
    assert Path(found["picture"]).read_text().startswith("<svg")
    assert cli("runs", "ls", "--json").last == []


@pytest.mark.usefixtures("unreported")
def test_a_run_can_be_continued_by_name_or_path_and_made_longer(cli: Command, trained: Path) -> None:
    longer = cli("resume", "toy", "steps=30", "--json")
    assert longer.code == 0, longer.err
    assert longer.last["step"] == 30
    assert longer.lines[0]["step"] == 20
    again = cli("resume", str(trained), "steps=40", "optimizer.lr=1e-4")
    assert again.code == 0, again.err
    assert "from step 30" in again.out
    assert Run.open(trained).settings.optimizer.lr == 1e-4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tyo"], "error: there is no run 'tyo' in runs (did you mean 'toy'?)"),
        (["toy", "step=3"], "error: unknown setting 'step' (did you mean 'steps'?)"),
        (["toy", "width=3"], "a resumed run keeps its model and data"),
        (["toy", "steps=x"], "error: steps='x'"),
        (["toy", "optimizer.name=sgd"], "error: optimizer.name=sgd: toy cannot change this on the way"),
        (["toy", "ema=0.99"], "train a new run: chainrule train config=runs/toy/config.yaml ema=0.99"),
        (["toy", "runs=nowhere"], "error: there is no run 'toy' in nowhere, which holds no runs"),
    ],
)
def test_a_mistake_in_resume_is_told(cli: Command, trained: Path, words: list[str], message: str) -> None:
    result = cli("resume", *words)
    assert result.code == 2
    assert message in result.err


def test_the_beginning_of_two_names_is_not_enough(cli: Command, trained: Path) -> None:
    shutil.copytree(trained, "runs/toy-two")
    result = cli("runs", "show", "to")
    assert result.code == 2
    assert result.err.startswith("error: 'to' is the beginning of 2 runs: toy, toy-two")
    assert cli("runs", "show", "toy").code == 0


@pytest.mark.usefixtures("unreported")
def test_a_limit_of_time_that_was_asked_for_is_no_interruption(cli: Command) -> None:
    result = cli("train", *TOY, "steps=1000000", "minutes=1e-9", "--json")
    assert result.code == 0, result.err
    assert result.last["status"] == "done"
    assert 0 < result.last["step"] < 1000000


@pytest.mark.usefixtures("unreported")
def test_ctrl_c_saves_and_the_run_can_be_continued(cli: Command, tmp_path: Path) -> None:
    words = [*TOY, "steps=1000000", "run=long", f"runs={tmp_path}", "--json"]
    command = [sys.executable, "-m", "chainrule", "train", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout is not None
            while json.loads(process.stdout.readline()).get("event") != "progress":
                pass
            refused = cli("runs", "rm", "long", f"runs={tmp_path}", "--yes")
            assert refused.err.startswith("error: long is running")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    last = json.loads(out.splitlines()[-1])
    assert process.returncode == 130
    assert last["status"] == "interrupted"
    assert last["step"] >= 1
    listed = cli("runs", "ls", f"runs={tmp_path}", "--json").last
    assert [(row["id"], row["status"], row["step"]) for row in listed] == [
        ("long", "interrupted", last["step"])
    ]
    longer = cli("resume", "long", f"runs={tmp_path}", f"steps={last['step'] + 5}", "--json")
    assert longer.code == 0, longer.err
    assert longer.last["status"] == "done"
    assert longer.last["step"] == last["step"] + 5


@pytest.mark.parametrize("verb", ["train", "resume"])
def test_a_second_ctrl_c_stops_at_once_and_says_what_is_left(
    cli: Command, trained: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"chainrule.train.{'fit' if verb == 'train' else 'resume'}", stop)
    words = ["train", *TOY, "run=toy"] if verb == "train" else ["resume", "toy"]
    result = cli(*words)
    assert result.code == 130
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[:-2]] == (["data"] if verb == "train" else [])
    assert lines[-2:] == [
        "stopped  at once   newest checkpoint: step 20",
        "next     chainrule resume toy",
    ]
    assert cli(*words, "--json").last["run"] == "toy"
    assert cli(*words, "--quiet").out == "runs/toy\n"


@pytest.mark.usefixtures("unreported")
@pytest.mark.parametrize("verb", ["train", "resume"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_has_its_report(
    cli: Command, trained: Path, monkeypatch: pytest.MonkeyPatch, verb: str, number: int
) -> None:
    run_steps = Stepper.run

    def interrupted(self: Stepper, *words: Any) -> Any:
        signal.raise_signal(number)
        return run_steps(self, *words)

    monkeypatch.setattr(Stepper, "run", interrupted)
    words = ["train", *TOY, "run=other"] if verb == "train" else ["resume", "toy", "steps=40"]
    result = cli(*words)
    assert result.code == 130, result.err
    name = "other" if verb == "train" else "toy"
    assert f"report   {Path('runs') / name / 'report.html'}" in result.out.splitlines()


@pytest.mark.usefixtures("unreported")
def test_a_run_that_diverged_has_its_report(cli: Command) -> None:
    result = cli("train", *TOY, "optimizer.name=sgd", "optimizer.lr=1e38", "run=wild")
    assert result.code == 4, result.err
    assert f"report   {Path('runs') / 'wild' / 'report.html'}" in result.out.splitlines()
    assert (
        cli("train", *TOY, "optimizer.name=sgd", "optimizer.lr=1e38", "--json").lines[-2]["event"] == "report"
    )


def test_ctrl_c_before_there_is_a_run_leaves_nothing(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("chainrule.train.fit", stop)
    result = cli("train", *TOY)
    assert result.code == 130
    assert [line.split()[0] for line in result.out.splitlines()] == ["data"]
    assert list(Path("runs").iterdir()) == []


def test_the_former_name_of_a_setting_is_told_with_the_present_one(
    cli: Command, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed = dataclasses.replace(registered.entry, former_settings={"units": "width"})
    monkeypatch.setattr(registered, "entry", renamed)
    monkeypatch.setitem(FORMER_SETTINGS, "optimizer.rate", "optimizer.lr")
    for words, present in (
        (["train", "mlp", "units=8"], "'width'"),
        (["train", "mlp", "optimizer.rate=0.1"], "'optimizer.lr'"),
        (["resume", "toy", "optimizer.rate=0.1"], "'optimizer.lr'"),
        (["import", "mlp", "w.safetensors", "units=8"], "'width'"),
    ):
        result = cli(*words)
        assert result.code == 2
        assert f"(did you mean {present}?)" in result.err
