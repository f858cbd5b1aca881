"""Options of a data source: which exist, what values they take, what they default to.

They are plain values, so that the call that loaded some data can be written to a file and repeated.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, final

from chainrule.core.errors import ArgumentError, spell, suggest


@final
@dataclass(frozen=True)
class Option:
    """One option of a source."""

    default: Any
    parse: Callable[[Any], Any]
    """The value in its plain form, or a `ValueError` that says what it must be."""
    help: str
    guard: bool = False
    """A limit against hostile files: it decides whether data are read, never what they are."""

    def takes(self, value: Any) -> bool:
        """Whether a value is one of those it can have."""
        try:
            self.parse(value)
        except ValueError:
            return False
        return True


COMMON = ("seed", "split", "bad", "copies")
"""Options of all sources: arguments of `load`."""


def resolve(label: str, known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with its value, given or default.

    >>> resolve("text", {"window": Option(128, whole(2), "tokens in an example")}, {"windwo": 64})
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: unknown option 'windwo' of text data (did you mean 'window'?)
           options: window, and for all data: seed, split, bad, copies
    """
    for name in given:
        if name not in known:
            own = f"{', '.join(known)}, and for all data: " if known else ""
            raise ArgumentError(
                f"unknown option {name!r} of {label} data{suggest(name, [*known, *COMMON])}",
                remedy=f"options: {own}{', '.join(COMMON)}",
            )
    values = {name: option.default for name, option in known.items()}
    for name, value in given.items():
        try:
            values[name] = known[name].parse(value)
        except ValueError as error:
            raise ArgumentError(f"{name}={value!r}: {name} must be {error}") from None
    return values


def whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    """A whole number in a range."""
    span = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"

    def parse(value: Any) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < low
            or (high is not None and value > high)
        ):
            raise ValueError(span)
        return value

    return parse


def number(low: float) -> Callable[[Any], float]:
    """A finite number with a lower end."""

    def parse(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value < float("inf"):
            raise ValueError(f"a number of at least {low:g}")
        return float(value)

    return parse


def choice(*names: str) -> Callable[[Any], str]:
    """One of some words."""

    def parse(value: Any) -> str:
        if value not in names:
            raise ValueError(spell(names))
        return str(value)

    return parse


def optional(parse: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`None`, or what another parser takes."""
    return lambda value: None if value is None else parse(value)


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def size(value: Any) -> list[int]:
    """Height and width; one number is both."""
    pair = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(pair) != 2 or any(
        isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 8192 for n in pair
    ):
        raise ValueError("a whole number from 1 to 8192, or two of them: height, width")
    return pair


NO_COLUMN = "none"
"""What is written instead of the name of a column where there is to be none."""


def column(value: Any) -> str | int:
    """The name of a column or its position, counted from 0 or, backwards, from -1; "none" for no column."""
    if isinstance(value, bool) or not isinstance(value, str | int | None):
        raise ValueError('the name of a column, its number, or "none"')
    return NO_COLUMN if value is None else value


def columns(value: Any) -> list[str | int]:
    """Names or positions of columns."""
    many: Collection[Any] = value if isinstance(value, list | tuple) else [value]
    return [column(one) for one in many]


def guard(default: int, help: str, high: int | None = None) -> Option:
    """A limit against hostile files."""
    return Option(default, whole(1, high), help, guard=True)


MAX_BYTES = guard(2**32, "largest size in memory, in bytes")
MAX_RATIO = guard(200, "largest ratio of unpacked to packed size")
SERIES = Option(None, optional(whole(2)), "one long series, row after row: steps in an example")
LEVELS = Option(
    None,
    optional(whole(2, 2**16)),
    "whole numbers from 0 on: how many values each can take (2 for zeros and ones); they are not standardised",
)
BINARIZE = Option(
    None,
    optional(choice("threshold", "stochastic", "dynamic")),
    "zeros and ones instead of grey: cut at one half, or by a coin with that probability, thrown once or (dynamic) "
    "anew whenever training sees the example",
)
BITS = Option(
    None,
    optional(whole(1, 15)),
    "images: keep so many of the highest bits of every number (5 of 8: 32 levels), on whose scale likelihoods then are",
)

__all__ = [
    "BINARIZE",
    "BITS",
    "COMMON",
    "LEVELS",
    "MAX_BYTES",
    "MAX_RATIO",
    "NO_COLUMN",
    "SERIES",
    "Option",
    "choice",
    "column",
    "columns",
    "flag",
    "guard",
    "number",
    "optional",
    "resolve",
    "size",
    "whole",
]
