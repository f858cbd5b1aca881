"""Times that belong to the contestant and not to whoever else uses the machine.

The kernel counts how long all processors were busy and how long each process ran; the difference over a turn is the
work of others. A turn starts when the machine is idle and is repeated when others used more than a small share of it.
"""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_SHARE = 0.05
"""Of one processor: above this, others disturb."""
_SAMPLE_SECONDS = 0.25


@final
class Watch:
    """Waits for quiet before a turn, up to `patience` seconds, and repeats turns that others disturbed."""

    def __init__(self, patience: float, *, repeats: int = 2) -> None:
        self.patience = patience
        self.repeats = repeats
        self._mine: list[int] = [os.getpid()]

    def track(self, processes: Sequence[int]) -> None:
        """Count the work of these processes as our own."""
        self._mine = [os.getpid(), *processes]

    def take(self, turn: Callable[[], float]) -> tuple[float, bool]:
        """The seconds a turn reports, and whether the machine was ours while it ran."""
        seconds, calm = 0.0, False
        for _ in range(1 + self.repeats):
            self._wait()
            before, began = self._foreign(), time.perf_counter()
            seconds = turn()
            wall = time.perf_counter() - began
            # Counters move in ticks, one for each process and processor.
            slack = 2 * _TICK * (1 + len(self._mine))
            calm = self._foreign() - before <= _SHARE * wall + slack
            if calm:
                break
        return seconds, calm

    def _wait(self) -> None:
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            before = self._foreign()
            time.sleep(_SAMPLE_SECONDS)
            if self._foreign() - before <= _SHARE * _SAMPLE_SECONDS + 2 * _TICK:
                return

    def _foreign(self) -> float:
        """Processor seconds used so far by everybody else."""
        user, nice, system, _, _, irq, softirq, steal = _fields("/proc/stat")[1:9]
        busy = sum(map(int, (user, nice, system, irq, softirq, steal)))
        mine = sum(sum(map(int, _fields(f"/proc/{pid}/stat")[13:15])) for pid in self._mine)
        return (busy - mine) * _TICK


def _fields(file: str) -> list[str]:
    line = Path(file).read_text().splitlines()[0]
    # The name of a process stands in parentheses and may hold blanks.
    head, found, tail = line.rpartition(")")
    return [*head.split("(")[:1], "", *tail.split()] if found else line.split()


__all__ = ["Watch"]
