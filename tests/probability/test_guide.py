"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["divergences.md", "gaussian.md", "probability.md", "transport.md"])
def test_the_guide_runs_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    text = (GUIDES / name).read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    # In a process of its own: it chooses double precision, and adds a pair to the table of closed forms.
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.stdout == "".join(code for kind, code in blocks if kind == "text"), done.stderr
