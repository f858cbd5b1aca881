"""Progress of training: a live line on a terminal, a plain line every few seconds elsewhere, or JSON.

All printers are listeners in the sense of `train/events.py`. A printer is closed when training ends, however it ends,
so that the next message starts on a line of its own.
"""

import abc
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import final

from chainrule.cli.defaults import LOG_SECONDS
from chainrule.cli.folders import handle
from chainrule.cli.output import emit, say, show
from chainrule.core.formatting import duration, memory_size, short_duration, short_number
from chainrule.core.progress import Stream
from chainrule.report.progress import LiveLine, Pieces, Unit
from chainrule.train.events import Compiled, Estimated, Event, Finished, Noticed, Progress, Started
from chainrule.train.folder import decisive

LONG_SECONDS = 30 * 60
"""A run that takes longer than this is said to be long before it has begun in earnest."""


class ProgressPrinter(abc.ABC):
    """Prints what happens during training; can be closed."""

    @abc.abstractmethod
    def __call__(self, event: Event) -> None:
        """Tell about an event."""

    @abc.abstractmethod
    def close(self) -> None:
        """End a line that is still open."""


@final
class JsonPrinter(ProgressPrinter):
    """Every event as one line of JSON, except the end: the last line belongs to the verb."""

    def __call__(self, event: Event) -> None:
        """One object; `event` names its kind."""
        if not isinstance(event, Finished):
            emit({"event": type(event).__name__.lower(), **asdict(event)})

    def close(self) -> None:
        """Every line is whole already."""


@final
class SilentPrinter(ProgressPrinter):
    """Nothing at all."""

    def __call__(self, event: Event) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing was opened."""


@final
class LogPrinter(ProgressPrinter):
    """Lines for a log: never a carriage return, one progress line every few seconds."""

    def __init__(
        self, unit: Unit, *, data_told: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._unit, self._data_told = unit, data_told
        self._pieces, self._clock, self._due = Pieces(unit), clock, float("-inf")

    def __call__(self, event: Event) -> None:
        """A labelled line, or a progress line when one is due."""
        self._pieces.remember(event)
        if not isinstance(event, Progress):
            announce(event, self._unit, data_told=self._data_told)
        elif self._clock() >= self._due or event.step >= event.total:
            self._due = self._clock() + LOG_SECONDS
            shown = self._pieces.of(event)
            show("step " + "  ".join(text for name, text in shown.items() if name != "bar"))

    def close(self) -> None:
        """Every line is whole already."""


@final
class LivePrinter(ProgressPrinter):
    """A line that is drawn over and over, fitted to the width of the terminal, between labelled ones."""

    def __init__(self, unit: Unit, stream: Stream | None = None, *, data_told: bool = False) -> None:
        self._unit, self._data_told = unit, data_told
        self._line = LiveLine(unit, stream)

    def __call__(self, event: Event) -> None:
        """Redraw the line, or leave it and print a labelled one."""
        self._line(event)
        if isinstance(event, Compiled):
            self._line.draw("")  # the words "compile ..." make room for the time it took
            self._line.close(standing=False)
            announce(event, self._unit)
        elif isinstance(event, Noticed):
            self._line.draw("")
            self._line.close(standing=False)
            announce(event, self._unit)
            self._line.draw("compile  ...")
        elif isinstance(event, Started | Estimated | Finished):
            self.close()
            announce(event, self._unit, data_told=self._data_told)
            if isinstance(event, Started):
                self._line.draw("compile  ...")

    def close(self) -> None:
        """Leave the last state of the line standing."""
        self._line.close()


def progress_printer(unit: Unit, *, machine: bool, quiet: bool, data_told: bool = False) -> ProgressPrinter:
    """The printer that suits the reader: a terminal, a log or a program; `data_told`: the data line stands already."""
    if machine:
        return JsonPrinter()
    if quiet:
        return SilentPrinter()
    return (
        LivePrinter(unit, data_told=data_told)
        if sys.stdout.isatty()
        else LogPrinter(unit, data_told=data_told)
    )


def announce(event: Event, unit: Unit, *, data_told: bool = False) -> None:
    """The labelled lines for the beginning and the end of a run."""
    if isinstance(event, Started):
        if not data_told:
            say("data", event.data)
        say("model", event.model)
        gpu = " (no GPU found: `chainrule doctor` explains)" if event.device.startswith("cpu") else ""
        say("device", event.device + gpu)
        again = f"chainrule resume {handle(Path(event.path))}"
        since = f"   from step {event.step}" if event.step else ""
        say("run", f"{event.path}   seed {event.seed}{since}   continue with: {again}")
    elif isinstance(event, Compiled):
        say("compile", f"{event.seconds:.1f} s")
    elif isinstance(event, Estimated):
        tell_estimate(event, unit)
    elif isinstance(event, Noticed):
        say("note", event.text)
    elif isinstance(event, Finished) and event.status == "interrupted":
        say("stopped", f"saved at step {event.step} ({event.reason})")
        say("next", f"chainrule resume {handle(Path(event.path))}")
    elif isinstance(event, Finished):
        best = event.best
        what = f"{best_value(best, unit)} at step {best['step']:.0f}" if best else f"step {event.step}"
        say("done", f"{what}   {short_duration(event.seconds)}   {event.reason}")


def best_value(best: Mapping[str, float], unit: Unit) -> str:
    """The number that made a step the best.

    >>> best_value({"loss": 0.5, "accuracy": 0.91, "step": 100}, Unit("ex/s", 1))
    'best val accuracy 0.91'
    """
    name = decisive(best)
    shown = unit.loss(best["loss"]) if name == "loss" else f"{name} {short_number(best[name])}"
    return f"best val {shown}"


def tell_estimate(event: Estimated, unit: Unit) -> None:
    """How long the run takes and what it holds in memory; for a long one, what makes it shorter."""
    need = (
        f"about {duration(event.seconds)} for {event.steps:,} steps   {memory_size(event.nbytes)} of memory"
    )
    say("estimate", need)
    if event.seconds > LONG_SECONDS:
        fewer = max(1, int(event.steps * LONG_SECONDS / event.seconds))
        ways = [
            f"steps={fewer}",
            "minutes=30 (stops in time, can be resumed)",
            *([unit.smaller] if unit.smaller else []),
        ]
        say("", f"shorter: {'   or '.join(ways)}   or a smaller model")


__all__ = [
    "JsonPrinter",
    "LivePrinter",
    "LogPrinter",
    "ProgressPrinter",
    "SilentPrinter",
    "announce",
    "best_value",
    "progress_printer",
    "tell_estimate",
]
