"""The command line called in the process of the tests, through the same `main` as the console script."""

import contextlib
import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chainrule.cli import main

# A run that takes a second, with an evaluation and a checkpoint every ten steps.
TOY = ["mlp", "data=moons", "data.n=200", "width=8", "steps=20", "batch=16", "eval_every=10", "save_every=10"]


@dataclass(frozen=True)
class Result:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def last(self) -> Any:
        """The last JSON line."""
        return self.lines[-1]


Command = Callable[..., Result]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Runs a command in an empty folder."""
    for name in ("CHAINRULE_RUNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")  # so that what a command puts there is undone
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Result:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capsys.readouterr()
        return Result(ended.value.code or 0, out, err)  # type: ignore[arg-type]

    return call


@pytest.fixture(scope="session")
def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        _leave_out_the_report(patch)
        with pytest.raises(SystemExit) as ended:
            main(["train", *TOY, "run=toy", f"runs={folder}"])
    assert not ended.value.code
    return folder / "toy"


@pytest.fixture
def trained(cli: Command, _finished: Path) -> Path:
    """The folder of a small finished run, in ./runs; every test gets a copy of its own."""
    return Path(shutil.copytree(_finished, "runs/toy"))


@pytest.fixture
def unreported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the report out, for tests that train and look at something else."""
    _leave_out_the_report(monkeypatch)


def _leave_out_the_report(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("chainrule.report.write", lambda run: run.path / "report.html")
