"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import runpy
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "training.md"


@pytest.mark.slow
def test_the_guide_runs_and_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    runpy.run_path(str(program))
    assert capsys.readouterr().out == "".join(code for kind, code in blocks if kind == "text")
