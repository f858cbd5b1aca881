"""What is shown while a verb computes: how far it has come, beside what it prints.

It goes to standard error, so that a table on standard output stays clean: on a terminal a line that is drawn over and
wiped away at the end, in a log one line every few seconds.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

from chainrule.cli.defaults import LOG_SECONDS
from chainrule.cli.output import Stream
from chainrule.cli.progress import bar
from chainrule.core.progress import heard_by


@final
class Waiting:
    """Shows what is told to it, on one stream."""

    def __init__(self, stream: Stream, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock, self._due = stream, clock, clock() + LOG_SECONDS
        self._open = False

    def __call__(self, what: str, done: int, total: int) -> None:
        """Draw the line over, or write one if it is time."""
        counts = f"{done:>{len(f'{total:,}')},}/{total:,}"
        if self._stream.isatty():
            self._stream.write(f"\r{bar(done / max(total, 1))} {counts}   {what}\033[K")
            self._open = True
        elif self._clock() >= self._due:
            self._due = self._clock() + LOG_SECONDS
            self._stream.write(f"{what}  {counts}\n")
        self._stream.flush()

    def close(self) -> None:
        """Wipe the line away."""
        if self._open:
            self._stream.write("\r\033[K")
            self._stream.flush()
            self._open = False


@contextmanager
def waiting(*, silent: bool) -> Iterator[None]:
    """Show the progress of what is done inside; machines (`silent`) read nothing but the result."""
    if silent:
        yield
        return
    shown = Waiting(sys.stderr)
    try:
        with heard_by(shown):
            yield
    finally:
        shown.close()


__all__ = ["Waiting", "waiting"]
