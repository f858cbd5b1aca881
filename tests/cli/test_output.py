import io
import json
import math
from pathlib import Path

import pytest

from chainrule.cli import output


def test_an_error_takes_six_lines_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    output.complain("\n".join(f"line {i}" for i in range(9)))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["error: line 0", *(f"       line {i}" for i in range(1, 6))]


def test_json_never_holds_numbers_that_json_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit({"a": math.nan, "b": [math.inf, 1.5], "c": Path("x"), "d": None, "e": True, "f": 3})
    line = capsys.readouterr().out
    assert json.loads(line) == {"a": None, "b": [None, 1.5], "c": "x", "d": None, "e": True, "f": 3}


def test_a_table_has_one_line_a_row_where_the_output_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.table(["name", "text"], [["a", "long " * 60], ["[b]", "x"]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["name", "a", "[b]"]
    assert lines[1].count("long") == 60


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert output.paint("a", "bold", Terminal()) == "\033[1ma\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.paint("a", "bold", Terminal()) == "a"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert output.paint("a", "bold", Terminal()) == "a"
