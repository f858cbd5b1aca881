"""Output of the command line: labelled lines and tables for people, JSON lines for machines, errors in six lines.

Everything here is light, so that `--help` and a mistyped verb answer at once; rich is imported where a table is drawn.
"""

import contextlib
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from chainrule.core.progress import Stream
from chainrule.core.quoting import is_plain, plain, printable

_LABEL = 9
_UNREADABLE = re.compile(r"Error reading persistent compilation cache entry for '([^']+)'")
_ERROR_LINES = 6


def say(label: str, text: str) -> None:
    """A labelled line on standard output; a line break in the text is shown, not made."""
    print(paint(plain(label).ljust(_LABEL), "bold") + plain(text), flush=True)


def show(text: object = "", *, end: str = "\n") -> None:
    """Text of one or several lines on standard output; line breaks are made, other control characters shown."""
    print(printable(text), end=end, flush=True)


def heading(title: str, rest: str = "") -> None:
    """A line with a title in bold, between empty lines."""
    print(f"\n{paint(plain(title), 'bold')}{plain(rest)}\n", flush=True)


def emit(value: Any) -> None:
    """One line of JSON on standard output; numbers that JSON does not have become null."""
    line = json.dumps(jsonable(value), ensure_ascii=False, allow_nan=False)
    if not is_plain(line):  # what a terminal would obey is written the long way, which means the same
        line = "".join(c if is_plain(c) else json.dumps(c)[1:-1] for c in line)
    print(line, flush=True)


def jsonable(value: Any) -> Any:
    """A value made of what JSON knows.

    >>> jsonable({"loss": float("nan"), "path": Path("runs/a"), "split": (1, 2)})
    {'loss': None, 'path': 'runs/a', 'split': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str | bool | int) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def note(text: str) -> None:
    """A line on standard error about something that does not stand in the way."""
    with contextlib.suppress(OSError):  # a terminal that was closed cannot be told
        print(f"{paint('note:', 'bold', sys.stderr)} {plain(text)}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show warnings as notes, without the lines of code they come from; a damaged compiled program is removed."""

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        text = str(message)
        found = _UNREADABLE.search(text)
        note(_forget(found[1]) if found else text.splitlines()[0])

    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        yield


def _forget(program: str) -> str:
    """Remove a compiled program that cannot be read from the cache, so that it is compiled and kept anew."""
    folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR", ""))
    damaged = [file for file in folder.iterdir() if file.name.startswith(f"{program}-")]
    for file in damaged:
        file.unlink(missing_ok=True)
    return f"a compiled program in {folder} was damaged: it is removed, and compiled again"


def silence() -> None:
    """Let standard output lead nowhere, because it can no longer be written; Python would complain when it closes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str) -> None:
    """An error on standard error: its first line after `error:`, further lines below, six at most."""
    first, *rest = printable(message).splitlines() or [""]
    lines = [
        f"{paint('error:', 'red', sys.stderr)} {first}",
        *(f"       {line.strip()}" for line in rest if line.strip()),
    ]
    with contextlib.suppress(OSError):  # a terminal that was closed cannot be told
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

    columns, *rows = [[plain(cell) for cell in row] for row in (columns, *rows)]
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


__all__ = [
    "colourful",
    "complain",
    "emit",
    "heading",
    "jsonable",
    "note",
    "paint",
    "say",
    "show",
    "silence",
    "table",
    "warnings_as_notes",
]
