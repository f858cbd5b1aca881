"""Loops over graphs that NumPy cannot express: compiled when that pays, run as plain Python when it does not.

Starting the compiler costs about as much as colouring a graph of some hundred thousand edges in plain Python, so a
process that colours little never waits for it, and a machine without numba gives the same colours, only later. What is
compiled is kept on disk for the next process.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, final

import numpy as np

SMALL_WORK = 1_000_000
"""Steps that plain Python takes in about the time it takes to load the compiler."""

_plain_work = 0.0  # done so far in this process


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
        global _plain_work
        if _plain_work + work >= SMALL_WORK and compiler() is not None:
            _plain_work = SMALL_WORK
            return int(self._compiled()(*args))
        _plain_work += work
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


__all__ = ["SMALL_WORK", "Kernel", "compiler"]
