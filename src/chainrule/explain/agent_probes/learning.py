"""Learning: curves over seeds with bands, when a mark was reached, and what went wrong on the way."""

from dataclasses import replace
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.agents import AgentRun
from chainrule.agents.evaluation import statistics
from chainrule.agents.evaluation.pictures import compared, learning_table
from chainrule.agents.training import pictures
from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.formatting import number
from chainrule.core.pictures import Lines, Picture
from chainrule.explain.agent_probes import AgentProbe
from chainrule.explain.protocol import Outcome, Settings
from chainrule.train import history
from chainrule.train.naming import handle


@final
class LearningSettings(Settings):
    """What counts as learnt."""

    mark: float | None = Field(
        None,
        description="return that counts as solved; that of the environment unless told, else 90 % of the best",
    )
    against: str = Field(
        "", description="another run in the same environment, by name or folder, to be compared with"
    )


def examine(run: AgentRun, settings: LearningSettings) -> Outcome:
    """Read the history."""
    steps, returns = _curves(run)
    mean = returns.mean(axis=0)
    mark = _mark(run, returns) if settings.mark is None else settings.mark
    reached = statistics.steps_to(mark, steps, returns)
    seen = np.isfinite(reached)
    findings = [
        f"Returns went from {number(mean[0])} to {number(mean[-1])} over {steps[-1]:,} steps"
        f"{f' (mean of {len(returns)} agents)' if len(returns) > 1 else ''}; the best evaluation was "
        f"{number(mean.max())} at step {steps[mean.argmax()]:,}.",
        f"{int(seen.sum())} of {len(returns)} agents reached {number(mark)}"
        + (f", the median of them at step {int(np.median(reached[seen])):,}." if seen.any() else "."),
        *(alarm.text for alarm in run.alarms),
    ]
    shown: list[Picture] = [*pictures.learning(run)]
    table = learning_table(steps, {run.config["model"]["name"]: returns}, mark)
    numbers: dict[str, Any] = {
        "steps": steps.tolist(),
        "returns": returns.tolist(),
        "mark": mark,
        "reached": [float(one) if np.isfinite(one) else None for one in reached],
    }
    if settings.against:
        other = _other(run, settings.against)
        names = (run.id, other.id) if run.id != other.id else (str(run.path), str(other.path))
        words, beside, numbers["against"] = _compared((run, other), names)
        findings.append(words)
        shown += beside
        at, theirs = _curves(other)
        rows = learning_table(at, {names[1]: theirs}, mark).rows
        table = replace(table, rows=[[names[0], *table.rows[0][1:]], *rows])
    return Outcome(findings, shown, table, numbers)


def _curves(run: AgentRun) -> tuple[np.ndarray, np.ndarray]:
    """Steps of all evaluations, and the returns of every agent at them."""
    columns = run.metrics
    steps, mean = history.curve(columns, "return_mean", "val")
    if len(steps) < 2:
        raise DataError(
            f"{run.id} has {len(steps)} evaluation{'' if len(steps) == 1 else 's'}: a curve needs two",
            remedy=f"go on with it: chainrule resume {handle(run.path)} steps={2 * run.status['total']:d}",
        )
    each = [history.curve(columns, f"return.{agent}", "val")[1] for agent in range(run.settings.seeds)]
    return steps, np.stack(each if run.settings.seeds > 1 else [mean])


def _other(run: AgentRun, against: str) -> AgentRun:
    """The run to be compared with: one beside this run, or wherever runs are."""
    beside = run.path.parent / against
    other = AgentRun.open(beside if beside.is_dir() else against)
    if other.path.resolve() == run.path.resolve():
        raise ArgumentError(f"against={against}: this is the run itself", remedy="name another one")
    worlds = [
        (one.config["env"]["name"], one.config["env"]["settings"], one.wrappers.world) for one in (run, other)
    ]
    if worlds[0] != worlds[1]:
        raise ArgumentError(
            f"against={against}: it learnt in {other.config['env']['name']} with other settings, or in another "
            f"environment than {run.id}",
            remedy="returns can be compared in one and the same environment only",
        )
    return other


def _compared(
    runs: tuple[AgentRun, AgentRun], names: tuple[str, str]
) -> tuple[str, list[Lines], dict[str, float | None]]:
    """What to say of two runs, their curves, and the numbers."""
    curves = [_curves(run) for run in runs]
    mine, theirs = (returns for _, returns in curves)
    better = statistics.improvement(mine[:, -1], theirs[:, -1])
    sure = bool(np.isfinite(better.low))
    few = "" if sure else f"; {statistics.FEWEST} agents of each are needed for an interval"
    known = runs[0].baselines
    return (
        f"An agent of {names[0]} ends with a higher return than one of {names[1]} with probability {better} "
        f"({len(mine)} and {len(theirs)} agents{few}).",
        compared(
            dict(zip(names, curves, strict=True)), {} if known is None else known.lines, runs[0].measure
        ),
        {
            "probability": better.value,
            "low": better.low if sure else None,
            "high": better.high if sure else None,
        },
    )


def _mark(run: AgentRun, returns: np.ndarray) -> float:
    """What counts as solved in this environment."""
    if run.threshold is not None:
        return run.threshold
    best = float(returns.max())
    return best - 0.1 * abs(best)


probe = AgentProbe(
    "learning curves with bands over seeds, when a mark was reached, and alarms",
    "two evaluations or more",
    lambda run: True,
    examine,
    LearningSettings,
)

__all__ = ["LearningSettings", "examine", "probe"]
