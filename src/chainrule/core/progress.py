"""Progress of long computations, reported to a listener.

Scores and probes run through layers that have nothing to do with a terminal. They report what they are doing; a verb
of the command line installs a listener for as long as it waits. Without a listener nothing happens.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeAlias, runtime_checkable

Listener: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""


@runtime_checkable
class Stream(Protocol):
    """What is needed of a stream to write to."""

    def write(self, text: str, /) -> int:
        """Write some text."""

    def flush(self) -> None:
        """Show what was written."""

    def isatty(self) -> bool:
        """Whether a person looks at it through a terminal."""


_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass updates of progress inside to `listener`.

    >>> with listening(lambda what, done, total: print(f"{what} {done}/{total}")):
    ...     update("bound", 1, 4)
    bound 1/4
    >>> update("bound", 2, 4)
    """
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


def update(what: str, done: int, total: int) -> None:
    """Report how much of something is done; called between two pieces of work, never inside a compiled program."""
    listener = _listener.get()
    if listener is not None:
        listener(what, done, total)


__all__ = ["Listener", "Stream", "listening", "update"]
