"""Sampled Shapley values: how fast errors fall with the number of coalitions, and whether error bars tell the truth."""

from collections.abc import Callable
from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.game_values import GameValues
from chainrule.explain.methods.shapley.games import CoalitionGame, Masks
from chainrule.explain.methods.shapley.kernel import kernel_values
from chainrule.explain.methods.shapley.permutations import permutation_values
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_BUDGETS = 6
_TWO = 1.96


@final
class ShapleySamplingSettings(Settings):
    """A random game, and how often it is divided."""

    players: int = Field(12, ge=9, le=16, description="players of the game")
    repeats: int = Field(40, ge=2, le=1000, description="estimates for each number of coalitions")
    largest: int = Field(3000, ge=200, le=50_000, description="the largest number of coalitions")
    bend: float = Field(1.0, gt=0, le=10, description="how far the game is from a sum of its players")
    seed: int = Field(0, ge=0, description="of the game and of the draws")


def run(settings: ShapleySamplingSettings, listener: Listener) -> Outcome:
    """GameValues with growing budgets by three methods, beside the exact values."""
    game = CoalitionGame(_worths(settings), settings.players)
    exact = exact_values(game).values
    least = 4 * settings.players
    budgets = np.unique(np.geomspace(least, max(settings.largest, 2 * least), _BUDGETS).astype(int))
    budgets = budgets[budgets < (1 << settings.players) - 2]
    series, numbers = {}, {}
    rows: list[list[str | float | int]] = []
    for name, method in _METHODS.items():
        listener(name)
        missed, claimed, inside = np.array([_tried(method, game, exact, int(n), settings) for n in budgets]).T
        series[name] = (budgets.astype(float), missed)
        series[f"{name}, claimed"] = (budgets.astype(float), claimed)
        slope = float(np.polyfit(np.log(budgets), np.log(np.maximum(missed, 1e-300)), 1)[0])
        numbers[name] = {
            "error": missed.tolist(),
            "claimed": claimed.tolist(),
            "coverage": inside.tolist(),
            "slope": slope,
        }
        rows.append([name, *(float(f"{one:.3g}") for one in (missed[-1], claimed[-1], inside[-1], slope))])
    best = min(numbers, key=lambda name: numbers[name]["error"][-1])
    covered = ", ".join(f"{name} {100 * one['coverage'][-1]:.1f} %" for name, one in numbers.items())
    return Outcome(
        [
            f"With {budgets[-1]:,} of {1 << settings.players:,} coalitions {best} comes closest: "
            f"{numbers[best]['error'][-1]:.2g} off (root mean square).",
            f"Intervals of 1.96 standard errors hold the exact value: {covered}.",
        ],
        [
            Lines(
                "shapley-errors",
                "Errors against coalitions",
                "coalitions",
                "error of a value",
                series,
                log_x=True,
                log_y=True,
                caption="Errors and what standard errors claim. Plain sampling falls with the root of the budget; "
                "where whole sizes of coalitions are enumerated, errors fall faster.",
            )
        ],
        Table(
            "shapley-sampling",
            f"At {budgets[-1]:,} coalitions",
            ["method", "error", "claimed", "coverage", "slope"],
            rows,
        ),
        {"budgets": budgets.tolist(), **numbers},
    )


def _tried(
    method: Callable[..., GameValues],
    game: CoalitionGame,
    exact: np.ndarray,
    budget: int,
    settings: ShapleySamplingSettings,
) -> tuple[float, float, float]:
    """Root mean square error, the same as claimed, and how often the interval holds the exact value."""
    found = [method(game, budget=budget, tol=0, seed=settings.seed + i) for i in range(settings.repeats)]
    apart = np.array([one.values for one in found]) - exact
    errors = np.array([np.zeros_like(exact) if one.errors is None else one.errors for one in found])
    return (
        float(np.sqrt(np.square(apart).mean())),
        float(np.sqrt(np.square(errors).mean())),
        float((np.abs(apart) <= _TWO * errors + 1e-12).mean()),
    )


def _worths(settings: ShapleySamplingSettings) -> Callable[[Masks], np.ndarray]:
    random = np.random.default_rng(settings.seed)
    weights = settings.bend * random.normal(size=(settings.players, 20)) / np.sqrt(settings.players)
    heights = random.normal(size=20)
    return lambda masks: np.asarray(np.tanh(masks @ weights) @ heights / settings.bend)


_METHODS: dict[str, Callable[..., GameValues]] = {
    "kernel": kernel_values,
    "exact A kernel": lambda game, **options: kernel_values(game, matrix="exact", **options),
    "permutations": permutation_values,
}

experiment = Experiment(
    "Sampled Shapley values: errors against coalitions, and whether their error bars tell the truth.",
    ShapleySamplingSettings,
    run,
    toy={"players": 9, "repeats": 3, "largest": 200},
    reference="Covert and Lee, Improving KernelSHAP, 2021, arXiv:2012.01536",
)

__all__ = ["ShapleySamplingSettings", "experiment", "run"]
