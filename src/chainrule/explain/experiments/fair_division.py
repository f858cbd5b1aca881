"""Fair division: a game of few players, every order in which they may join, and what each is paid for it."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import number
from chainrule.core.pictures import Bars, Heatmap, Picture, Slides, Table
from chainrule.derive.svg import Canvas, shorten
from chainrule.explain.methods.shapley.axioms import check_axioms
from chainrule.explain.methods.shapley.exact import banzhaf_values, exact_values
from chainrule.explain.methods.shapley.fair_division import bank_game, concede_and_split
from chainrule.explain.methods.shapley.games import CoalitionGame, coalition_name
from chainrule.explain.methods.shapley.interactions import interactions
from chainrule.explain.methods.shapley.permutations import OrderMarginals, all_marginals
from chainrule.explain.methods.written_tables import written_matrix
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_MOST = 6
"""Players whose orders a person can still look through."""
_ROWS = 24
_WIDE, _HIGH, _LEFT, _STEP = 560, 46, 120, 34


@final
class FairDivisionSettings(Settings):
    """A game by its worths, or by claims on an estate."""

    worths: str = Field(
        "0,100,125,270,50,375,350,500",
        description="what coalitions are worth: nobody, 1, 2, 1+2, 3, 1+3, 2+3, 1+2+3, ...; 2^players numbers",
    )
    claims: str = Field("", description="claims on an estate instead, with commas: 100,200,300")
    estate: float = Field(200.0, ge=0, le=1e12, description="what there is to divide among claims")
    names: str = Field("", description="names of the players, with commas")
    order: str = Field(
        "", description="the order that is stepped through, as numbers of players: 3,1,2; default: 1, 2, ..."
    )


def run(settings: FairDivisionSettings, listener: Listener) -> Outcome:
    """Walk through all orders, and divide."""
    del listener
    game = _game(settings)
    players = game.players
    found, values, banzhaf = all_marginals(game), exact_values(game).values, banzhaf_values(game)
    pairs = interactions(game).values if len(players) > 1 else np.diag(values)
    axioms = check_axioms(game)
    spread = found.marginals.std(axis=0)
    shares = ", ".join(f"{name} {number(value)}" for name, value in zip(players, values, strict=True))
    findings = [
        f"Of {number(game.gain)} to divide: {shares}.",
        f"One order alone would pay up to {number(spread.max())} more or less (standard deviation); the mean over all "
        f"{len(found.orders)} is fair.",
        f"Banzhaf's values sum to {number(banzhaf.sum())}: they do not divide what there is."
        if abs(banzhaf.sum() - game.gain) > 1e-9 * max(abs(float(game.gain)), 1)
        else "Banzhaf's values divide the same amount here.",
        f"{sum(axiom.holds for axiom in axioms)} of {len(axioms)} axioms hold: "
        f"{', '.join(axiom.name for axiom in axioms)}.",
    ]
    if settings.claims and len(players) == 2:
        split = concede_and_split(settings.estate, written_matrix("claims", settings.claims)[0].tolist())
        findings.append(f"Concede and split gives {number(split[0])} and {number(split[1])}.")
    return Outcome(
        findings,
        _pictures(settings, game, found, (values, banzhaf, pairs)),
        _table(players, found, values),
        {
            "players": list(players),
            "values": values.tolist(),
            "banzhaf": banzhaf.tolist(),
            "interactions": pairs.tolist(),
            "base": float(game.base),
            "total": float(game.total),
            "axioms": {axiom.name: axiom.holds for axiom in axioms},
        },
    )


def _game(settings: FairDivisionSettings) -> CoalitionGame:
    names = [name.strip() for name in settings.names.split(",")] if settings.names else None
    text, what = (settings.claims, "claims") if settings.claims else (settings.worths, "worths")
    amounts = written_matrix(what, text)
    if len(amounts) != 1:
        raise ArgumentError(f"{what}: one row of numbers is expected", remedy="separate them with commas")
    row = amounts[0]
    game = bank_game(settings.estate, row.tolist(), names) if settings.claims else CoalitionGame(row, names)
    if len(game.players) > _MOST:
        raise ArgumentError(
            f"{what}: there are {len(game.players)} players, at most {_MOST} can be stepped through",
            remedy="in Python there is no such limit: cr.explain.shapley(CoalitionGame(...))",
        )
    return game


def _pictures(
    settings: FairDivisionSettings,
    game: CoalitionGame,
    found: OrderMarginals,
    results: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> list[Picture]:
    values, banzhaf, pairs = results
    players = game.players
    return [
        _slides(game, _order(settings, len(players))),
        Bars(
            "division",
            "What each gets",
            "player",
            "share",
            list(players),
            {"Shapley": values, "Banzhaf": banzhaf, "alone": _alone(game)},
            caption=f"Shapley values sum to {number(values.sum())}, all there is above the worth of nobody "
            f"({number(game.base)}).",
        ),
        Heatmap(
            "marginals",
            "What each adds when it joins",
            "player",
            "order",
            found.marginals[:_ROWS],
            rows=[_written(order, players) for order in found.orders[:_ROWS]],
            columns=list(players),
            numbers=len(found.orders) <= _ROWS,
            diverging=True,
            caption="Every row sums to the same amount; the mean of a column is a Shapley value.",
        ),
        Heatmap(
            "interactions",
            "Alone and together",
            "player",
            "player",
            pairs,
            rows=list(players),
            columns=list(players),
            numbers=True,
            diverging=True,
            caption="Half of what two add to each other on either side of the diagonal; rows sum to Shapley values.",
        ),
    ]


def _alone(game: CoalitionGame) -> np.ndarray:
    return np.asarray(game.worth(np.eye(len(game.players), dtype=np.bool_)) - game.base)


def _order(settings: FairDivisionSettings, count: int) -> list[int]:
    if not settings.order:
        return list(range(count))
    order = (written_matrix("order", settings.order)[0] - 1).astype(int).tolist()
    if sorted(order) != list(range(count)):
        raise ArgumentError(
            f"order={settings.order!r}: every player joins once", remedy=f"name 1 to {count}, each once"
        )
    return [int(i) for i in order]


def _slides(game: CoalitionGame, order: list[int]) -> Slides:
    count = len(order)
    masks = np.concatenate(
        [np.zeros((1, count), np.bool_), np.eye(count, dtype=np.bool_)[order].cumsum(axis=0) > 0]
    )
    worths = game.worth(masks)
    notes = [f"Nobody is there\nworth {number(worths[0])}"]
    for turn, player in enumerate(order):
        name, rise = game.players[player], worths[turn + 1] - worths[turn]
        notes.append(
            f"{name} joins\n{coalition_name(masks[turn + 1], game.players)}: {number(worths[turn + 1])}"
        )
        notes[-1] += f"\n{name} is paid {number(rise)}"
    drawings = [_drawn(game, order, worths, turn) for turn in range(count + 1)]
    return Slides(
        "one-order",
        "One order, step by step",
        drawings,
        notes,
        caption="Each is paid what the worth rises by when it joins; the Shapley value is the mean over all orders.",
    )


def _drawn(game: CoalitionGame, order: list[int], worths: np.ndarray, done: int) -> str:
    canvas = Canvas(_WIDE, _HIGH + _STEP * len(order) + 10, f"after {done} of {len(order)} players")
    low, high = min(float(worths.min()), 0.0), max(float(worths.max()), 0.0)
    scale = (_WIDE - _LEFT - 70) / ((high - low) or 1.0)
    x = [_LEFT + (float(worth) - low) * scale for worth in worths]
    canvas.text(12, 24, f"worth {number(worths[done])}", "f-ink bold", size=14)
    for turn, player in enumerate(order):
        y = _HIGH + _STEP * turn
        canvas.text(
            12, y + 15, shorten(game.players[player], _LEFT - 16, 12), "f-ink" if turn < done else "f-soft"
        )
        if turn < done:
            start, end = sorted((x[turn], x[turn + 1]))
            rise = worths[turn + 1] - worths[turn]
            canvas.rect(start, y, max(end - start, 1.0), 20, "f-1" if rise >= 0 else "f-2")
            canvas.text(end + 6, y + 15, number(rise), "f-ink")
            canvas.path(f"M{x[turn + 1]:.1f},{y + 20} V{y + _STEP}", "s-axis none thin")
    return canvas.render()


def _written(order: np.ndarray, players: tuple[str, ...]) -> str:
    return " ".join(players[i] for i in order)


def _table(players: tuple[str, ...], found: OrderMarginals, values: np.ndarray) -> Table:
    rows: list[list[str | float | int]] = [
        [_written(order, players), *(float(f"{value:.6g}") for value in row)]
        for order, row in zip(found.orders[:_ROWS], found.marginals[:_ROWS], strict=True)
    ]
    more = len(found.orders) - _ROWS
    rows += [[f"{more} more orders", *("" for _ in players)]] if more > 0 else []
    rows.append(["mean", *(float(f"{value:.6g}") for value in values)])
    return Table("marginals-table", "Marginals of every order", ["order", *players], rows)


experiment = Experiment(
    "What each of a few players gets: all orders, Shapley and Banzhaf values, estates and claims.",
    FairDivisionSettings,
    run,
    toy={},
    reference="Shapley, A value for n-person games, 1953; O'Neill, A problem of rights arbitration, 1982",
)

__all__ = ["FairDivisionSettings", "experiment", "run"]
