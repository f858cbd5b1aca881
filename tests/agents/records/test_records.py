"""Stored games: SGF texts, JSON, and positions replayed through the rules, against boards followed by hand."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.arena.records import GameRecord, save_record
from chainrule.agents.games.go import Go
from chainrule.agents.games.tic_tac_toe import TicTacToe
from chainrule.agents.records.positions import GameMoves, examples_of, replayed
from chainrule.agents.records.reading import read_games
from chainrule.agents.records.sgf import parse_sgf
from chainrule.core.errors import DataError

GAME = TicTacToe()


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("B+R", 1), ("W+3.5", -1), ("0", 0), ("Draw", 0), ("Void", None), ("?", None), ("", None)],
)
def test_results_are_read(text: str, outcome: float | None) -> None:
    assert parse_sgf(f"(;RE[{text}];B[aa])").outcome == outcome


def test_the_main_line_is_the_first_branch_and_comments_are_text() -> None:
    text = "(;SZ[9]C[not a move: B[aa\\]; (;]\n;B[ab];W[]C[x](;B[cc];W[tt])(;B[dd]))(;B[ii])"
    record = parse_sgf(text)
    assert record.size == 9
    assert record.moves == (("B", 9), ("W", None), ("B", 20), ("W", None))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "there is no"),
        ("(;B[aa]", "ends in the middle"),
        ("(;SZ[9];B[zz])", "not on a board of 9 lines"),
        ("(;SZ[big];B[aa])", "boards are squares"),
        ("(;GM[2];B[aa])", "another game than Go"),
        ("(B[aa])", "before the first node"),
        ("(;B[aa]\n\n!)", "line 3"),
        ("(;KM[-];B[aa])", "komi is a number of points"),
        ("(;KM[.];B[aa])", "komi is a number of points"),
    ],
)
def test_what_is_no_record_is_said(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        parse_sgf(text)


def test_games_are_replayed_move_by_move() -> None:
    records = [
        GameMoves("won", [0, 3, 1, 4, 2]),  # first wins
        GameMoves("stopped", [4, 0], None),
        GameMoves("given up", [4], -1.0),
    ]
    positions = replayed(GAME, records)
    assert len(positions.action) == 8
    np.testing.assert_array_equal(positions.action, [0, 3, 1, 4, 2, 4, 0, 4])
    np.testing.assert_array_equal(positions.outcome, [1, -1, 1, -1, 1, 0, 0, -1])
    np.testing.assert_array_equal(positions.known, [1, 1, 1, 1, 1, 0, 0, 1])
    np.testing.assert_array_equal(positions.game, [0] * 5 + [1] * 2 + [2])
    found = examples_of(positions, jnp.arange(8), GAME)
    np.testing.assert_array_equal(np.argmax(found.policy, 1), positions.action)
    # Before the last move of the first game: own stones on 0 and 1, the other's on 3 and 4.
    planes = np.asarray(found.planes[4]).reshape(9, -1)
    np.testing.assert_array_equal(np.flatnonzero(planes[:, 0]), [0, 1])
    np.testing.assert_array_equal(np.flatnonzero(planes[:, 1]), [3, 4])


def test_games_that_break_the_rules_are_refused_or_left_out() -> None:
    games = [GameMoves("fine", [0, 1]), GameMoves("twice", [0, 1, 0]), GameMoves("over", [0, 3, 1, 4, 2, 5])]
    with pytest.raises(
        DataError, match=r"2 of 3 games break the rules; first: twice \(move 3, .* is not legal"
    ):
        replayed(GAME, games)
    kept = replayed(GAME, games, "skip")
    np.testing.assert_array_equal(kept.game, [0, 0])
    with pytest.raises(DataError, match="2 of 2 games"):
        replayed(GAME, games[1:], "skip")
    with pytest.raises(DataError, match="move 2 is number 9"):
        replayed(GAME, [GameMoves("wide", [0, 9])])


def test_files_are_read_and_go_is_replayed(tmp_path: Path) -> None:
    go = Go(size=5, komi=0.5)
    (tmp_path / "a.sgf").write_text("(;SZ[5]RE[W+R];B[cc];W[bc];B[];W[cb])")
    (tmp_path / "b.sgf").write_text("(;SZ[9];B[cc])")
    (tmp_path / "c.sgf").write_text("(;SZ[5]AB[aa];W[bb])")
    (tmp_path / "d.sgf").write_text("(;SZ[5];B[aa];B[bb])")
    with pytest.raises(
        DataError, match=r"3 of 4 games cannot be used; first: b.sgf \(a game of go on a board of 9"
    ):
        read_games(go, str(tmp_path))
    games = read_games(go, str(tmp_path), "skip")
    assert [game.name for game in games] == ["a.sgf"]
    assert list(games[0].moves) == [12, 11, 25, 7]
    positions = replayed(go, games)
    np.testing.assert_array_equal(positions.outcome, [-1, 1, -1, 1])
    planes = np.asarray(examples_of(positions, jnp.array([3]), go).planes)[0]
    assert planes.shape == (5, 5, 17)
    # White is to move: own stone first, then black's; and the last plane says that black is not.
    assert planes[2, 1, 0] == planes[2, 2, 8] == 1 or planes[2, 1, 0] == planes[2, 2, 1] == 1
    assert planes[:, :, -1].max() == 0


def test_games_of_other_kinds_are_json(tmp_path: Path) -> None:
    moves = tuple(GAME.move_name(action) for action in (0, 3, 1, 4, 2))
    save_record(GameRecord("tic-tac-toe", {}, moves), tmp_path / "one.json")
    (game,) = read_games(GAME, str(tmp_path / "one.json"))
    assert list(game.moves) == [0, 3, 1, 4, 2]
    with pytest.raises(DataError, match="there are no game records"):
        read_games(GAME, str(tmp_path / "nowhere"))


def test_what_is_no_plain_file_of_a_game_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "games"
    folder.mkdir()
    record = GameRecord("tic-tac-toe", {}, ("a3", "b2"))
    save_record(record, folder / "good.json")
    save_record(record, tmp_path / "elsewhere.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "out.json").symlink_to(tmp_path / "elsewhere.json")
    (folder / "loop.json").symlink_to(folder / "loop.json")
    (folder / "endless.sgf").symlink_to("/dev/zero")
    (folder / "deep.json").write_text("[" * 100_000)
    text = json.dumps(asdict(record))
    (folder / "seven.json").write_text(text.replace('"result": null', '"result": 7'))
    (folder / "odd.json").write_text(text.replace('"settings": {}', '"settings": {"name": "go"}'))
    assert [game.name for game in read_games(GAME, str(folder), "skip")] == ["good.json"]
    with pytest.raises(DataError, match="7 of 8 games cannot be used"):
        read_games(GAME, str(folder))
    (game,) = read_games(GAME, str(folder / "out.json"))  # one that is named is read
    assert list(game.moves) == [0, 4]
