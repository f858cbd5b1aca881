"""Learning: curves over seeds with bands, when a mark was reached, and what went wrong on the way."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.agents import AgentRun, envs
from chainrule.agents.evaluation import statistics
from chainrule.agents.evaluation.pictures import learning_table
from chainrule.agents.training import pictures
from chainrule.core.errors import DataError
from chainrule.core.formatting import number
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


def examine(run: AgentRun, settings: LearningSettings) -> Outcome:
    """Read the history."""
    columns = run.metrics
    steps, mean = history.curve(columns, "return_mean", "val")
    if len(steps) < 2:
        raise DataError(
            f"{run.id} has {len(steps)} evaluation{'' if len(steps) == 1 else 's'}: a curve needs two",
            remedy=f"go on with it: chainrule resume {handle(run.path)} steps={2 * run.status['total']:d}",
        )
    each = [history.curve(columns, f"return.{agent}", "val")[1] for agent in range(run.settings.seeds)]
    returns = np.stack(each if run.settings.seeds > 1 else [mean])
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
    return Outcome(
        findings,
        pictures.learning(run),
        learning_table(steps, {run.config["model"]["name"]: returns}, mark),
        {
            "steps": steps.tolist(),
            "returns": returns.tolist(),
            "mark": mark,
            "reached": [float(one) if np.isfinite(one) else None for one in reached],
        },
    )


def _mark(run: AgentRun, returns: np.ndarray) -> float:
    """What counts as solved in this environment."""
    name = run.config["env"]["name"]
    known = envs.entry(name).threshold if name in envs.names() else None
    if known is not None:
        return known
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
