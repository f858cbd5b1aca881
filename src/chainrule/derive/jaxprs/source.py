"""Source lines of operations in the user's code.

JAX remembers the whole call stack of every operation. The line a person wants is the innermost one that is neither
in JAX nor in a library that only passes calls on.
"""

import linecache
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, final

import equinox
import jax
import jaxtyping

_FOLDERS = tuple(
    str(Path(str(file)).parent) + "/"
    for file in (
        jax.__file__,
        equinox.__file__,
        jaxtyping.__file__,
        Path(__file__).parent,
    )  # last: chainrule/derive
)
_STANDARD = sysconfig.get_paths()["stdlib"]


@final
@dataclass(frozen=True)
class SourceLine:
    """A line of the user's code.

    >>> str(SourceLine("work/model.py", 12, "loss"))
    'model.py:12'
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}:{self.line}"

    @property
    def text(self) -> str:
        """The code of the line, empty where it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


def of_equation(equation: Any) -> SourceLine | None:
    """The line an equation of a program comes from; none where no line of the user took part."""
    traceback = equation.source_info.traceback
    if traceback is None:
        return None
    return _first((frame.file_name, frame.line_num, frame.function_name) for frame in traceback.frames)


def of_caller() -> SourceLine | None:
    """The line of the user's code that is being run now."""
    return _first(_frames(sys._getframe(1)))


def _frames(frame: FrameType | None) -> Iterable[tuple[str, int, str]]:
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def _first(frames: Iterable[tuple[str, int, str]]) -> SourceLine | None:
    for file, line, function in frames:
        if not _is_library(file):
            return SourceLine(file, line, function.rpartition(".")[2])
    return None


def _is_library(file: str) -> bool:
    if file.startswith(_FOLDERS) or file.startswith(("<@beartype", "<frozen", "<string>")):
        return True
    return "/beartype/" in file or (file.startswith(_STANDARD) and "-packages" not in file)


__all__ = ["SourceLine", "of_caller", "of_equation"]
