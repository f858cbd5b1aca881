"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import runpy
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "checkpointing.md"


@pytest.mark.slow
def test_the_guide_runs_and_prints_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    runpy.run_path(str(program))
    printed = capsys.readouterr().out
    for kind, expected in blocks:
        if kind == "text":
            assert expected in printed
