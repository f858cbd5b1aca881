"""Records of games: SGF for Go (smart game format, FF[4]), plain JSON for all others.

A file is data: what it says is checked against the rules by replaying it, and nothing in it is run.
"""

import json
import os
import re
import string
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from chainrule.agents import games
from chainrule.agents.games.base import Game
from chainrule.agents.records.sgf import parse_sgf
from chainrule.core.errors import ArgumentError, DataError
from chainrule.train.files import read_own, write_atomic

_LETTERS = string.ascii_lowercase
_MOST_BYTES = 16 << 20
"""Of a record: no game is as long, however much is written about it."""


@final
@dataclass(frozen=True)
class GameRecord:
    """One game: what was played, by whom, and how it went."""

    game: str
    """As `games.make` knows it."""
    settings: dict[str, Any] = field(default_factory=dict)
    moves: tuple[str, ...] = ()
    """By name, beginning with the first player's."""
    result: float | None = None
    """For who moved first: 1 won, 0 drawn, -1 lost, None not known."""
    players: tuple[str, str] = ("", "")
    """Who moved first, and second."""
    handicap: bool = False
    """Whether stones lay on the board before the first move, or colours did not alternate: it is not replayed then."""

    def replay(self) -> tuple[Game[Any], list[Any]]:
        """The game, and its states from the first to the last; a move that the rules forbid is refused."""
        if self.handicap:
            raise DataError("a game with handicap stones cannot be replayed from an empty board")
        game = games.make(self.game, **self.settings)
        states = [game.init()]
        for number, move in enumerate(self.moves, start=1):
            try:
                states.append(game.play(states[-1], move))
            except ArgumentError as error:
                raise DataError(
                    f"move {number} of the record: {error.message}", remedy=error.remedy
                ) from None
        return game, states


def save_record(record: GameRecord, path: Path | str) -> Path:
    """Write a record: SGF where the name ends so, which only games of Go can, else JSON."""
    path = Path(path)
    check_place(record.game, path)
    text = write_sgf(record) if path.suffix.lower() == ".sgf" else json.dumps(asdict(record), indent=1) + "\n"
    write_atomic(path, text)
    return path


def _check_sgf(game: str) -> None:
    """Raise unless games of this name have records in SGF."""
    if game != "go":
        raise ArgumentError(f"SGF is for games of Go, not {game}", remedy="save it as .json")


def check_place(game: str, path: Path) -> None:
    """Raise unless a record of a game can be written there: asked before a game, it is not lost after it."""
    if path.suffix.lower() == ".sgf":
        _check_sgf(game)
    if path.is_dir():
        raise ArgumentError(f"{str(path)!r} is a folder", remedy="name a file in it, such as game.json")
    if not path.parent.is_dir():
        raise ArgumentError(
            f"there is no folder {str(path.parent)!r} to save the game in",
            remedy="make it, or save elsewhere",
        )


def load_record(path: Path | str) -> GameRecord:
    """Read a record that `save_record` or another program has written."""
    path = Path(path)
    try:
        text = read_own(Path(os.path.realpath(path)), _MOST_BYTES).decode("utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if path.suffix.lower() == ".sgf":
        return read_sgf(text)
    return _from_json(text, path.name)


def _from_json(text: str, name: str) -> GameRecord:
    try:
        found = json.loads(text)
        record = GameRecord(
            game=str(found["game"]),
            settings=dict(found["settings"]),
            moves=tuple(str(move) for move in found["moves"]),
            result=None if found["result"] is None else float(found["result"]),
            players=(str(found["players"][0]), str(found["players"][1])),
            handicap=bool(found["handicap"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{name} is no record of a game: {type(error).__name__} {error}") from None
    if record.result not in (None, 1.0, 0.0, -1.0):
        raise DataError(f"{name}: the result {record.result:g} is none of 1, 0 and -1")
    return record


def read_sgf(text: str) -> GameRecord:
    """The main line of the first game of an SGF text.

    >>> read_sgf("(;SZ[9]KM[6.5]RE[W+R];B[ee];W[gc];B[])").moves
    ('e5', 'g7', 'pass')
    """
    found = parse_sgf(text)
    game = games.make("go", size=found.size)
    moves = tuple(game.move_name(found.size**2 if cell is None else cell) for _, cell in found.moves)
    in_turn = all(color == "BW"[number % 2] for number, (color, _) in enumerate(found.moves))
    # A record may be longer than games are allowed to be, and may hold what superko forbids: rules differ.
    settings = {"size": found.size, "komi": found.komi}
    settings |= {"limit": max(2 * found.size**2, len(moves) + 1), "superko": False}
    return GameRecord("go", settings, moves, found.outcome, found.players, found.handicap or not in_turn)


def write_sgf(record: GameRecord) -> str:
    """A record of Go as SGF; those of other games are refused."""
    _check_sgf(record.game)
    size = int(record.settings.get("size", 9))
    head = {"GM": "1", "FF": "4", "SZ": str(size), "KM": f"{record.settings.get('komi', 7.5):g}"}
    head |= {"PB": record.players[0], "PW": record.players[1]}
    if record.result is not None:
        head["RE"] = {1.0: "B+", -1.0: "W+", 0.0: "0"}[record.result]
    nodes = ["".join(f"{name}[{_protected(value)}]" for name, value in head.items())]
    game = games.make("go", size=size)
    for number, move in enumerate(record.moves):
        row, column = divmod(game.move_of(move), size)
        letters = "" if move == "pass" else _LETTERS[column] + _LETTERS[row]
        nodes.append(f"{'BW'[number % 2]}[{letters}]")
    return "(" + "".join(f";{node}" for node in nodes) + ")\n"


def _protected(value: str) -> str:
    return re.sub(r"([\]\\])", r"\\\1", value)


__all__ = ["GameRecord", "check_place", "load_record", "read_sgf", "save_record", "write_sgf"]
