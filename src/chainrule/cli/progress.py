"""Progress of training: a live line on a terminal, a plain line every few seconds elsewhere, or JSON.

All printers are listeners in the sense of `train/events.py`. A printer is closed when training ends, however it ends,
so that the next message starts on a line of its own.
"""

import abc
import math
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, final

from chainrule.cli.defaults import LOG_SECONDS
from chainrule.cli.folders import handle
from chainrule.cli.output import Stream, emit, say
from chainrule.core.formatting import rate, scientific, short_duration, short_number
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasSurprisal
from chainrule.train.events import Compiled, Event, Finished, Logged, Progress, Started

_BAR = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHOWN = {"loss": "loss", "val_loss": "val", "accuracy": "accuracy", "lr": "lr", "grad_norm": "|g|"}
_DROPPED_FIRST = ("saved", "speed", "grad_norm", "lr", "accuracy", "bar", "val_loss", "eta", "loss")


class Unit(NamedTuple):
    """What is counted per second, and how many of it one example holds."""

    name: str
    per_example: int
    token: str = ""
    """What the loss is nats of: a character or a token; empty where it is something else."""

    @classmethod
    def of(cls, schema: Schema, model: object = None) -> "Unit":
        """Tokens of a text, examples of anything else."""
        if not kinds.of(schema).is_corpus(schema):
            return cls("ex/s", 1)
        token = "token" if schema.tokenizer else "character"
        return cls("tok/s", schema.shape[0] - 1, token if isinstance(model, HasSurprisal) else "")

    def loss(self, value: float) -> str:
        """A loss as people read it.

        >>> Unit("tok/s", 64, "character").loss(1.88)
        '1.88 nats (2.71 bits per character)'
        """
        bits = f" nats ({short_number(value / math.log(2))} bits per {self.token})" if self.token else ""
        return short_number(value) + bits


class ProgressPrinter(abc.ABC):
    """Prints what happens during training; can be closed."""

    @abc.abstractmethod
    def __call__(self, event: Event) -> None:
        """Tell about an event."""

    @abc.abstractmethod
    def close(self) -> None:
        """End a line that is still open."""


@final
class Pieces:
    """The parts of a progress line by name; remembers the last validation loss, which comes at its own pace."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._val: dict[str, float] = {}

    def remember(self, event: Event) -> None:
        """Keep what a later line shows."""
        if isinstance(event, Logged) and event.split == "val" and "loss" in event.metrics:
            self._val = {"val_loss": event.metrics["loss"]}

    def of(self, event: Progress) -> dict[str, str]:
        """The parts in the order in which they are shown."""
        metrics = {**self._val, **event.metrics}
        numbers = {
            name: f"{word} {scientific(metrics[name]) if name == 'lr' else short_number(metrics[name])}"
            for name, word in _SHOWN.items()
            if name in metrics
        }
        speed = rate(event.examples_per_second * self._unit.per_example)
        return {
            "bar": bar(event.step / max(event.total, 1)),
            "step": f"{event.step:>{len(str(event.total))}}/{event.total}",
            **numbers,
            "speed": f"{speed} {self._unit.name}",
            "eta": f"eta {short_duration(event.seconds_left)}",
            **({"saved": f"saved @{event.saved}"} if event.saved is not None else {}),
        }


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

    def __init__(self, unit: Unit, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._unit = unit
        self._pieces, self._clock, self._due = Pieces(unit), clock, float("-inf")

    def __call__(self, event: Event) -> None:
        """A labelled line, or a progress line when one is due."""
        self._pieces.remember(event)
        if not isinstance(event, Progress):
            announce(event, self._unit)
        elif self._clock() >= self._due or event.step >= event.total:
            self._due = self._clock() + LOG_SECONDS
            shown = self._pieces.of(event)
            print("step " + "  ".join(text for name, text in shown.items() if name != "bar"), flush=True)

    def close(self) -> None:
        """Every line is whole already."""


@final
class LivePrinter(ProgressPrinter):
    """One line that is drawn over and over, fitted to the width of the terminal."""

    def __init__(self, unit: Unit, stream: Stream | None = None) -> None:
        self._unit = unit
        self._pieces, self._stream, self._open = Pieces(unit), stream or sys.stdout, False

    def __call__(self, event: Event) -> None:
        """Redraw the line, or leave it and print a labelled one."""
        self._pieces.remember(event)
        if isinstance(event, Progress):
            self._draw(fit_line(self._pieces.of(event), shutil.get_terminal_size().columns - 1))
        elif isinstance(event, Compiled):
            self._draw("")  # the words "compile ..." make room for the time it took
            self._open = False
            announce(event, self._unit)
        elif isinstance(event, Started | Finished):
            self.close()
            announce(event, self._unit)
            if isinstance(event, Started):
                self._draw("compile  ...")

    def close(self) -> None:
        """Leave the last state of the line standing."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
            self._open = False

    def _draw(self, line: str) -> None:
        self._stream.write(f"\r{line}\033[K")
        self._stream.flush()
        self._open = True


