"""The guide's code runs, top to bottom, and prints what the guide says."""

import re
import runpy
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[4] / "docs" / "sparse.md"


# SciPy's BDF subtracts a row of its table before it has written it: if a signalling NaN happens to lie in memory there,
# NumPy warns. The method never uses the result.
@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy.integrate._ivp.bdf")
def test_the_guide_runs_and_prints_what_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", text, flags=re.DOTALL)
    program = tmp_path / "guide.py"
    program.write_text("\n".join(code for kind, code in blocks if kind == "python"), encoding="utf-8")
    made = runpy.run_path(str(program))
    printed = capsys.readouterr().out
    for kind, expected in blocks:
        if kind == "text":
            assert expected in printed
    picture = GUIDE.parent / "images" / "sparse-colours.svg"
    assert made["J"].coloring.to_svg() == picture.read_text(encoding="utf-8")
