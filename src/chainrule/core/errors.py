"""The error classes of the package: every message says what went wrong, where, and what to do about it.

Every class is a `ValueError` with the exit code the command line returns for it. The first line says what is
wrong, further lines say what to do; no traceback is needed to act on it.
"""

import difflib
from collections.abc import Iterable
from typing import Any, ClassVar

from chainrule.core.quoting import plain, printable


class ChainruleError(ValueError):
    """Base of every error Chainrule raises on purpose.

    >>> raise ChainruleError("the disk is on fire", remedy="fetch water")
    Traceback (most recent call last):
    chainrule.core.errors.ChainruleError: the disk is on fire
           fetch water
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, remedy: str = "") -> None:
        # Names of files, classes and runs stand in messages; none may forge a line or reach a terminal as an escape.
        self.message = plain(message)
        self.remedy = printable(remedy)
        lines = [self.message, *self.remedy.splitlines()]
        super().__init__("\n       ".join(lines))


class ArgumentError(ChainruleError):
    """An argument or setting has a value that cannot be used."""


class CapabilityError(ChainruleError):
    """The model cannot do what was asked of it."""


class DataError(ChainruleError):
    """The data cannot be read, or cannot be used as they are."""

    exit_code = 3


class DivergedError(ChainruleError):
    """Training met a value that is not finite."""

    exit_code = 4


class DiskError(ChainruleError):
    """A file could not be written: disk full, read-only or too small."""

    exit_code = 5


class CheckpointError(ChainruleError):
    """A checkpoint is damaged, of an unknown format, or belongs to something else."""


class RunError(ChainruleError):
    """A run folder is missing, in use by another process, or in the wrong state."""


class ChainruleWarning(UserWarning):
    """Something worth knowing that does not stand in the way."""


class ImplicitFunctionError(ChainruleError):
    """The implicit function theorem does not hold at a point, so what was asked for has no derivative there.

    `condition` names what is violated; the numbers that show it are `residual` (norm of F), `rcond` (estimated
    reciprocal condition of dF/dw, not a number where that was not estimated) and `null_direction` (a change of the
    unknowns that F hardly notices, in the structure of the unknowns).
    """

    def __init__(
        self,
        message: str,
        *,
        condition: str,
        residual: float = float("nan"),
        rcond: float = float("nan"),
        null_direction: Any = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.condition = condition
        self.residual = residual
        self.rcond = rcond
        self.null_direction = null_direction


def suggest(word: str, options: Iterable[str]) -> str:
    """A parenthesis naming the closest option, or an empty string.

    >>> suggest("epoch", ["epochs", "steps"])
    " (did you mean 'epochs'?)"
    >>> suggest("zzz", ["epochs", "steps"])
    ''
    """
    close = difflib.get_close_matches(word, list(options), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def spell(options: Iterable[str]) -> str:
    """Options as a person would list them.

    >>> spell(["auto", "forward", "reverse"])
    '"auto", "forward" or "reverse"'
    """
    quoted = [f'"{option}"' for option in options]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" or {quoted[-1]}"


def check_choice(where: str, argument: str, value: Any, options: Iterable[str]) -> None:
    """Raise unless `value` is one of `options`.

    >>> check_choice("jacobian", "mode", "sideways", ["auto", "forward", "reverse"])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: jacobian(mode="sideways"): mode must be "auto", "forward" or "reverse"
    """
    options = list(options)
    if not (isinstance(value, str) and value in options):
        shown = f'"{value}"' if isinstance(value, str) else repr(value)
        hint = suggest(value, options) if isinstance(value, str) else ""
        raise ArgumentError(f"{where}({argument}={shown}): {argument} must be {spell(options)}{hint}")


__all__ = [
    "ArgumentError",
    "CapabilityError",
    "ChainruleError",
    "ChainruleWarning",
    "CheckpointError",
    "DataError",
    "DiskError",
    "DivergedError",
    "ImplicitFunctionError",
    "RunError",
    "check_choice",
    "spell",
    "suggest",
]
