"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "probability.md"


@pytest.mark.slow
def test_the_guide_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    # In a process of its own: it chooses double precision, and adds a pair to the table of closed forms.
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "".join(code for kind, code in blocks if kind == "text"), done.stderr
