"""Games in progress, and their records."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.agents import arena
from chainrule.core.errors import ArgumentError, DataError


@pytest.fixture(scope="module")
def session() -> arena.Session:
    return arena.Session("tic-tac-toe", simulations=60, players=("ada", "program"))


def test_a_game_is_played_and_taken_back(session: arena.Session) -> None:
    for move in ("a1", "a3", "b1", "b3"):
        session.move(move)
    assert session.to_move == 0
    assert not session.over
    assert session.result is None
    hint = session.hint()
    assert hint.move == "c1"
    assert hint.variation[0] == "c1"
    assert sum(hint.visits.values()) == 60
    assert next(iter(hint.visits)) == "c1"
    assert hint.value > 0.5
    session.move("c1")
    assert session.hint(1) == hint  # what the move answered
    with pytest.raises(ArgumentError, match="5 moves have been made"):
        session.hint(6)
    assert session.over
    assert session.result == 1
    assert session.legal == ()
    for refused in (session.hint, session.resign, lambda: session.move("c2")):
        with pytest.raises(ArgumentError, match="ended"):
            refused()
    session.take_back(2)
    assert session.to_move == 1
    assert "b3" in session.legal
    assert session.board.splitlines()[2] == " 1 X X ."
    session.resign()
    assert session.result == 1
    session.take_back()
    assert session.result is None
    with pytest.raises(ArgumentError, match="2 moves have been made"):
        session.take_back(5)


def test_a_program_replies(session: arena.Session) -> None:
    game = session.game
    before = len(session.moves)
    name = session.reply(arena.greedy(game))
    assert session.moves[before] == name


def test_records_are_written_and_read_back(session: arena.Session, tmp_path: Path) -> None:
    record = session.record()
    path = arena.save_record(record, tmp_path / "game.json")
    assert arena.load_record(path) == record
    game, states = record.replay()
    assert len(states) == len(record.moves) + 1
    np.testing.assert_array_equal(game.stones(states[-1]), game.stones(session.state))
    with pytest.raises(ArgumentError, match=r"as \.json"):
        arena.save_record(record, tmp_path / "game.sgf")
    (tmp_path / "other.json").write_text('{"game": "go"}', encoding="utf-8")
    with pytest.raises(DataError, match="no record of a game"):
        arena.load_record(tmp_path / "other.json")


def test_go_is_written_as_sgf(tmp_path: Path) -> None:
    record = arena.GameRecord(
        "go", {"size": 5, "komi": 0.5}, ("c3", "b2", "pass", "e1"), -1.0, ("Ada [5 dan]", "back\\slash")
    )
    path = arena.save_record(record, tmp_path / "game.sgf")
    text = path.read_text(encoding="utf-8")
    assert ";B[cc];W[bd];B[];W[ee])" in text
    again = arena.load_record(path)
    assert (again.moves, again.result, again.players) == (record.moves, record.result, record.players)
    assert again.settings["komi"] == 0.5
    game, states = again.replay()
    assert game.draw(states[-1]).count("O") == 2


def test_records_that_break_the_rules_are_refused() -> None:
    record = arena.read_sgf("(;SZ[5];B[cc];W[cc])")
    with pytest.raises(DataError, match="move 2"):
        record.replay()
    with pytest.raises(DataError, match="handicap"):
        arena.read_sgf("(;SZ[5]AB[aa][bb];W[cc])").replay()
