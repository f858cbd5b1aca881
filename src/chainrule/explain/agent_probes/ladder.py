"""Ladder: how strong trained agents are, in matches against fixed opponents and their own earlier selves."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.agents import AgentRun
from chainrule.agents.arena.matches import Match, tournament
from chainrule.agents.arena.opponents import (
    MinimaxOpponent,
    Opponent,
    RandomOpponent,
    SearchOpponent,
    greedy,
)
from chainrule.agents.arena.rating import Rating, ratings
from chainrule.agents.games.base import Game
from chainrule.core import random
from chainrule.core.pictures import Bars, Footnote, Heatmap, Lines, Table
from chainrule.explain.agent_probes import AgentProbe
from chainrule.explain.protocol import Outcome, Settings

_FEWEST = 2
"""Checkpoints that make a curve."""
_DEEPEST, _MOST_LEAVES = 4, 3000
"""How far minimax looks ahead unless told, where it meets no more positions than that."""


@final
class LadderSettings(Settings):
    """Who plays, and how many games."""

    games: int = Field(
        20, ge=2, le=10_000, description="games of every pair, each side first in half of them"
    )
    simulations: int = Field(32, ge=1, le=10_000, description="positions that every search looks at")
    minimax: int | None = Field(
        None,
        ge=1,
        le=20,
        description="moves that one opponent looks ahead; 4 or fewer unless told, none in games of many moves",
    )
    opening: int = Field(
        2, ge=0, le=20, description="random moves that games begin with, so that they differ"
    )
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the openings")


def examine(run: AgentRun, settings: LadderSettings) -> Outcome:
    """Everybody against everybody."""
    game = run.source
    unguided = SearchOpponent(game, settings.simulations)
    others = [RandomOpponent(game), greedy(game), *_minimax(game, settings.minimax), unguided]
    sides: list[Opponent] = [*others]
    for step in run.checkpoints:
        guide = run.evaluator(step=step)
        sides.append(SearchOpponent(game, settings.simulations, guide, title=f"step {step:,}"))
    key = random.key(settings.seed, "ladder")
    matches = tournament(game, sides, games=settings.games, key=key, opening=settings.opening)
    found = ratings(matches)
    names = list(found)
    best = names[0]
    newest = sides[-1].name
    return Outcome(
        [
            f"{best} is strongest: {found[best].elo:.0f} Elo above random moves (95 % interval {found[best].low:.0f} "
            f"to {found[best].high:.0f}).",
            f"{newest} has {found[newest].elo:.0f} Elo, a search without a network {found[unguided.name].elo:.0f}.",
            f"Of {settings.games} games each, {newest} made {_points(matches, others, newest)}.",
        ],
        [
            Bars(
                "elo",
                "Strength",
                "",
                "Elo above random moves",
                names,
                {"Elo": np.array([found[name].elo for name in names])},
                errors={"Elo": np.array([(found[n].high - found[n].low) / (2 * 1.96) for n in names])},
            ),
            Heatmap(
                "results",
                "Points of the row against the column",
                "",
                "",
                _shares(matches, names),
                names,
                names,
                numbers=True,
            ),
            *_over_time(
                run.checkpoints, [found[side.name] for side in sides[len(others) :]], found[unguided.name]
            ),
        ],
        Table(
            "ratings",
            "Ratings",
            ["side", "Elo", "from", "to", "games"],
            [[name, one.elo, one.low, one.high, one.games] for name, one in found.items()],
        ),
        {"elo": {name: one.elo for name, one in found.items()}},
    )


def _minimax(game: Game[Any], depth: int | None) -> list[Opponent]:
    """An opponent that sees everything a few moves ahead, where there are few enough moves; one move is `greedy`."""
    if depth is None:
        depth = max(d for d in range(_DEEPEST + 1) if game.actions**d <= _MOST_LEAVES)
    return [MinimaxOpponent(game, depth)] if depth > 1 else []


def _points(matches: Mapping[tuple[str, str], Match], others: Sequence[Opponent], newest: str) -> str:
    """What the last side made against each of the others."""
    met = {each.name: matches[each.name, newest] for each in others}
    return ", ".join(f"{one.games - one.points:g} points against {name}" for name, one in met.items())


def _shares(matches: Mapping[tuple[str, str], Match], names: Sequence[str]) -> np.ndarray:
    """Points of every side against every other, as a share of the games; half against itself."""
    share = np.full((len(names), len(names)), 0.5)
    for (one, other), match in matches.items():
        i, j = names.index(one), names.index(other)
        share[i, j] = match.points / match.games
        share[j, i] = 1 - share[i, j]
    return share


def _over_time(steps: Sequence[int], learnt: Sequence[Rating], unguided: Rating) -> list[Lines]:
    """Strength over the training, where there are checkpoints enough for a curve."""
    if len(steps) < _FEWEST:
        return []
    x = np.array(steps)
    ends = (np.array([getattr(one, end) for one in learnt]) for end in ("elo", "low", "high"))
    series: dict[str, tuple[np.ndarray, ...]] = {
        "with its network": (x, *ends),
        "without a network": (x[[0, -1]], np.full(2, unguided.elo)),
    }
    note = Footnote(
        "The band is a 95 % interval. Points are the checkpoints that were kept: more with keep=100."
    )
    return [
        Lines(
            "elo-steps",
            "Strength while learning",
            "steps",
            "Elo above random moves",
            series,
            footnote=note,
        )
    ]


probe = AgentProbe(
    "Elo of a run and of its earlier checkpoints against random, greedy, minimax and searching opponents",
    "a game that is played by search",
    lambda run: run.of_game,
    examine,
    LadderSettings,
    toy={"games": 2, "simulations": 4},
)

__all__ = ["LadderSettings", "examine", "probe"]
