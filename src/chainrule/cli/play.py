"""`chainrule play`: a game against what was trained, in the terminal."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.cli.options import RunName, Settings

if TYPE_CHECKING:
    from chainrule.agents.arena.opponents import Opponent
    from chainrule.agents.arena.session import Session

OWN = ("side", "simulations", "seed", "against", "out", "runs")
_SIDES = ("first", "second", "both", "none")
_MOST_SHOWN = 5
"""Moves of a hint that are listed."""
_MOST_SIMULATIONS = 100_000
"""Every one of them keeps a position and numbers for all its moves."""
_HELP = """\
a move by its name makes it; and:
  hint      what the search thinks: visits, value, how the game may go on
  why       the same of the position before the last move
  back      take your last move back, with the answer to it
  moves     what is legal
  resign    give up
  save FILE the game as .sgf (Go) or .json
  quit      leave"""


def play(name: RunName, settings: Settings = None) -> None:
    """Play a board game against a trained run.

    Settings: side=first (or second; both: for two people; none: watch it play itself), simulations=200 (positions the
    search looks at before each answer), against=random (or greedy, minimax:4, search: something else answers instead of
    the run), seed=0, out=FILE (the game is saved there at its end, .sgf for Go, else .json), runs=DIR. Moves are read
    from the terminal or, line by line, from standard input; `help` lists what can be typed.
    """
    from chainrule.agents import AgentRun
    from chainrule.agents.arena.opponents import SearchOpponent
    from chainrule.agents.arena.records import check_place
    from chainrule.agents.arena.session import Session
    from chainrule.cli.arguments import parse, take
    from chainrule.cli.folders import find, runs_folder
    from chainrule.cli.settings import unknown, whole_number
    from chainrule.core.errors import ArgumentError, check_choice

    words = parse([name, *(settings or [])])
    (wanted,) = take(words, "RUN")
    given = words.settings
    for word in given:
        if word not in OWN:
            raise unknown(
                word, OWN, "settings of play: side=second, simulations=200, against=random, out=FILE"
            )
    side = given.get("side", "first")
    check_choice("play", "side", side, _SIDES)
    simulations = whole_number("simulations", given.get("simulations", "200"))
    if simulations > _MOST_SIMULATIONS:
        raise ArgumentError(
            f"simulations={given['simulations']}: the tree would not fit into memory",
            remedy=f"simulations={_MOST_SIMULATIONS} at most",
        )
    seed = whole_number("seed", given.get("seed", "0"), low=0)
    run = AgentRun.open(find(wanted, runs_folder(given.get("runs"))))
    if "out" in given and run.of_game:
        check_place(run.source.name, Path(given["out"]).expanduser())
    guide = run.evaluator()
    ours: Opponent = SearchOpponent(run.env, simulations, guide, title=run.id)
    if "against" in given:
        ours = _other(given["against"], run.env, simulations)
    names = {"first": ("you", ours.name), "second": (ours.name, "you"), "both": ("first", "second")}
    session = Session(
        run.source,
        run.config["env"]["settings"],
        evaluate=guide,
        simulations=simulations,
        seed=seed,
        players=names.get(side, (run.id, ours.name)),
    )
    people = {"first": (0,), "second": (1,), "both": (0, 1), "none": ()}[side]
    answering = SearchOpponent(run.env, simulations, guide, title=run.id)
    _game(session, people, {0: answering if side == "none" else ours, 1: ours}, given)


def _other(word: str, game: object, simulations: int) -> "Opponent":
    """An opponent by name."""
    from chainrule.agents.arena import opponents
    from chainrule.agents.games.base import Game
    from chainrule.cli.settings import whole_number
    from chainrule.core.errors import ArgumentError

    assert isinstance(game, Game), "runs of other things have no evaluator"
    kind, _, depth = word.partition(":")
    if kind == "random":
        return opponents.RandomOpponent(game)
    if kind == "greedy":
        return opponents.greedy(game)
    if kind == "minimax":
        return opponents.MinimaxOpponent(game, whole_number("minimax", depth or "2"))
    if kind == "search":
        return opponents.SearchOpponent(game, simulations)
    raise ArgumentError(
        f"against={word}: there is no such opponent",
        remedy="opponents: random, greedy, minimax:DEPTH, search",
    )


def _game(
    session: "Session", people: tuple[int, ...], programs: "Mapping[int, Opponent]", given: Mapping[str, str]
) -> None:
    """A whole game: people type, programs answer."""
    from chainrule.cli.output import say, show

    first, second = session.players
    say("game", f"{session.game.name}   first: {first}   second: {second}")
    show(_HELP if people else "")
    typed = _lines()
    shown = -1
    while not session.over:
        if len(session.moves) != shown:
            show(f"\n{session.board}\n")
            shown = len(session.moves)
        if session.to_move in people:
            line = next(typed, None)
            if line is None or not _typed(session, line, people):
                break
        else:
            program = programs[session.to_move]
            say("move", f"{program.name} plays {session.reply(program)}")
    _end(session, given, drawn=len(session.moves) == shown)


def _lines() -> Iterator[str]:
    """What is typed, until the end of the input; a prompt where somebody sees it."""
    from chainrule.cli.output import show

    while True:
        if sys.stdin.isatty():
            show("your move: ", end="")
            sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            if sys.stdin.isatty():
                show()
            return
        if line.strip():
            yield line.strip()


def _typed(session: "Session", line: str, people: tuple[int, ...]) -> bool:
    """Do what was typed; whether the game goes on."""
    from chainrule.cli.output import say, show
    from chainrule.core.errors import ChainruleError

    word, _, rest = line.partition(" ")
    word = word.lower()
    try:
        if word in ("quit", "exit"):
            return False
        if word == "help":
            show(_HELP)
        elif word == "moves":
            say("legal", " ".join(session.legal))
        elif word in ("hint", "why"):
            _hint(session, back=int(word == "why"))
        elif word == "back":
            _take_back(session, 1 if len(people) == 2 else 2)
        elif word == "resign":
            session.resign()
        elif word == "save":
            _save(session, rest)
        else:
            session.move(line)
    except ChainruleError as error:  # a slip at the board is no reason to end the game
        say("no", f"{error.message}   {error.remedy}")
    return True


def _take_back(session: "Session", count: int) -> None:
    from chainrule.core.errors import ArgumentError

    if len(session.moves) < count:
        raise ArgumentError("you have made no move yet", remedy="help lists what can be typed")
    session.take_back(count)


def _hint(session: "Session", back: int) -> None:
    from chainrule.cli.output import say
    from chainrule.core.errors import ArgumentError

    if back > len(session.moves):
        raise ArgumentError("no move has been made yet", remedy="hint looks at the position as it is")
    found = session.hint(back)
    total = sum(found.visits.values())
    best = "   ".join(
        f"{move} {count / total:.0%}" for move, count in list(found.visits.items())[:_MOST_SHOWN]
    )
    say("why" if back else "hint", f"{found.move}   value {found.value:+.2f} (1 a sure win, -1 a sure loss)")
    say("visits", best)
    say("line", " ".join(found.variation))


def _save(session: "Session", file: str) -> None:
    from chainrule.agents.arena.records import save_record
    from chainrule.cli.output import say
    from chainrule.core.errors import ArgumentError

    if not file:
        raise ArgumentError("save needs a file", remedy="save game.json, or save game.sgf for Go")
    say("saved", str(save_record(session.record(), Path(file).expanduser())))


def _end(session: "Session", given: Mapping[str, str], *, drawn: bool) -> None:
    """How the game ended, and where it is kept."""
    from chainrule.cli.output import say, show

    if not drawn:
        show(f"\n{session.board}\n")
    if session.over:
        result = session.result
        winner = "nobody" if not result else session.players[0 if result > 0 else 1]
        say("end", f"{winner} won after {len(session.moves)} moves" if result else "a draw")
    else:
        say("left", f"after {len(session.moves)} moves")
    if "out" in given:
        _save(session, given["out"])


__all__ = ["OWN", "play"]
