"""Pictures of evaluations: how agents learnt, what came of their episodes, what they think of the world.

Everything is a record of `core.pictures`. Bands are drawn where there are enough runs for one; with fewer every run has
its own line, and the picture says why. `pictures` shows one trained agent, `learning_curves` many that learnt.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.spaces import Discrete
from chainrule.agents.evaluation import statistics
from chainrule.agents.evaluation.evaluate import AgentEvaluation
from chainrule.agents.evaluation.films import is_probabilities
from chainrule.agents.evaluation.maps import maps
from chainrule.agents.evaluation.recording import Recording
from chainrule.agents.evaluation.statistics import FEWEST, Curves, Points
from chainrule.agents.learning.base import Policy
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import count, number
from chainrule.core.pictures import Bars, Footnote, Heatmap, Lines, Picture, Table
from chainrule.models.protocol import Alarm

_BINS = 12
_MOST_THREADS = 64
_MOST_COLUMNS = 60
_MOST_ACTIONS = 24


def pictures(
    policy: Policy,
    env: Environment[Any],
    evaluations: Mapping[str, AgentEvaluation],
    recordings: Mapping[str, Recording],
    gamma: float,
    *,
    earned: bool = True,
    explored: Mapping[str, Recording] | None = None,
) -> list[Picture]:
    """One trained agent: returns of its evaluations by name, the course of one episode, and maps where there are any.

    The episode is that called "median", or else the first of the recordings. `earned` says whether values are of what
    is earned, `explored` are episodes that show where the agent comes while it explores.
    """
    found: list[Picture] = [returns_histogram(evaluations)] if evaluations else []
    if recordings:
        shown = recordings.get("median", next(iter(recordings.values())))
        found += [*course(shown, gamma, earned=earned), *action_bars(shown)]
    return found + maps(policy, env, recordings, explored)


def learning_curves(
    steps: Points,
    returns: Curves,
    *,
    seconds: Points | None = None,
    lines: Mapping[str, float] | None = None,
    alarms: Sequence[Alarm] = (),
    what: str = "return of an episode",
) -> list[Picture]:
    """Returns of runs that differ in nothing but their seed, over steps and, where they are known, over seconds.

    `lines` are returns to compare with, by name (`Baselines.lines`); alarms become marks at their steps.
    """
    if np.ndim(returns) != 2 or np.shape(returns)[1] != len(steps) or not np.size(returns):
        raise ArgumentError(
            f"learning_curves(returns=...): shape {np.shape(returns)} must be (runs, {len(steps)})"
        )
    marks = [(float(alarm.step), alarm.name) for alarm in alarms]
    found: list[Picture] = [_curves("returns", "Return", "steps", steps, returns, lines or {}, marks, what)]
    if seconds is not None and len(seconds) == len(steps):
        at = [(float(np.interp(step, steps, seconds)), name) for step, name in marks]
        found.append(
            _curves("returns-seconds", "Return over time", "seconds", seconds, returns, lines or {}, at, what)
        )
    return found


def _curves(
    name: str,
    title: str,
    label: str,
    x: np.ndarray,
    returns: np.ndarray,
    lines: Mapping[str, float],
    marks: Sequence[tuple[float, str]],
    what: str,
) -> Lines:
    runs = len(returns)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    threads = None
    if runs >= FEWEST:
        middle = statistics.band(returns)
        series["interquartile mean"] = (x, middle.value, *middle.ends)
        series["mean"] = (x, returns.mean(axis=0))
        threads = (x, returns[:_MOST_THREADS])
        note = f"{runs} runs; the band is a 95 % interval of the interquartile mean, by bootstrap over runs."
    elif runs > 1:
        series |= {f"run {index + 1}": (x, one) for index, one in enumerate(returns)}
        note = f"{runs} runs are too few for a band: each has its own line. Train {FEWEST} seeds or more."
    else:
        series["return"] = (x, returns[0])
        note = f"One run says nothing about others: train {FEWEST} seeds or more for a band."
    series |= {known: (x[[0, -1]], np.full(2, value)) for known, value in lines.items()}
    return Lines(
        name,
        title,
        label,
        what,
        series,
        marks=marks,
        threads=threads,
        footnote=Footnote(note),
    )


def compared(
    curves: Mapping[str, tuple[Points, Curves]],
    lines: Mapping[str, float],
    what: str = "return of an episode",
) -> list[Lines]:
    """Trainings beside each other, each of several runs: returns on the way, and how runs are spread at the end."""
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for name, (steps, returns) in curves.items():
        found = statistics.band(returns)
        series[name] = (steps, found.value, *found.ends)
    whole = max(float(steps[-1]) for steps, _ in curves.values())
    series |= {known: (np.array([0.0, whole]), np.full(2, value)) for known, value in lines.items()}
    few = min(len(returns) for _, returns in curves.values()) < FEWEST
    note = "Interquartile means over runs" + (
        f"; fewer than {FEWEST} runs have no band." if few else ", with 95 % bands."
    )
    return [
        Lines("compared", "Returns compared", "steps", what, series, footnote=Footnote(note)),
        score_distribution({name: returns[:, -1] for name, (_, returns) in curves.items()}),
    ]


def learning_table(
    steps: Points,
    returns: Mapping[str, Curves],
    threshold: float,
) -> Table:
    """By algorithm: the return at the end, the mean height of the curve, and how soon a threshold was reached."""
    rows = []
    for name, curves in returns.items():
        reached = statistics.steps_to(threshold, steps, curves)
        share = np.isfinite(reached).mean()
        soon = float(np.median(reached))
        rows.append(
            [
                name,
                str(statistics.interval(curves[:, -1])),
                str(statistics.interval(statistics.area_under_curve(steps, curves))),
                f"{share:.0%}",
                count(soon) if np.isfinite(soon) else "not by half of the runs",
            ]
        )
    columns = [
        "algorithm",
        "return at the end",
        "mean over the curve",
        f"reached {number(threshold)}",
        "median steps",
    ]
    caption = "Interquartile means over runs, with 95 % intervals where there are five runs or more."
    return Table("learning", "What was learnt, and how soon", columns, rows, caption)


def score_distribution(scores: Mapping[str, np.ndarray]) -> Lines:
    """Which share of runs, averaged over tasks, scores above each threshold: higher curves are better throughout."""
    every = np.concatenate([np.ravel(one) for one in scores.values()])
    thresholds = np.linspace(every.min(), every.max(), 101)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    for name, one in scores.items():
        found = statistics.profile(one, thresholds)
        series[name] = (thresholds, found.value, *found.ends)
    few = min(len(one) for one in scores.values()) < FEWEST
    note = Footnote(f"Fewer than {FEWEST} runs: no band.") if few else None
    return Lines(
        "score-distribution", "Score distribution", "score", "share of runs above", series, footnote=note
    )


def returns_histogram(evaluations: Mapping[str, AgentEvaluation]) -> Bars:
    """How often episodes had which return, for evaluations by name."""
    returns = {name: np.ravel(np.asarray(one.returns, np.float64)) for name, one in evaluations.items()}
    every = np.concatenate(list(returns.values()))
    whole = bool((every == np.rint(every)).all()) and np.ptp(every) < _BINS
    edges = np.arange(every.min() - 0.5, every.max() + 1) if whole else np.histogram_bin_edges(every, _BINS)
    middles = (edges[1:] + edges[:-1]) / 2
    return Bars(
        "returns-histogram",
        "Returns of episodes",
        "return",
        "share of episodes",
        [number(float(middle), 3) for middle in middles],
        {name: np.histogram(one, edges)[0] / len(one) for name, one in returns.items()},
    )


def course(recording: Recording, gamma: float, *, earned: bool = True) -> list[Picture]:
    """Rewards along an episode; and the value that was expected at each step, beside what came of it.

    Values of other rewards than those that are `earned` cannot be compared with what came.
    """
    steps = np.arange(len(recording))
    found: list[Picture] = [
        Lines(
            "episode-rewards",
            "Rewards of an episode",
            "step",
            "reward",
            {"reward": (steps, recording.rewards)},
        )
    ]
    if np.isfinite(recording.values).any() and not earned:
        found.append(
            Lines(
                "episode-values",
                "What was expected",
                "step",
                "value, of rewards as they are learnt from",
                {"expected": (steps, recording.values)},
            )
        )
    elif np.isfinite(recording.values).any():
        series = {"expected": (steps, recording.values), "came": (steps, recording.rest(gamma))}
        cut = "The episode was cut off: what would have come later is missing from the end of the curve."
        note = None if recording.terminated else Footnote(cut)
        found.append(
            Lines(
                "episode-values",
                "What was expected, and what came",
                "step",
                f"sum of later rewards, discounted by {gamma:g}",
                series,
                footnote=note,
            )
        )
    return found


def action_bars(recording: Recording) -> list[Picture]:
    """How much each action was wanted along an episode, and at its beginning, middle and end; none where unknown."""
    space, wanted = recording.env.action_space, recording.preferences
    if not isinstance(space, Discrete) or space.n > _MOST_ACTIONS or not np.isfinite(wanted).all():
        return []
    what = "probability" if is_probabilities(wanted) else "value"
    some = np.unique(
        np.linspace(0, len(recording) - 1, min(len(recording), _MOST_COLUMNS)).round().astype(int)
    )
    moments = dict.fromkeys((0, len(recording) // 2, len(recording) - 1))
    names = [f"action {action}" for action in range(space.n)]
    return [
        Heatmap(
            "episode-actions",
            f"The {what} of each action along an episode",
            "step",
            "",
            wanted[some].T,
            rows=names,
            columns=[str(step) for step in some],
            diverging=what == "value" and bool((wanted < 0).any() and (wanted > 0).any()),
        ),
        Bars(
            "episode-action-bars",
            f"The {what} of each action",
            "",
            what,
            names,
            {f"step {step}": wanted[step] for step in moments},
        ),
    ]


__all__ = [
    "action_bars",
    "compared",
    "course",
    "learning_curves",
    "learning_table",
    "pictures",
    "returns_histogram",
    "score_distribution",
]
