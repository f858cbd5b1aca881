"""The guides' code runs, top to bottom, and prints what the guides say."""

import contextlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def followed(guide: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the code of a guide leaves behind, after what it printed was compared with what the guide says."""
    text = (DOCS / guide).read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL)
    program = folder / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    with contextlib.chdir(folder):
        made = runpy.run_path(str(program))
    printed = capsys.readouterr().out
    for kind, expected in blocks:
        if kind == "text":
            assert expected in printed
    return made


@pytest.mark.slow
def test_the_guide_to_probes_runs_and_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("probes.md", tmp_path, capsys)
    assert made["experiment"].run(made["CoinSettings"](throws=3), lambda line: None).numbers["heads"] <= 3


@pytest.mark.slow
def test_the_guide_to_transformers_runs_and_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("interpretability.md", tmp_path, capsys)
    assert made["patched"].clean != made["patched"].corrupted


@pytest.mark.slow
def test_the_guide_to_explanations_runs_and_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert followed("explaining.md", tmp_path, capsys)["found"].converged


def test_the_guide_to_attributions_runs_and_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("attributions.md", tmp_path, capsys)
    assert made["curves"].deletion_area.tolist() == [1.5]


@pytest.mark.slow
def test_the_guide_to_decisions_runs_and_prints_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = followed("decisions.md", tmp_path, capsys)
    assert made["solution"].actions[3] == (0,)
    assert made["curve"].low[-1] < made["curve"].mean[-1] < made["curve"].high[-1]