def progress_printer(unit: Unit, *, machine: bool, quiet: bool) -> ProgressPrinter:
    """The printer that suits the reader: a terminal, a log or a program."""
    if machine:
        return JsonPrinter()
    if quiet:
        return SilentPrinter()
    return LivePrinter(unit) if sys.stdout.isatty() else LogPrinter(unit)


def announce(event: Event, unit: Unit) -> None:
    """The labelled lines for the beginning and the end of a run."""
    if isinstance(event, Started):
        say("data", event.data)
        say("model", event.model)
        gpu = " (no GPU found: `chainrule doctor` explains)" if event.device.startswith("cpu") else ""
        say("device", event.device + gpu)
        again = f"chainrule resume {handle(Path(event.path))}"
        since = f"   from step {event.step}" if event.step else ""
        say("run", f"{event.path}   seed {event.seed}{since}   continue with: {again}")
    elif isinstance(event, Compiled):
        say("compile", f"{event.seconds:.1f} s")
    elif isinstance(event, Finished) and event.status == "interrupted":
        say("stopped", f"saved at step {event.step} ({event.reason})")
        say("next", f"chainrule resume {handle(Path(event.path))}")
    elif isinstance(event, Finished):
        best = event.best
        what = (
            f"best val {unit.loss(best['loss'])} at step {best['step']:.0f}" if best else f"step {event.step}"
        )
        say("done", f"{what}   {short_duration(event.seconds)}   {event.reason}")


def fit_line(parts: Mapping[str, str], width: int) -> str:
    """The parts in one line of at most `width` letters; what matters least goes first.

    >>> parts = {"bar": "█████     ", "step": "50/100", "loss": "loss 2.1", "speed": "41k tok/s", "saved": "saved @40"}
    >>> fit_line(parts, 80)
    ' step █████       50/100   loss 2.1   41k tok/s   saved @40'
    >>> fit_line(parts, 40)
    ' step █████       50/100   loss 2.1'
    >>> fit_line(parts, 9)
    ' step 50/'
    """
    kept = dict(parts)
    for name in ("", *_DROPPED_FIRST):
        kept.pop(name, None)
        line = " step " + "   ".join(kept.values())
        if len(line) <= width:
            return line
    return line[: max(width, 0)]


def bar(done: float) -> str:
    """A bar of ten letters, filled in eighths.

    >>> bar(0.45)
    '████▌     '
    """
    eighths = round(min(max(done, 0.0), 1.0) * _BAR * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(_BAR)


__all__ = [
    "JsonPrinter",
    "LivePrinter",
    "LogPrinter",
    "Pieces",
    "ProgressPrinter",
    "SilentPrinter",
    "Unit",
    "announce",
    "bar",
    "fit_line",
    "progress_printer",
]
