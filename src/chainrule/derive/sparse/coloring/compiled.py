"""Compiled loops over graphs: numba when that pays, plain Python when it does not.

Starting the compiler costs about as much as colouring a graph of some hundred thousand edges in plain Python, so a
colouring with little to do never waits for it, and a machine without numba gives the same colours, only later. A loop
that is compiled stays so, and is kept on disk for the next process.

Work is added up within one task (`one_task`, around a colouring and around all that one derivative tries), not over
the process: what a colouring does depends on its own arguments, in every thread.
"""

import contextlib
import contextvars
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

SMALL_WORK = 1_500_000
"""Steps that plain Python takes in about the time it takes to load the compiler (half a second)."""
LOADED_WORK = 200_000
"""Steps that it takes in about the time a loop takes to come from the disk, once the compiler is there."""


@final
class _Work:
    """Steps that plain Python has taken for one task."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0.0


_task: contextvars.ContextVar[_Work | None] = contextvars.ContextVar("task", default=None)


@contextlib.contextmanager
def one_task() -> Iterator[None]:
    """Loops inside are added up when it is decided whether compiling pays; a task inside a task is part of it."""
    if _task.get() is not None:
        yield
        return
    token = _task.set(_Work())
    try:
        yield
    finally:
        _task.reset(token)


@functools.cache
def compiler() -> Any:
    """The `numba` module, or `None` where it is not installed."""
    try:
        import numba
    except ImportError:
        return None
    return numba


@final
class Kernel:
    """A function on one-dimensional integer arrays and numbers that changes some of the arrays in place.

    It is called with an estimate of its work in front of its own arguments. Plain Python runs it on lists, which are
    several times faster to index than arrays.
    """

    def __init__(self, plain: Callable[..., int]) -> None:
        self._plain = inspect.unwrap(plain)
        self._fast: Callable[..., int] | None = None

    def __call__(self, work: float, *args: Any) -> int:
        """Run it."""
        task = _task.get() or _Work()
        task.done += work
        enough = min(SMALL_WORK, LOADED_WORK) if "numba" in sys.modules else SMALL_WORK
        if (self._fast is not None or task.done >= enough) and compiler() is not None:
            return int(self._compiled()(*args))
        lists = [arg.tolist() if isinstance(arg, np.ndarray) else arg for arg in args]
        result = self._plain(*lists)
        for arg, changed in zip(args, lists, strict=True):
            if isinstance(arg, np.ndarray):
                arg[:] = changed
        return int(result)

    def _compiled(self) -> Callable[..., int]:
        if self._fast is None:
            numba = compiler()
            try:
                self._fast = numba.njit(cache=True, nogil=True)(self._plain)
            except RuntimeError:  # no folder to keep compiled code in: compile anew in every process
                self._fast = numba.njit(nogil=True)(self._plain)
        assert self._fast is not None
        return self._fast


__all__ = ["LOADED_WORK", "SMALL_WORK", "Kernel", "compiler", "one_task"]
