"""Game records of Go in the Smart Game Format (FF[1] to FF[4], Hollosi 1999): reading the main line of a file.

A file is a tree of nodes with properties such as `B[pd]`; where it branches, the first branch is the game as it was
played. Text is only ever read, never trusted: what is no record is an error that says where.
"""

import re
from typing import NamedTuple

from chainrule.core.errors import DataError

_TOKEN = re.compile(r"\s*(?:(?P<mark>[();])|(?P<name>[A-Za-z]+)|\[(?P<value>(?:[^\]\\]|\\.)*)\])", re.DOTALL)
_DRAWN = ("0", "draw", "jigo")


class GoRecord(NamedTuple):
    """A game of Go as it is written down."""

    size: int
    moves: tuple[tuple[str, int | None], ...]
    """Colour, B or W, and the cell, row by row from the top; None for a pass."""
    outcome: float | None
    """1 where black won, -1 where white did, 0 for a draw, None where the record does not say."""
    handicap: bool
    """Whether stones were on the board before the first move."""
    komi: float
    """Points for white; 0 where the record does not say."""
    players: tuple[str, str]
    """Black and white by name, as far as the record says."""


def parse_sgf(text: str) -> GoRecord:
    """The first game of a file.

    >>> parse_sgf("(;SZ[5]RE[B+R];B[cc];W[])").moves
    (('B', 12), ('W', None))
    """
    nodes = _main_line(text)
    root: dict[str, list[str]] = {}
    for node in nodes:
        for name, values in node.items():
            root.setdefault(name, values)
    if root.get("GM", ["1"])[0].strip() not in ("1", ""):
        raise DataError(f"a record of another game than Go: GM[{root['GM'][0]}]")
    size = _size(root.get("SZ", ["19"])[0])
    moves = tuple(
        (colour, _cell(node[colour][0], size)) for node in nodes for colour in ("B", "W") if colour in node
    )
    handicap = any(name in root for name in ("AB", "AW", "AE"))
    players = root.get("PB", [""])[0], root.get("PW", [""])[0]
    outcome, komi = _outcome(root.get("RE", [""])[0]), _komi(root.get("KM", ["0"])[0])
    return GoRecord(size, moves, outcome, handicap, komi, players)


def _main_line(text: str) -> list[dict[str, list[str]]]:
    """Nodes of the first game, along first branches."""
    nodes: list[dict[str, list[str]]] = []
    name, at, depth, left = "", 0, 0, False
    start = text.find("(")
    if start < 0:
        raise DataError("no game record: there is no '('")
    at = start
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            if not text[at:].strip():
                break
            blank = len(text[at:]) - len(text[at:].lstrip())
            line = text.count("\n", 0, at + blank) + 1
            raise DataError(f"no game record: line {line} is not understood")
        at = found.end()
        mark = found["mark"]
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
            left = True  # the first branch has ended: what follows are others
            if depth == 0:
                return nodes
        elif left:
            continue
        elif mark == ";":
            nodes.append({})
        elif not nodes:
            raise DataError("no game record: a property stands before the first node")
        elif found["name"] is not None:
            # Older files write names at length, such as White; only capitals count.
            name = re.sub("[a-z]", "", found["name"])
        else:
            nodes[-1].setdefault(name, []).append(re.sub(r"\\(.)", r"\1", found["value"], flags=re.DOTALL))
    raise DataError("no game record: it ends in the middle")


def _size(text: str) -> int:
    if not re.fullmatch(r"\s*\d{1,2}\s*", text):
        raise DataError(f"SZ[{text}]: boards are squares of up to 52 lines")
    return int(text)


def _komi(text: str) -> float:
    if not re.fullmatch(r"\s*([+-]?(\d{1,3}\.?|\d{0,3}\.\d{1,9}))?\s*", text):
        raise DataError(f"KM[{text}]: komi is a number of points")
    return float(text.strip() or 0)


def _cell(text: str, size: int) -> int | None:
    text = text.strip()
    if text == "" or (text == "tt" and size <= 19):
        return None
    column, row = (ord(letter) - ord("a") for letter in text) if re.fullmatch("[a-z]{2}", text) else (-1, -1)
    if not (0 <= column < size and 0 <= row < size):
        raise DataError(f"the move [{text}] is not on a board of {size} lines")
    return row * size + column


def _outcome(text: str) -> float | None:
    text = text.strip().lower()
    if text.startswith(("b+", "w+")):
        return 1.0 if text[0] == "b" else -1.0
    return 0.0 if text in _DRAWN else None


__all__ = ["GoRecord", "parse_sgf"]
