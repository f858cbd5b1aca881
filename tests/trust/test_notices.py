"""What is odd but does not stand in the way is said in one line: newer versions, damaged compiled programs."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from chainrule import __version__
from chainrule.core.errors import ChainruleWarning
from chainrule.train import Run
from tests.cli.conftest import Command


def date_to(run: Path, version: str) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(f"chainrule: {__version__}", f"chainrule: {version}"))
    assert f"chainrule: {version}" in config.read_text()


def test_a_run_of_a_newer_version_says_so(run: Path) -> None:
    date_to(run, "99.1.0")
    with pytest.warns(
        ChainruleWarning, match=r"toy was written by Chainrule 99.1.0, which is newer than this one"
    ):
        Run.open(run)


@pytest.mark.parametrize("version", ["0.0.1", __version__, "unknown"])
def test_a_run_of_this_version_or_an_earlier_one_says_nothing(run: Path, version: str) -> None:
    if version != __version__:
        date_to(run, version)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Run.open(run)


def test_the_command_line_says_it_in_one_line(cli: Command, finished: Path) -> None:
    run = Path(shutil.copytree(finished, "runs/toy"))
    date_to(run, "99.1.0")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = cli("runs", "show", "toy")
    assert result.code == 0
    assert result.err.startswith("note: toy was written by Chainrule 99.1.0")
    assert len(result.err.splitlines()) == 1


@pytest.mark.slow
def test_a_damaged_compiled_program_is_said_removed_and_made_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def train(name: str) -> str:
        words = ["mlp", "data=moons", "data.n=200", "width=8", "steps=20", "--quiet", f"run={name}"]
        command = [sys.executable, "-m", "chainrule", "train", *words, f"runs={tmp_path}"]
        done = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=True)
        return done.stderr

    assert train("one") == ""
    programs = [file for file in cache.iterdir() if file.name.endswith("-cache")]
    assert programs
    for file in programs:
        file.write_bytes(file.read_bytes()[:50])
    said = train("two")
    assert f"a compiled program in {cache} was damaged: it is removed, and compiled again" in said
    assert all(line.startswith("note: ") for line in said.splitlines()), said
    assert train("three") == ""
