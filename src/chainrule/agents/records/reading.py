"""Reading stored games from files: what cannot be used is said, and left out only where that was asked for.

Games of Go are SGF files, games of any other kind the JSON that the arena writes.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chainrule.agents import games
from chainrule.agents.arena.records import load_record
from chainrule.agents.games.base import Game
from chainrule.agents.records.positions import Bad, GameMoves
from chainrule.core.errors import ChainruleError, DataError


def read_games(game: Game[Any], path: str, bad: Bad = "refuse") -> list[GameMoves]:
    """All games of a file or a folder, by name; those that cannot be read are refused, or left out."""
    folder = Path(path).expanduser()
    files = list(_files(folder))
    by_name = {game.move_name(action): action for action in range(game.actions)}
    read, problems = [], []
    for file in files:
        try:
            if folder.is_dir() and not _real(file).is_relative_to(_real(folder)):
                raise DataError("is a link that leaves the folder")
            read.append(_read(game, by_name, file))
        except ChainruleError as error:
            problems.append(f"{file.name} ({error.message})")
    if problems and (bad == "refuse" or not read):
        raise DataError(
            f"{len(problems)} of {len(files)} games cannot be used; first: {problems[0]}",
            remedy="leave them out: bad=skip" if read else "are these games of this board?",
        )
    return read


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    found = [file for kind in ("*.sgf", "*.json") for file in sorted(path.rglob(kind))]
    if not found:
        raise DataError(f"there are no game records (*.sgf, *.json) at {str(path)!r}")
    yield from found


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _read(game: Game[Any], by_name: Mapping[str, int], file: Path) -> GameMoves:
    record = load_record(file)
    if record.handicap:
        raise DataError("does not begin with an empty board and moves in turn")
    if not record.moves:
        raise DataError("has no moves")
    its_game = games.make(record.game, **record.settings)
    if its_game.name != game.name or its_game.observation_shape != game.observation_shape:
        height, width, _ = its_game.observation_shape
        raise DataError(f"a game of {its_game.name} on a board of {height} by {width}")
    unknown = [move for move in record.moves if move not in by_name]
    if unknown:
        raise DataError(f"{unknown[0]!r} is no move of {game.name}")
    return GameMoves(file.name, [by_name[move] for move in record.moves], record.result)


__all__ = ["read_games"]
