"""How the command line speaks: labelled lines and tables for people, JSON lines for machines, errors in six lines.

Everything here is light, so that `--help` and a mistyped verb answer at once; rich is imported where a table is drawn.
"""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

_LABEL = 9
_ERROR_LINES = 6


@runtime_checkable
class Stream(Protocol):
    """What is needed of a place to write to."""

    def write(self, text: str, /) -> int:
        """Write some text."""

    def flush(self) -> None:
        """Show what was written."""

    def isatty(self) -> bool:
        """Whether a person looks at it through a terminal."""


def say(label: str, text: str) -> None:
    """A labelled line on standard output."""
    print(paint(label.ljust(_LABEL), "bold") + text, flush=True)


def emit(value: Any) -> None:
    """One line of JSON on standard output; numbers that JSON does not have become null."""
    print(json.dumps(plain(value), ensure_ascii=False, allow_nan=False), flush=True)


def plain(value: Any) -> Any:
    """A value made of what JSON knows.

    >>> plain({"loss": float("nan"), "path": Path("runs/a"), "split": (1, 2)})
    {'loss': None, 'path': 'runs/a', 'split': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str | bool | int) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def complain(message: str) -> None:
    """An error on standard error: its first line after `error:`, further lines below, six at most."""
    first, *rest = message.splitlines() or [""]
    lines = [
        f"{paint('error:', 'red', sys.stderr)} {first}",
        *(f"       {line.strip()}" for line in rest if line.strip()),
    ]
    print("\n".join(lines[:_ERROR_LINES]), file=sys.stderr, flush=True)


def paint(text: str, style: str, stream: Stream | None = None) -> str:
    """Text in bold or red where the stream is a terminal that wants colour (https://no-color.org)."""
    codes = {"bold": "1", "red": "1;31"}
    return f"\033[{codes[style]}m{text}\033[0m" if colourful(stream or sys.stdout) else text


def colourful(stream: Stream) -> bool:
    """Whether colours are welcome on this stream."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings; wrapped to the width of a terminal, one line a row everywhere else."""
    from rich.console import Console
    from rich.table import Table

    needed = sum(max(map(len, column)) + 2 for column in zip(columns, *rows, strict=True))
    width = None if sys.stdout.isatty() else needed
    console = Console(width=width, markup=False, highlight=False, emoji=False)
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    with console.capture() as captured:
        console.print(drawn)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def number(value: float) -> str:
    """A number a person can read at a glance.

    >>> number(2.113), number(0.00031), number(1234567.0), number(float("nan"))
    ('2.11', '3.1e-4', '1.2e6', 'nan')
    """
    if not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-2 <= abs(value) < 1e4:
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return scientific(value)


def scientific(value: float) -> str:
    """A number as mantissa and exponent, always of the same length.

    >>> scientific(3e-4)
    '3.0e-4'
    """
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def duration(seconds: float) -> str:
    """A length of time.

    >>> duration(6.24), duration(72), duration(7500)
    ('6.2s', '1m12s', '2h05m')
    """
    if not math.isfinite(seconds):
        return "?"
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def size(count: float) -> str:
    """A number of bytes.

    >>> size(1_100_000), size(512)
    ('1.1 MB', '512 bytes')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count:.0f} bytes"


__all__ = [
    "Stream",
    "colourful",
    "complain",
    "duration",
    "emit",
    "number",
    "paint",
    "plain",
    "say",
    "scientific",
    "size",
    "table",
]
