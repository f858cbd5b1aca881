"""The worker's side of `benchmarks/peer.py`: orders come in as JSON lines, answers go out as JSON lines.

Runs in the peers' environment: standard library only. `steady` times a loop in the same way for everybody.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Ready(NamedTuple):
    """A worker that has been prepared."""

    result: Sequence[float]
    compile_seconds: float
    versions: dict[str, str]
    turn: Callable[[], float]
    """Seconds for one unit of work."""


def serve(prepare: Callable[..., Ready]) -> None:
    """Answer orders until there are no more."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not look like an answer
    ready: Ready | None = None
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        if order.pop("do") == "prepare":
            ready = prepare(**order)
            answer = {
                "result": list(ready.result),
                "compile_seconds": ready.compile_seconds,
                "versions": ready.versions,
            }
        else:
            assert ready is not None, "prepare first"
            answer = {"seconds": ready.turn()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


TURN_SECONDS = 0.5
PIECE = 16
"""Steps between two looks at the clock."""


def steady(work: Callable[[int], object], piece: int = PIECE, seconds: float = TURN_SECONDS) -> float:
    """Seconds per step of `work(steps)` over a turn, after one piece of it that warms the caches up."""
    work(piece)
    began = time.perf_counter()
    done = 0
    while time.perf_counter() - began < seconds:
        work(piece)
        done += piece
    return (time.perf_counter() - began) / done
