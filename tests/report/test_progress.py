import io
import sys
from types import ModuleType
from typing import Any

import pytest

from chainrule.data.schema import Schema
from chainrule.report.progress import LiveLine, Unit, listener
from chainrule.train import events

SCHEMA = Schema("image", (8, 8, 1))
HALFWAY = events.Progress(50, 100, {"loss": 2.0, "accuracy": 0.5}, 1000.0, 10.0, None)
END = events.Finished("toy", "runs/toy", "done", 100, {}, 61.0, "all steps done")


def test_a_program_without_a_terminal_sees_progress_only_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for shown in (None, False):
        listener(SCHEMA, None, shown=shown)(HALFWAY)
    assert capsys.readouterr().out == ""
    listener(SCHEMA, None, shown=True)(HALFWAY)
    assert "50/100   loss 2   accuracy 0.5" in capsys.readouterr().out


def test_the_live_line_ends_with_the_run() -> None:
    stream = io.StringIO()
    line = LiveLine(Unit("ex/s", 1), stream)
    line(HALFWAY)
    assert not stream.getvalue().endswith("\n")
    line(END)
    line(END)
    assert stream.getvalue().count("\n") == 1


def test_a_notebook_shows_one_bar_that_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[str] = []

    class ZMQInteractiveShell:
        """The name by which the kernel of a notebook is known."""

    class Shown:
        def update(self, page: str) -> None:
            pages[-1] = page

    def display(page: str, **_: Any) -> Shown:
        pages.append(page)
        return Shown()

    shell, shows = ModuleType("IPython"), ModuleType("IPython.display")
    vars(shell)["get_ipython"] = ZMQInteractiveShell
    vars(shows).update(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shows)
    show = listener(SCHEMA, None)
    show(HALFWAY)
    show(events.Logged(50, "val", {"loss": 1.0, "accuracy": 0.25}))
    show(HALFWAY)
    assert len(pages) == 1
    assert pages[0].startswith('<progress value="50" max="100"></progress>')
    assert "val 1   val accuracy 0.25" in pages[0]
