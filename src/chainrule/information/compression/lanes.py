"""Lanes: independent streams of one segment, each a coder of its own that works at the same time as the others.

A lane holds a part of the examples, or of a text, one after another. While the coder of one lane works, the networks of
another run. Each lane begins with bits of its own, so that every lane more makes a file a little longer.
"""

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from chainrule.information.compression.codes import Code, CodedStream, Watch

MOST = 256
"""Lanes of a file."""
Part = TypeVar("Part")


def encode_lanes(
    code: Code, symbols: np.ndarray, lanes: int, seed: int, watch: Watch
) -> tuple[CodedStream, ...]:
    """The streams of a segment."""
    parts = np.array_split(symbols, lanes)
    return _side_by_side(lanes, lambda lane, own: code.encode(parts[lane], (seed, lane), own), watch)


def decode_lanes(
    code: Code, streams: Sequence[CodedStream], count: int, seed: int, watch: Watch
) -> np.ndarray:
    """The symbols of a segment."""
    shares = lane_counts(count, len(streams))
    parts = _side_by_side(
        len(streams),
        lambda lane, own: code.decode(streams[lane], shares[lane], (seed, lane), own),
        watch,
    )
    return np.concatenate(parts)


def lane_counts(count: int, lanes: int) -> list[int]:
    """How many of `count` examples or tokens every lane holds.

    >>> lane_counts(10, 4)
    [3, 3, 2, 2]
    """
    return [count // lanes + (lane < count % lanes) for lane in range(lanes)]


class _Stopped(Exception):  # nothing went wrong in a lane that is told to stop
    """Another lane has failed, or the user wants no more."""


def _side_by_side(lanes: int, work: Callable[[int, Watch], Part], watch: Watch) -> tuple[Part, ...]:
    """What the work of every lane gives; one that fails stops the others."""
    if lanes == 1:
        return (work(0, watch),)
    done, lock, stop = [0] * lanes, threading.Lock(), threading.Event()

    def own(lane: int) -> Watch:
        def tell(count: int) -> None:
            if stop.is_set():
                raise _Stopped
            with lock:
                done[lane] = count
                watch(sum(done))

        return tell

    with ThreadPoolExecutor(lanes) as pool:
        # Listeners of progress belong to a context, which threads do not have by themselves.
        coming = [pool.submit(contextvars.copy_context().run, work, lane, own(lane)) for lane in range(lanes)]
        try:
            ended, _ = wait(coming, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
        failed = [error for one in ended if (error := one.exception()) is not None]
        if failed:
            raise failed[0]
        return tuple(one.result() for one in coming)


__all__ = ["MOST", "decode_lanes", "encode_lanes", "lane_counts"]
