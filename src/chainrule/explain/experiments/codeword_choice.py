"""The choice of codewords: what always taking the shorter of two wastes, and how a random choice wins it back."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Positive, Settings
from chainrule.information.codewords import CodewordChoice, codeword_choice
from chainrule.information.two_part_codes import code_report

_LEVELS = 64
"""Cells of x for the lengths of whole codes."""


@final
class CodewordChoiceSettings(Settings):
    """Two normal codes."""

    first: float = Field(-1.0, ge=-100, le=100, description="mean of the first code")
    second: float = Field(1.0, ge=-100, le=100, description="mean of the second code")
    sd: Positive = Field(1.0, le=100, description="standard deviation of both")
    weight: float = Field(0.5, gt=0, lt=1, description="probability of the first code")


def run(settings: CodewordChoiceSettings, listener: Listener) -> Outcome:
    """Integrate what is wasted, and compare four codes of a grid of x."""
    del listener
    weights = (settings.weight, 1 - settings.weight)
    found = codeword_choice((settings.first, settings.second), settings.sd, weights)
    report = code_report(np.array(weights), _cells(settings))
    lengths = {
        "posterior choice, bits back": report.bits_back,
        "shorter codeword": report.best_codeword,
        "posterior choice, nothing back": report.two_part,
    }
    return Outcome(
        [
            f"Always taking the shorter codeword codes with a density of total {found.mass:.6f}: it wastes "
            f"{found.mean_waste:.6f} bits on average, 1 bit where both are equally long (x = {found.crossing:.4g}).",
            f"With x in {_LEVELS} cells ({report.entropy:.4f} bits): the shorter codeword takes "
            f"{report.best_codeword:.4f}, a random choice {report.two_part:.4f}, and a random choice whose bits come "
            f"back {report.bits_back:.4f}: nothing is wasted.",
        ],
        [_densities(found), _waste(found)],
        Table(
            "codeword-lengths",
            f"Bits for x in {_LEVELS} cells",
            ["code", "bits", "wasted"],
            [
                [name, float(f"{bits:.6f}"), float(f"{max(bits - report.entropy, 0):.6f}")]
                for name, bits in lengths.items()
            ],
        ),
        {
            "mass": found.mass,
            "mean_waste": found.mean_waste,
            "crossing": found.crossing,
            "entropy": report.entropy,
            **{name.replace(", ", " ").replace(" ", "_"): bits for name, bits in lengths.items()},
        },
    )


def _cells(settings: CodewordChoiceSettings) -> np.ndarray:
    """Each code's probabilities of cells of x."""
    ends = sorted((settings.first, settings.second))
    edges = np.linspace(ends[0] - 5 * settings.sd, ends[1] + 5 * settings.sd, _LEVELS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    means = np.array([settings.first, settings.second])
    density = np.exp(-np.square((middle - means[:, None]) / settings.sd) / 2)
    return np.asarray(density / density.sum(axis=1, keepdims=True))


def _shown(found: CodewordChoice) -> np.ndarray:
    return np.asarray(found.density > 1e-4 * found.density.max())


def _densities(found: CodewordChoice) -> Lines:
    shown = _shown(found)
    return Lines(
        "codeword-densities",
        "What each code believes",
        "x",
        "density",
        {
            "bits back": (found.x[shown], found.density[shown]),
            "shorter codeword": (found.x[shown], found.used[shown]),
        },
        caption="Bits back code with the mixture, the shorter codeword with the larger of both parts: below it lies "
        f"{found.mass:.4f} instead of 1, the rest of the code is never used.",
    )


def _waste(found: CodewordChoice) -> Lines:
    shown = _shown(found)
    return Lines(
        "codeword-waste",
        "What the shorter codeword wastes",
        "x",
        "bits",
        {"wasted at x": (found.x[shown], found.waste[shown])},
        marks=[] if np.isnan(found.crossing) else [(found.crossing, "equally long")],
        caption=f"On average {found.mean_waste:.6f} bits.",
    )


experiment = Experiment(
    "Two codewords for one x: what the shorter one wastes, and how bits back win it again.",
    CodewordChoiceSettings,
    run,
    toy={},
    reference="Frey and Hinton, Efficient stochastic source coding, Computer Journal, 1997",
)

__all__ = ["CodewordChoiceSettings", "experiment", "run"]
