"""Interruption of training: compiled calls kept short, and what asks for a stop: signals, and output that is gone."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self, final

from chainrule.train.events import Event, Listener

_SECONDS_PER_CALL = 0.2


@final
class Clock:
    """Speed of the run, and how many steps a call may take so that a signal is handled soon."""

    def __init__(self) -> None:
        self.last = time.perf_counter()
        self.rate = 0.0
        self.steps = 0
        self.seconds = 0.0
        """Steps since the first call, which is slower than the others, and the time the calls took."""
        self._call = self.last

    def begin(self) -> None:
        """Take note that a call begins."""
        self._call = time.perf_counter()

    def ran(self, steps: int) -> None:
        """Take note that a call of that many steps has just ended."""
        now = time.perf_counter()
        current = steps / max(now - self.last, 1e-9)
        if self.rate:
            self.steps += steps
            self.seconds += now - self._call
        self.rate = current if self.rate == 0.0 else 0.7 * self.rate + 0.3 * current
        self.last = now

    def steps_per_call(self, most: int) -> int:
        """How many steps the next call should take."""
        return max(1, min(most, int(self.rate * _SECONDS_PER_CALL)))


@final
class Signals:
    """The first SIGINT, SIGTERM or SIGHUP is remembered, so that the run can be saved; the second stops at once.

    A SIGHUP that was to be ignored (`nohup`) still is. Only the main thread can receive signals; anywhere else this
    does nothing.
    """

    def __init__(self) -> None:
        self.received = ""
        """Name of the first signal, if there was one."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            numbers = [signal.SIGINT, signal.SIGTERM]
            if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
                numbers.append(signal.SIGHUP)
            self._before = {n: signal.signal(n, self._receive) for n in numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            # A handler that was not installed from Python is shown as None and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self.received:
            raise KeyboardInterrupt
        self.received = signal.Signals(number).name


@final
class Audience:
    """The listener of a run, which cannot take the run with it when its output can no longer be written.

    The reader of a pipe leaves, a terminal is closed, the disk behind a log fills up: the error is kept in `lost`, so
    that the run can be saved before it is raised, and nothing more is told.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self.lost: OSError | None = None

    def __call__(self, event: Event) -> None:
        """Pass an event on."""
        if self.lost is None:
            try:
                self._listener(event)
            except OSError as error:
                self.lost = error


__all__ = ["Audience", "Clock", "Signals"]
