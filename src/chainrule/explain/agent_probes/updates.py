"""Updates: the numbers that one update of a learner would learn from, and how they are spread."""

from typing import final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule.agents import AgentRun
from chainrule.agents.learning.base import HasLearningSignal
from chainrule.core import random
from chainrule.core.formatting import number
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.explain.agent_probes import AgentProbe
from chainrule.explain.protocol import Outcome, Settings

_BINS = 40
_TOP = 0.1
_TITLES = {
    "td_error": "Temporal differences",
    "priority": "Priorities of the steps that are remembered",
    "advantage": "Advantages",
    "ratio": "Ratios of new to old probabilities",
}


@final
class UpdatesSettings(Settings):
    """Whose update is looked at."""

    agent: int | None = Field(None, ge=0, description="which of the agents; the best unless told")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the steps")


def examine(run: AgentRun, settings: UpdatesSettings) -> Outcome:
    """One update, looked at and not made."""
    learner = run.learner
    assert isinstance(learner, HasLearningSignal), "the probe applies to no others"
    found = eqx.filter_jit(learner.signal)(run.state(settings.agent), random.key(settings.seed, "updates"))
    numbers = {name: _finite(np.asarray(one, np.float64)) for name, one in found.numbers.items()}
    lines = {name: [float(line) for line in some] for name, some in found.lines.items()}
    shown = {name: one for name, one in numbers.items() if one.size}
    rows: list[list[str | float | int]] = [
        [_TITLES[name].lower(), one.size, one.mean(), one.std(), *np.quantile(one, (0.05, 0.5, 0.95))]
        for name, one in shown.items()
    ]
    pictures: list[Picture] = [_histogram(name, one, lines.get(name, [])) for name, one in shown.items()]
    return Outcome(
        [_WORDS[name](one, lines.get(name, [])) for name, one in shown.items()],
        pictures,
        Table(
            "updates", "One update", ["number", "steps", "mean", "deviation", "5 %", "median", "95 %"], rows
        ),
        {name: {"mean": float(one.mean()), "deviation": float(one.std())} for name, one in shown.items()},
    )


def _finite(numbers: np.ndarray) -> np.ndarray:
    return numbers[np.isfinite(numbers)]


def _histogram(name: str, numbers: np.ndarray, lines: list[float]) -> Lines:
    ends = [*np.quantile(numbers, (0.001, 0.999)), *lines]
    low, high = min(ends), max(ends)
    slack = 0.05 * (high - low) or 0.5
    counts, edges = np.histogram(numbers, _BINS, (low - slack, high + slack))
    middles = (edges[1:] + edges[:-1]) / 2
    marks = [(line, f"clipped beyond {number(line, 3)}") for line in lines] or [(0.0, "")]
    share = {"steps": (middles, counts / numbers.size)}
    return Lines(
        name.replace("_", "-"), _TITLES[name], name.replace("_", " "), "share of steps", share, marks=marks
    )


def _of_errors(numbers: np.ndarray, lines: list[float]) -> str:
    del lines
    return (
        f"Values are off by {number(float(np.abs(numbers).mean()))} on average; "
        f"{(numbers > 0).mean():.0%} of the steps turn out better than expected."
    )


def _of_priorities(numbers: np.ndarray, lines: list[float]) -> str:
    del lines
    first = np.sort(numbers)[::-1][: max(1, round(_TOP * numbers.size))]
    return (
        f"The tenth of the {numbers.size:,} steps with the largest priorities makes up "
        f"{first.sum() / numbers.sum():.0%} of what is drawn."
    )


def _of_advantages(numbers: np.ndarray, lines: list[float]) -> str:
    del lines
    return (
        f"{(numbers > 0).mean():.0%} of {numbers.size:,} steps did better than expected; advantages deviate by "
        f"{number(float(numbers.std()))}."
    )


def _of_ratios(numbers: np.ndarray, lines: list[float]) -> str:
    beyond = ((numbers < min(lines)) | (numbers > max(lines))).mean()
    return (
        f"After all passes {beyond:.1%} of the ratios lie beyond the lines of clipping; the largest is "
        f"{number(float(numbers.max()), 3)}, the smallest {number(float(numbers.min()), 3)}."
    )


_WORDS = {
    "td_error": _of_errors,
    "priority": _of_priorities,
    "advantage": _of_advantages,
    "ratio": _of_ratios,
}

probe = AgentProbe(
    "what an update learns from: temporal differences and priorities, or advantages and clipped ratios",
    "a learner of values from a replay buffer, or of a policy with a critic",
    lambda run: isinstance(run.learner, HasLearningSignal),
    examine,
    UpdatesSettings,
)

__all__ = ["UpdatesSettings", "examine", "probe"]
