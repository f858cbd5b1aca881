"""Progress line of a command that computes without printing.

It goes to standard error, so that a table on standard output stays clean: on a terminal a line that is drawn over and
wiped away at the end, in a log one line every few seconds.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from chainrule.cli.defaults import LOG_SECONDS
from chainrule.core.progress import Stream, listening
from chainrule.core.quoting import plain
from chainrule.report.progress import bar


@final
class ProgressLine:
    """Writes updates of progress to one stream."""

    def __init__(self, stream: Stream, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock, self._due = stream, clock, clock() + LOG_SECONDS
        self._open = self._gone = False
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        """Draw the line over, or write one if this has been going on for some time."""
        what = plain(what)
        if what != self._what:
            self._what, self._due = what, self._clock() + LOG_SECONDS
        counts = (
            f"{done:>{len(f'{total:,}')},}/{total:,}" if total else f"{done:,}"
        )  # how many is not always known
        if self._stream.isatty():
            self._put(f"\r{bar(done / max(total, 1))} {counts}   {what}\033[K")
            self._open = True
        elif self._clock() >= self._due:
            self._due = self._clock() + LOG_SECONDS
            self._put(f"{what}  {counts}\n")

    def close(self) -> None:
        """Wipe the line away."""
        if self._open:
            self._put("\r\033[K")
            self._open = False

    def _put(self, text: str) -> None:
        """Write some text; where nobody can read it any more, the work goes on without."""
        if not self._gone:
            try:
                self._stream.write(text)
                self._stream.flush()
            except OSError:
                self._gone = True


@contextmanager
def progress_line(*, silent: bool) -> Iterator[None]:
    """Show the progress of what is done inside; machines (`silent`) read nothing but the result."""
    if silent:
        yield
        return
    shown = ProgressLine(sys.stderr)
    try:
        with listening(shown):
            yield
    finally:
        shown.close()


__all__ = ["ProgressLine", "progress_line"]
