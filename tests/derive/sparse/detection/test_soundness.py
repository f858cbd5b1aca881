"""No place where a derivative is different from zero is ever missed, and no function is refused."""

import subprocess
import sys
from pathlib import Path

from chainrule.derive import sparse
from tests.derive.sparse.detection.corpus import CASES
from tests.derive.sparse.detection.corpus.case import Case
from tests.derive.sparse.detection.soundness import fault

ROOT = Path(__file__).parents[4]


def test_the_corpus_is_large_and_its_names_are_distinct() -> None:
    names = [case.name for case in CASES]
    assert len(names) >= 200
    assert len(set(names)) == len(names)


def test_every_nonzero_derivative_of_every_function_has_its_place() -> None:
    program = [sys.executable, "-m", "tests.derive.sparse.detection.soundness"]
    child = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    assert child.stdout == ""


def test_a_missed_place_would_be_seen(monkeypatch) -> None:
    nothing = sparse.Pattern([], [], (3, 3))
    monkeypatch.setattr(sparse, "detect", lambda *args, **options: nothing, raising=False)
    assert fault(Case("squares", lambda x: x**2, (3,))) == "missed 3 places"
