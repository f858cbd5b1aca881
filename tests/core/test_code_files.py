"""Python files that a person names: what is found in them, and what is said when they fail."""

import sys
from pathlib import Path

import pytest

from chainrule.core import code_files
from chainrule.core.errors import ArgumentError


def test_a_member_may_use_what_lies_beside_its_file_and_leaves_no_traces(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("NUMBER = 42\n")
    (tmp_path / "json.py").write_text("from beside import NUMBER\n\ndef answer():\n    return NUMBER\n")
    import json

    path = list(sys.path)
    assert code_files.member(tmp_path / "json.py", "answer")() == 42
    assert sys.path == path
    assert sys.modules["json"] is json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise RuntimeError('no')\n", "RuntimeError: no"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("def nett(): ...\n", r"no function or class 'net' \(did you mean 'nett'\?\)"),
    ],
    ids=["syntax", "import", "error", "exit", "name"],
)
def test_a_file_that_fails_is_named_with_its_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(ArgumentError, match=message):
        code_files.member(tmp_path / "own.py", "net")
