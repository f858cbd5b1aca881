"""Sequences of symbols to look at: the letters of a text file, of the embedded plays, or the notes of a tune."""

from pathlib import Path
from typing import NamedTuple

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.quoting import plain
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.readers import text

# Frère Jacques, of the 18th century.
_TUNE = ("C D E C C D E C E F G E F G G A G F E C G A G F E C C g C C g C " * 4).split()


class Symbols(NamedTuple):
    """A sequence, and what it is called."""

    name: str
    items: list[str]
    between: str
    """What stands between two symbols where they are written one after another."""


def symbols_of(name: str, longest: int) -> Symbols:
    """The first `longest` symbols of "tune", "shakespeare", or a text file.

    >>> symbols_of("tune", 5).items
    ['C', 'D', 'E', 'C', 'C']
    """
    if name == "tune":
        return Symbols("the tune", _TUNE[:longest], " ")
    path = Path(text.__file__).parents[1] / "embedded" / "shakespeare.txt"
    path = path if name == "shakespeare" else Path(name)
    if not path.exists():
        raise ArgumentError(
            f"data={plain(name)!r}: there is no such file",
            remedy='give the path of a text file, or "shakespeare" or "tune"',
        )
    try:
        found, bad, _ = text.decode(
            bounded.read(path, plain(name), MAX_BYTES.default, MAX_RATIO.default), plain(name)
        )
    except Refused as error:
        raise DataError(
            f"{error.problem.where}: {error.problem.reason}", remedy=error.problem.remedy
        ) from None
    for problem in bad.values():
        raise DataError(f"{problem.where}: {problem.reason}", remedy=problem.remedy)
    if len(found) < 2:
        raise DataError(f"{plain(name)}: {len(found)} characters are no sequence")
    return Symbols(plain(path.name, 40), list(found[:longest]), "")


__all__ = ["Symbols", "symbols_of"]
