"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import runpy
from pathlib import Path

import jax
import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "implicit.md"


@pytest.mark.slow
def test_the_guide_runs_and_prints_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    try:
        runpy.run_path(str(program))
    finally:
        jax.config.update("jax_enable_x64", False)  # which the guide switches on for everybody
    printed = capsys.readouterr().out
    for kind, expected in blocks:
        if kind == "text":
            assert expected in printed
