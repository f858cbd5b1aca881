"""Compiled loops over graphs: machine code when that pays, plain Python when it does not.

A loop is translated to LLVM text and from there to machine code once in a process (`translation`). Loading LLVM takes
as long as plain Python takes for some hundred thousand steps, so a colouring with little to do never waits for it.
Colours are the same either way.

Work is added up within one task (`one_task`, around a colouring and around all that one derivative tries), not over
the process: what a colouring does depends on its own arguments, in every thread.
"""

import contextlib
import contextvars
import ctypes
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from chainrule.core.machine_code import build_here
from chainrule.derive.sparse.coloring.translation import translated

SMALL_WORK = 200_000
"""Steps that plain Python takes in about the time it takes to load LLVM and compile a loop (0.03 seconds)."""
LOADED_WORK = 80_000
"""Steps that it takes in the time it takes to compile a loop, once LLVM is there."""
_KINDS = {np.dtype(np.int32): "i32", np.dtype(np.int64): "i64"}


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


@final
class CompiledLoop:
    """A function on one-dimensional integer arrays and numbers that changes some of the arrays in place.

    It is called with an estimate of its work in front of its own arguments. Plain Python runs it on lists, which are
    several times faster to index than arrays.
    """

    def __init__(self, plain: Callable[..., int]) -> None:
        self._plain = inspect.unwrap(plain)
        self._fast: dict[tuple[str | None, ...], _Compiled] = {}
        """By the kinds of the arguments."""

    def __call__(self, work: float, *args: Any) -> int:
        """Run it."""
        if self._pays(work):
            return self._run_compiled(args)
        lists = [arg.tolist() if isinstance(arg, np.ndarray) else arg for arg in args]
        result = self._plain(*lists)
        for arg, changed in zip(args, lists, strict=True):
            if isinstance(arg, np.ndarray):
                arg[:] = changed
        return int(result)

    def _pays(self, work: float) -> bool:
        task = _task.get() or _Work()
        task.done += work
        enough = min(SMALL_WORK, LOADED_WORK) if "llvmlite.binding" in sys.modules else SMALL_WORK
        return bool(self._fast) or task.done >= enough

    def _run_compiled(self, args: tuple[Any, ...]) -> int:
        given = [_plain_array(arg) if isinstance(arg, np.ndarray) else int(arg) for arg in args]
        kinds = tuple(_KINDS[arg.dtype] if isinstance(arg, np.ndarray) else None for arg in given)
        if kinds not in self._fast:
            self._fast[kinds] = _Compiled(self._plain, kinds)
        result = self._fast[kinds](given)
        for arg, used in zip(args, given, strict=True):
            if isinstance(arg, np.ndarray) and used is not arg:
                arg[:] = used
        return result


@final
class _Compiled:
    """Machine code for arguments of some kinds."""

    def __init__(self, plain: Callable[..., int], kinds: tuple[str | None, ...]) -> None:
        self._engine = build_here(translated(plain, kinds), passes=True)
        types: list[Any] = []
        for kind in kinds:
            types += [ctypes.c_int64] if kind is None else [ctypes.c_void_p, ctypes.c_int64]
        self._call = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(self._engine.get_function_address("run"))

    def __call__(self, given: list[Any]) -> int:
        passed: list[int] = []
        for arg in given:
            passed += [arg.ctypes.data, len(arg)] if isinstance(arg, np.ndarray) else [arg]
        return int(self._call(*passed))


def _plain_array(array: np.ndarray) -> np.ndarray:
    """The array itself, or what it holds as machine code reads it: side by side, in one of two sizes of numbers."""
    return np.ascontiguousarray(array, array.dtype if array.dtype in _KINDS else np.int64)


__all__ = ["LOADED_WORK", "SMALL_WORK", "CompiledLoop", "one_task"]
