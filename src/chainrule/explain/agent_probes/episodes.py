"""Episodes: what trained agents do, step by step, and what they expected of it."""

from typing import Literal, final

import jax
from pydantic import Field

from chainrule.agents import AgentRun
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.evaluation.films import film, slides
from chainrule.agents.evaluation.pictures import pictures
from chainrule.agents.evaluation.recording import record_extremes
from chainrule.agents.training.pictures import exploring
from chainrule.core import random
from chainrule.core.formatting import number
from chainrule.core.pictures import Picture, Table
from chainrule.explain.agent_probes import AgentProbe
from chainrule.explain.protocol import Outcome, Settings


@final
class EpisodesSettings(Settings):
    """Which episodes are shown."""

    episodes: int = Field(
        20, ge=2, le=10_000, description="episodes of which the best, the median and the worst are shown"
    )
    show: Literal["best", "median", "worst"] = Field("median", description="which one is shown as a film")
    step: int | None = Field(
        None, ge=0, description="checkpoint whose agent acts; that of the best evaluation unless told"
    )
    agent: int | None = Field(None, ge=0, description="which of the agents; the best unless told")
    exploring: bool = Field(False, description="act as in training, not greedily")
    frames: int = Field(100, ge=2, le=1000, description="pictures of the film")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the episodes")


def examine(run: AgentRun, settings: EpisodesSettings) -> Outcome:
    """Play episodes, and show three of them."""
    policy, env = run.policy(settings.agent, settings.step), run.judged_in(settings.agent, settings.step)
    keys = jax.random.split(random.key(settings.seed, "episodes"), settings.episodes)
    kept = record_extremes(policy, env, keys, greedy=not settings.exploring)
    judged = {name: evaluate(policy, env, keys, greedy=name == "greedy") for name in ("greedy", "exploring")}
    shown = kept[settings.show]
    found: list[Picture] = []
    if shown.can_be_drawn:
        found += [
            film(shown, title=f"The {settings.show} episode", frames=settings.frames),
            slides(shown, title=f"The {settings.show} episode, step by step"),
        ]
    found += pictures(
        policy,
        env,
        judged,
        {"median": shown},
        run.gamma,
        earned=not run.wrappers.change_rewards,
        explored=exploring(policy, env, keys),
    )
    rows: list[list[str | float | int]] = [
        [name, one.score, len(one), "ended by itself" if one.terminated else "cut off"]
        for name, one in kept.items()
    ]
    means = {name: float(one.returns.mean()) for name, one in judged.items()}
    return Outcome(
        [
            f"Of {settings.episodes} episodes: greedy actions return {number(means['greedy'])} on average, "
            f"exploring ones {number(means['exploring'])}.",
            f"The {settings.show} episode has {len(shown):,} steps and returns {number(shown.score)}.",
        ],
        found,
        Table("episodes", "Three episodes", ["episode", "return", "steps", "how it ended"], rows),
        {"returns": means, "episodes": {name: one.score for name, one in kept.items()}},
    )


probe = AgentProbe(
    "films of the best, the median and the worst episode, with what was expected and what came",
    "an environment",
    lambda run: not run.of_game,
    examine,
    EpisodesSettings,
    toy={"episodes": 3, "frames": 3},
)

__all__ = ["EpisodesSettings", "examine", "probe"]
