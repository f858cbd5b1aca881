"""What "absent" means: the same function and the same input, explained by interventions and by conditions."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Lines, Picture, Table
from chainrule.explain.methods.shapley.explaining import shapley
from chainrule.explain.methods.shapley.maskers.gaussian import gaussian_of
from chainrule.explain.methods.shapley.maskers.neighbours import neighbours
from chainrule.explain.methods.shapley.maskers.replacing import interventional
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_POINTS = 21


@final
class ValueFunctionsSettings(Settings):
    """f = slope1 x1 + slope2 x2 + product x1 x2 of two normal variables."""

    slope1: float = Field(1.0, ge=-100, le=100, description="slope in x1")
    slope2: float = Field(2.0, ge=-100, le=100, description="slope in x2")
    product: float = Field(0.0, ge=-100, le=100, description="factor of x1 x2")
    correlation: float = Field(0.5, gt=-1, lt=1, description="of x1 and x2, both of variance 1")
    x1: float = Field(1.0, ge=-10, le=10, description="the explained input")
    x2: float = Field(1.0, ge=-10, le=10, description="the explained input")
    rows: int = Field(2000, ge=20, le=20_000, description="rows of background")
    neighbours: int = Field(100, ge=1, le=1000, description="rows that count as near")
    seed: int = Field(0, ge=0, description="of the background")


def run(settings: ValueFunctionsSettings, listener: Listener) -> Outcome:
    """Explain one input by each value function, and both routes over all correlations."""
    del listener

    def f(x: Any) -> Any:
        return settings.slope1 * x[:, 0] + settings.slope2 * x[:, 1] + settings.product * x[:, 0] * x[:, 1]

    x = np.array([settings.x1, settings.x2])
    rows = _background(settings, settings.correlation)
    found = {
        "interventional": shapley(f, x, absent=interventional(rows, seed=settings.seed)),
        "normal": shapley(f, x, absent=_normal(settings.correlation)),
        "neighbours": shapley(f, x, absent=neighbours(rows, k=settings.neighbours)),
    }
    grid = np.linspace(-0.95, 0.95, _POINTS)
    over = np.array([shapley(f, x, absent=_normal(float(r))).values for r in grid])
    by_hand = _by_hand(settings)
    values = {name: one.values for name, one in found.items()}
    given, near = values["normal"], values["neighbours"]
    return Outcome(
        [
            f"f({settings.x1:g}, {settings.x2:g}) is {found['interventional'].outputs:.4g}. Interventions, which ask "
            f"what the function does, give x1 {values['interventional'][0]:.4f} and x2 "
            f"{values['interventional'][1]:.4f}.",
            f"Conditions, which ask what knowing a feature tells, give {given[0]:.4f} and {given[1]:.4f} "
            f"(worked out by hand: {by_hand[0]:.4f} and {by_hand[1]:.4f}).",
            f"The nearest {settings.neighbours} of {settings.rows} rows find {near[0]:.4f} and {near[1]:.4f} without "
            "knowing the distribution.",
        ],
        _pictures(settings, values, grid, over),
        Table(
            "value-functions-table",
            "Values by value function",
            ["value function", "x1", "x2", "base", "sum"],
            [
                [one.kind, *(float(f"{v:.5g}") for v in (*one.values, one.base, one.base + one.sum()))]
                for one in found.values()
            ],
        ),
        {**{name: one.values.tolist() for name, one in found.items()}, "by_hand": by_hand.tolist()},
    )


def _pictures(
    settings: ValueFunctionsSettings, values: dict[str, np.ndarray], grid: np.ndarray, over: np.ndarray
) -> list[Picture]:
    names = ["x1", "x2"]
    return [
        Bars(
            "value-functions",
            "One input, three meanings of absent",
            "feature",
            "Shapley value",
            names,
            values,
        ),
        Lines(
            "correlation",
            "Conditions share what correlated features know",
            "correlation",
            "Shapley value, conditional",
            {name: (grid, over[:, i]) for i, name in enumerate(names)},
            marks=[(0.0, "as interventions"), (settings.correlation, "here")]
            if settings.correlation
            else [(0.0, "as interventions")],
            caption="Without correlation both questions have one answer.",
        ),
    ]


def _normal(correlation: float) -> Any:
    return gaussian_of([0.0, 0.0], [[1.0, correlation], [correlation, 1.0]], ["x1", "x2"])


def _background(settings: ValueFunctionsSettings, correlation: float) -> np.ndarray:
    drawn = np.random.default_rng(settings.seed).normal(size=(settings.rows, 2))
    drawn[:, 1] = correlation * drawn[:, 0] + np.sqrt(1 - correlation**2) * drawn[:, 1]
    return drawn


def _by_hand(settings: ValueFunctionsSettings) -> np.ndarray:
    """Conditional values of normal variables: E[x2 | x1] = r x1, E[x1 x2 | x1] = r x1^2, E[x1 x2] = r."""
    a, b, c, r = settings.slope1, settings.slope2, settings.product, settings.correlation
    one, two = settings.x1, settings.x2
    empty, first = c * r, a * one + b * r * one + c * r * one**2
    second, both = b * two + a * r * two + c * r * two**2, a * one + b * two + c * one * two
    return np.array([(first - empty) + (both - second), (second - empty) + (both - first)]) / 2


experiment = Experiment(
    "What absent means: interventions and conditions explain one input differently.",
    ValueFunctionsSettings,
    run,
    toy={"rows": 200},
    reference="Aas, Jullum and Loland, 2021, arXiv:1903.10464; Janzing, Minorics and Bloebaum, 2020, arXiv:1910.13413",
)

__all__ = ["ValueFunctionsSettings", "experiment", "run"]
