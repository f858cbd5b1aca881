"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

GUIDE = Path(__file__).parents[4] / "docs" / "programs.md"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """The guide switches double precision on for good; elsewhere only tests that ask for it have it."""
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.slow
def test_the_guide_runs_and_prints_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    runpy.run_path(str(program))
    printed = capsys.readouterr().out
    for kind, expected in blocks:
        if kind == "text":
            assert expected in printed
