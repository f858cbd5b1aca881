import io
import json
from typing import final

import pytest

from chainrule.cli import progress
from chainrule.cli.progress import JsonPrinter, LivePrinter, LogPrinter, SilentPrinter
from chainrule.cli.progress_line import ProgressLine, progress_line
from chainrule.core.progress import update
from chainrule.data.schema import Schema
from chainrule.report.progress import Unit
from chainrule.train import events

STARTED = events.Started("toy", "runs/toy", "moons   200 points", "mlp   1 k", "cpu, 2 cores", 7, 0, 100)
FINISHED = events.Finished("toy", "runs/toy", "done", 100, {"loss": 0.25, "step": 90}, 61.0, "all steps done")
STOPPED = events.Finished("toy", "runs/toy", "interrupted", 40, {}, 3.0, "interrupted by SIGINT")
UNIT = Unit("ex/s", 1)


def at(step: int) -> events.Progress:
    metrics = {"loss": 2.113, "lr": 3e-4, "grad_norm": 0.8, "accuracy": 0.5}
    return events.Progress(step, 100, metrics, 41_000.0, 72.0, 80 if step > 80 else None)


def test_a_log_gets_a_line_every_few_seconds_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    printer = LogPrinter(UNIT, clock=lambda: now)
    for step in range(1, 101):
        printer(at(step))
        now += 0.125  # exact in binary, so that five seconds are forty steps
    printer.close()
    out = capsys.readouterr().out
    assert "\r" not in out
    assert "\033" not in out
    assert [line.split()[1] for line in out.splitlines()] == ["1/100", "41/100", "81/100", "100/100"]


def test_a_log_line_holds_the_numbers_and_the_last_validation_loss(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printer = LogPrinter(UNIT)
    printer(events.Logged(80, "val", {"loss": 2.19, "accuracy": 0.45, "coverage": 0.9}))
    printer(at(90))
    assert capsys.readouterr().out.split("step ")[1].split("  ") == [
        " 90/100",
        "loss 2.11",
        "accuracy 0.5",
        "val 2.19",
        "val accuracy 0.45",
        "coverage 0.9",
        "lr 3.0e-4",
        "|g| 0.8",
        "41k ex/s",
        "eta 1m12s",
        "saved @80\n",
    ]


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 120])
def test_the_live_line_never_exceeds_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = io.StringIO()
    printer = LivePrinter(UNIT, stream)
    printer(at(90))
    printer.close()
    line = stream.getvalue()
    assert line.startswith("\r step ")
    assert line.endswith("\033[K\n")
    assert "90/100" in line
    assert len(line.strip("\r\n").removesuffix("\033[K")) < columns


def test_the_live_line_is_ended_once() -> None:
    stream = io.StringIO()
    printer = LivePrinter(UNIT, stream)
    printer(at(1))
    printer(at(2))
    printer.close()
    printer.close()
    assert stream.getvalue().count("\r") == 2
    assert stream.getvalue().count("\n") == 1


def test_the_words_about_compilation_make_room_for_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    printer = LivePrinter(UNIT)
    printer(STARTED)
    printer(events.Compiled(6.23))
    out = capsys.readouterr().out
    assert "\rcompile  ...\033[K\r\033[Kcompile  6.2 s\n" in out


def test_the_beginning_says_what_where_and_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    LogPrinter(UNIT)(STARTED)
    assert capsys.readouterr().out.splitlines() == [
        "data     moons   200 points",
        "model    mlp   1 k",
        "device   cpu, 2 cores (no GPU found: `chainrule doctor` explains)",
        "run      runs/toy   seed 7   continue with: chainrule resume runs/toy",
    ]


def test_a_run_in_the_usual_place_is_continued_by_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHAINRULE_RUNS", raising=False)
    progress.announce(STARTED, UNIT)
    assert "chainrule resume toy\n" in capsys.readouterr().out


def test_the_end_says_how_good_it_got_and_an_interruption_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress.announce(FINISHED, UNIT)
    progress.announce(STOPPED, UNIT)
    assert capsys.readouterr().out.splitlines() == [
        "done     best val 0.25 at step 90   1m01s   all steps done",
        "stopped  saved at step 40 (interrupted by SIGINT)",
        "next     chainrule resume runs/toy",
    ]


def test_a_short_run_is_estimated_in_one_line_and_a_long_one_with_ways_to_make_it_shorter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    photos = Unit.of(Schema("image", (240, 320, 3)))
    progress.announce(events.Estimated(1900, 72.0, 300 << 20), photos)
    progress.announce(events.Estimated(2000, 36_000.0, 300 << 20), photos)
    assert capsys.readouterr().out.splitlines() == [
        "estimate about 1 min 12 s for 1,900 steps   300 MiB of memory",
        "estimate about 10 h 0 min for 2,000 steps   300 MiB of memory",
        "         shorter: steps=100   or minutes=30 (stops in time, can be resumed)   "
        "or data.size=32   or a smaller model",
    ]


def test_machines_get_every_event_but_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    printer = JsonPrinter()
    for event in (STARTED, events.Compiled(1.0), at(5), events.Saved(5), FINISHED):
        printer(event)
    printer.close()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == ["started", "compiled", "progress", "saved"]
    assert lines[2]["metrics"]["loss"] == 2.113


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    printer = SilentPrinter()
    printer(STARTED)
    printer.close()
    assert capsys.readouterr().out == ""


def test_text_is_counted_in_symbols() -> None:
    assert Unit.of(Schema("text", (129,))) == Unit("tok/s", 128, smaller="data.window=64")
    assert Unit.of(Schema("image", (8, 8, 1))) == Unit("ex/s", 1)


@final
class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_whoever_waits_sees_a_line_that_is_wiped_away_and_a_log_a_line_every_few_seconds() -> None:
    now = 0.0
    terminal, log = Terminal(), io.StringIO()
    both = [ProgressLine(stream, clock=lambda: now) for stream in (terminal, log)]
    for done in range(0, 2049, 512):
        for shown in both:
            shown("bound", done, 2048)
        now += 3.0
    for shown in both:
        shown.close()
    assert "█████      1,024/2,048   bound" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")
    assert log.getvalue().splitlines() == ["bound  1,024/2,048", "bound  2,048/2,048"]


def test_a_log_does_not_mention_what_takes_no_time() -> None:
    now = 0.0
    log = io.StringIO()
    shown = ProgressLine(log, clock=lambda: now)
    for what in ("predictions", "bound", "likelihood"):
        shown(what, 0, 180)
        now += 4.0  # each is quick, all together are not
        shown(what, 180, 180)
    assert log.getvalue() == ""


def test_only_people_are_shown_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for silent in (True, False):
        with progress_line(silent=silent):
            update("bound", 1, 2)
    assert capsys.readouterr() == ("", "")  # too quick for a log
