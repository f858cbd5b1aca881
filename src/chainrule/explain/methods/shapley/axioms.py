"""What a fair division has to satisfy, checked on a game of your own.

Efficiency (local accuracy), symmetry, null player, missingness, linearity and consistency together single out the
Shapley value; a rule that fails one says on which game and by how much. Other rules fail some by design: Banzhaf's does
not divide v(all).

References: Shapley, 1953; Young, Monotonic solutions of cooperative games, 1985; Lundberg and Lee, 2017.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.games import CoalitionGame, masks_of

Rule: TypeAlias = Callable[[CoalitionGame], Float[np.ndarray, " players"]]


class Axiom(NamedTuple):
    """Whether a rule keeps an axiom on a game."""

    name: str
    holds: bool
    gap: float
    """By how much it is missed, in units of the game."""
    witness: str
    """Where it is missed most, in words; empty where it holds."""


def check_axioms(
    game: CoalitionGame, rule: Rule | None = None, *, tol: float = 1e-9, seed: int = 0
) -> tuple[Axiom, ...]:
    """Every axiom, checked for a rule (exact Shapley values unless given) on this game and on games made from it.

    >>> all(axiom.holds for axiom in check_axioms(CoalitionGame([0.0, 1.0, 2.0, 4.0])))
    True
    """
    if not game.is_single:
        raise ArgumentError(
            f"check_axioms: {len(game.base)} games at once; axioms are of one",
            remedy="make the game of one input: feature_game(f, x[0], background)",
        )
    divide = rule or (lambda game: exact_values(game).values)
    table = game.table()
    scale = max(float(np.ptp(table)), 1e-300)
    found = []
    for name, check in _CHECKS.items():
        gap, witness = check(game, divide, np.random.default_rng(seed))
        holds = gap <= tol * scale
        found.append(Axiom(name, holds, gap, "" if holds else witness))
    return tuple(found)


_Gap: TypeAlias = tuple[float, str]


def _efficiency(game: CoalitionGame, divide: Rule, random: np.random.Generator) -> _Gap:
    del random
    total = float(divide(game).sum())
    return abs(total - game.gain.item()), f"values sum to {total:g}, there is {game.gain.item():g} to divide"


def _symmetry(game: CoalitionGame, divide: Rule, random: np.random.Generator) -> _Gap:
    """On the game itself, and on one in which two players were made alike."""
    del random
    worst: _Gap = (0.0, "")
    for i in range(len(game.players)):
        for j in range(i):
            alike = _swapped_mean(game, i, j)
            values = divide(alike)
            gap = abs(float(values[i] - values[j]))
            if gap > worst[0]:
                worst = (gap, f"{game.players[j]} and {game.players[i]} do the same, and differ by {gap:g}")
    return worst


def _swapped_mean(game: CoalitionGame, i: int, j: int) -> CoalitionGame:
    masks = masks_of(np.arange(1 << len(game.players)), len(game.players))
    masks[:, [i, j]] = masks[:, [j, i]]
    return CoalitionGame((game.table() + game.worth(masks)) / 2, game.players)


def _null_player(game: CoalitionGame, divide: Rule, random: np.random.Generator) -> _Gap:
    """A player who adds nothing to anybody gets nothing: everyone's turn to be that player."""
    del random
    return _without(game, divide, "adds nothing")


def _missingness(game: CoalitionGame, divide: Rule, random: np.random.Generator) -> _Gap:
    """Players who are not there get nothing: of each coalition's game only half of the players are present."""
    count = len(game.players)
    present = random.random(count) < 0.5
    values = divide(_restricted(game, present))
    gaps = np.where(present, 0.0, np.abs(values))
    worst = int(gaps.argmax())
    return float(gaps[worst]), f"{game.players[worst]} is missing and gets {values[worst]:g}"


def _restricted(game: CoalitionGame, present: np.ndarray) -> CoalitionGame:
    masks = masks_of(np.arange(1 << len(game.players)), len(game.players))
    return CoalitionGame(game.worth(masks & present[None]), game.players)


def _without(game: CoalitionGame, divide: Rule, why: str) -> _Gap:
    worst: _Gap = (0.0, "")
    for i, name in enumerate(game.players):
        present = np.arange(len(game.players)) != i
        share = float(divide(_restricted(game, present))[i])
        if abs(share) > worst[0]:
            worst = (abs(share), f"{name} {why} and gets {share:g}")
    return worst


def _linearity(game: CoalitionGame, divide: Rule, random: np.random.Generator) -> _Gap:
    table = game.table()
    other = np.ptp(table) * random.normal(size=table.shape)
    together = divide(CoalitionGame(2 * table + other, game.players))
    apart = 2 * divide(CoalitionGame(table, game.players)) + divide(CoalitionGame(other, game.players))
    gaps = np.abs(together - apart)
    worst = int(gaps.argmax())
    return float(
        gaps[worst]
    ), f"2 v + w gives {game.players[worst]} {together[worst]:g} instead of {apart[worst]:g}"


def _consistency(game: CoalitionGame, divide: Rule, random: np.random.Generator) -> _Gap:
    """Where all marginals of a player grow, its value does not fall."""
    table, before = game.table(), divide(game)
    masks = masks_of(np.arange(table.size), len(game.players))
    worst: _Gap = (0.0, "")
    for i, name in enumerate(game.players):
        raised = table + np.ptp(table) * random.random(table.size) * masks[:, i]
        fall = float(before[i] - divide(CoalitionGame(raised, game.players))[i])
        if fall > worst[0]:
            worst = (fall, f"{name} adds more everywhere and gets {fall:g} less")
    return worst


_CHECKS: dict[str, Callable[[CoalitionGame, Rule, np.random.Generator], _Gap]] = {
    "efficiency": _efficiency,
    "symmetry": _symmetry,
    "null player": _null_player,
    "missingness": _missingness,
    "linearity": _linearity,
    "consistency": _consistency,
}

__all__ = ["Axiom", "check_axioms"]
