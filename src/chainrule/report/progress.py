"""Progress of training as one line: on a terminal drawn over and over, in a notebook as a bar.

The command line prints more around it (`cli/progress.py`); `cr.fit` shows it as it is.
"""

import html
import math
import shutil
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple, final

from chainrule.core.formatting import rate, scientific, short_duration, short_number
from chainrule.core.progress import Stream
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasSurprisal
from chainrule.train.events import Event, Finished, Listener, Logged, Progress, silent

_BAR = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHOWN = {
    "loss": "loss",
    "accuracy": "accuracy",
    "return_mean": "return",
    "val_return_mean": "val return",
    "val_loss": "val",
    "val_accuracy": "val accuracy",
    "val_coverage": "coverage",
    "lr": "lr",
    "grad_norm": "|g|",
}
_DROPPED_FIRST = (
    *("saved", "speed", "grad_norm", "lr", "accuracy", "return_mean", "bar"),
    *("val_coverage", "val_accuracy", "val_return_mean", "val_loss", "eta", "loss"),
)


class Unit(NamedTuple):
    """What is counted per second, and how many of it one example holds."""

    name: str
    per_example: int
    token: str = ""
    """What the loss is nats of: a character or a token; empty where it is something else."""
    smaller: str = ""
    """An option of the data that makes examples smaller, where there is one."""

    @classmethod
    def of(cls, schema: Schema, model: object = None) -> "Unit":
        """Tokens of a text, examples of anything else."""
        smaller = kinds.of(schema).smaller(schema)
        if not kinds.of(schema).is_corpus(schema):
            return cls("ex/s", 1, smaller=smaller)
        token = "token" if schema.tokenizer else "character"
        return cls("tok/s", schema.shape[0] - 1, token if isinstance(model, HasSurprisal) else "", smaller)

    def loss(self, value: float) -> str:
        """A loss as people read it.

        >>> Unit("tok/s", 64, "character").loss(1.88)
        '1.88 nats (2.71 bits per character)'
        """
        bits = f" nats ({short_number(value / math.log(2))} bits per {self.token})" if self.token else ""
        return short_number(value) + bits


@final
class Pieces:
    """The parts of a progress line by name; remembers the last evaluation, which comes at its own pace."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._val: dict[str, float] = {}

    def remember(self, event: Event) -> None:
        """Keep what a later line shows."""
        if isinstance(event, Logged) and event.split == "val":
            self._val = {f"val_{name}": value for name, value in event.metrics.items()}

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
class LiveLine:
    """One line of a terminal that is drawn over and over."""

    def __init__(self, unit: Unit, stream: Stream | None = None) -> None:
        self._pieces, self._stream, self._open = Pieces(unit), stream or sys.stdout, False

    def __call__(self, event: Event) -> None:
        """Redraw the line, or leave its last state standing."""
        self._pieces.remember(event)
        if isinstance(event, Progress):
            self.draw(fit_line(self._pieces.of(event), shutil.get_terminal_size().columns - 1))
        elif isinstance(event, Finished):
            self.close()

    def draw(self, line: str) -> None:
        """Put another line in its place."""
        self._stream.write(f"\r{line}\033[K")
        self._stream.flush()
        self._open = True

    def close(self, *, standing: bool = True) -> None:
        """Go to the next line; with `standing` false the line is left to be written over."""
        if self._open and standing:
            self._stream.write("\n")
            self._stream.flush()
        self._open = False


@final
class NotebookLine:
    """A bar and the numbers beside it in one output cell of a notebook."""

    def __init__(self, unit: Unit) -> None:
        self._pieces = Pieces(unit)
        self._shown: Any = None

    def __call__(self, event: Event) -> None:
        """Draw the cell anew."""
        self._pieces.remember(event)
        if isinstance(event, Progress):
            self._show(progress_html(self._pieces.of(event), event.step, event.total))

    def _show(self, page: str) -> None:
        from IPython.display import HTML, display  # only inside a notebook, which has it

        if self._shown is None:
            self._shown = display(HTML(page), display_id=True)
        else:
            self._shown.update(HTML(page))


def progress_html(parts: Mapping[str, str], done: int, total: int) -> str:
    """The parts of a progress line with a bar of HTML.

    >>> progress_html({"bar": "█", "step": "5/10", "loss": "loss 2.1"}, 5, 10)
    '<progress value="5" max="10"></progress> <code>5/10   loss 2.1</code>'
    """
    text = "   ".join(text for name, text in parts.items() if name != "bar")
    return f'<progress value="{done}" max="{total}"></progress> <code>{html.escape(text)}</code>'


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def listener(schema: Schema, model: object, *, shown: bool | None = None) -> Listener:
    """What shows progress here: a bar in a notebook, a live line on a terminal, otherwise nothing.

    `shown` true asks for a line wherever it goes, false for none.
    """
    unit = Unit.of(schema, model)
    if shown is False or (shown is None and not in_notebook() and not sys.stdout.isatty()):
        return silent
    return NotebookLine(unit) if in_notebook() else LiveLine(unit)


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


__all__ = ["LiveLine", "NotebookLine", "Pieces", "Unit", "bar", "fit_line", "listener", "progress_html"]
