"""Shapley values of what an agent does and expects: which entries of an observation make it act so."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents import AgentRun
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.agents.evaluation.films import is_probabilities
from chainrule.agents.evaluation.recording import record
from chainrule.agents.learning.base import Policy
from chainrule.core import random
from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.formatting import number
from chainrule.core.pictures import Picture, Table
from chainrule.core.types import Array
from chainrule.explain.agent_probes import AgentProbe
from chainrule.explain.methods import explanation_pictures as pictures
from chainrule.explain.methods.chosen_rows import chosen_rows
from chainrule.explain.methods.shapley.explaining import shapley
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.protocol import Outcome, Settings


@final
class AgentShapSettings(Settings):
    """What is explained, and beside what."""

    rows: str = Field("0:64", description="moments of the longest episode, as in 0:64 or 3,5")
    out: str = Field(
        "",
        description="the number that is explained: value, or action:N counted from 0; none: the action that is "
        "preferred at the first moment",
    )
    names: tuple[str, ...] = Field((), description="names of the entries of an observation")
    episodes: int = Field(
        8, ge=1, le=1000, description="episodes whose observations stand for absent entries"
    )
    agent: int | None = Field(None, ge=0, description="which of the agents; the best unless told")
    budget: int | None = Field(
        None, ge=8, description="coalitions, at most; none: two for each entry and 2,048"
    )
    shown: int = Field(12, ge=1, le=100, description="entries that pictures name; the rest is added up")
    seed: int = Field(0, ge=0, lt=2**32, description="of everything that is drawn")


class _Opinions(NamedTuple):
    """What a policy thinks of observations, as numbers with names."""

    function: "_Thoughts"
    keys: tuple[str, ...]
    """As `out` asks for them."""
    titles: tuple[str, ...]


@final
class _Thoughts(eqx.Module):
    """Preferences among actions, those that are probabilities as log-odds, and what is expected, of observations."""

    policy: Policy
    odds: bool = eqx.field(static=True)
    expects: bool = eqx.field(static=True)

    def __call__(self, observations: Array) -> Array:
        start, key = self.policy.start(), random.key(0, "explained action")
        said = jax.vmap(lambda seen: self.policy.act(key, seen, start, greedy=True))(observations)
        wanted = said.preferences.reshape(len(observations), -1)
        if self.odds:
            tiny = jnp.finfo(wanted.dtype).tiny
            wanted = jnp.log(jnp.maximum(wanted, tiny)) - jnp.log(jnp.maximum(1 - wanted, tiny))
        return jnp.concatenate([wanted, said.value[:, None]], axis=1) if self.expects else wanted


def examine(run: AgentRun, settings: AgentShapSettings) -> Outcome:
    """Shapley values of the moments of an episode, and every picture that suits them."""
    policy = run.policy(settings.agent)
    keys = jax.random.split(random.key(settings.seed, "explained episodes"), settings.episodes)
    episodes = record(policy, run.judged_in(settings.agent), keys, greedy=True)
    longest = max(episodes, key=len)
    moments = chosen_rows(settings.rows, len(longest))
    x = longest.observations[moments].astype(np.float32)
    behind = np.concatenate([one.observations[: len(one)] for one in episodes]).astype(np.float32)
    opinions = _opinions(run, policy, x)
    output = _asked(opinions, settings.out, x)
    found = shapley(
        opinions.function,
        x,
        behind,
        output=output,
        output_names=opinions.titles,
        names=_names(settings.names, x.shape[1]),
        budget=settings.budget,
        seed=settings.seed,
    )
    return Outcome(
        _findings(found, episodes=len(episodes)),
        _pictures(found, int(moments[0]), settings.shown),
        _table(found, settings.shown),
        {
            "output": found.output,
            "rows": moments.tolist(),
            "names": list(found.names),
            "values": found.values.tolist(),
            "base": found.base.tolist(),
            "outputs": found.outputs.tolist(),
            "residual": float(np.abs(found.residual).max()),
            "evaluations": found.evaluations,
        },
    )


def _opinions(run: AgentRun, policy: Policy, x: np.ndarray) -> _Opinions:
    discrete = isinstance(run.env.action_space, Discrete)
    plain = np.asarray(_Thoughts(policy, odds=False, expects=True)(jnp.asarray(x)))
    odds = discrete and is_probabilities(plain[:, :-1])
    expects = bool(np.isfinite(plain[:, -1]).all())
    what = "log-odds" if odds else "value" if discrete else "mean"
    actions = range(plain.shape[1] - 1)
    keys, titles = [f"action:{i}" for i in actions], [f"{what} of action {i}" for i in actions]
    return _Opinions(
        _Thoughts(policy, odds, expects),
        (*keys, *(["value"] if expects else [])),
        (*titles, *(["expected return"] if expects else [])),
    )


def _asked(opinions: _Opinions, out: str, x: np.ndarray) -> int:
    """The number that `out` names, or the action that is preferred at the first moment."""
    if not out:
        count = sum(key != "value" for key in opinions.keys)
        return int(np.asarray(opinions.function(jnp.asarray(x[:1])))[0, :count].argmax())
    if out not in opinions.keys:
        raise ArgumentError(
            f"out={out}: the agent has no such number{suggest(out, opinions.keys)}",
            remedy=f"it has: {', '.join(opinions.keys[:10])}{', ...' if len(opinions.keys) > 10 else ''}",
        )
    return opinions.keys.index(out)


def _names(names: tuple[str, ...], count: int) -> list[str]:
    if names and len(names) != count:
        raise ArgumentError(
            f"names={','.join(names)}: {len(names)} names for {count} entries",
            remedy="give one for each, or none",
        )
    return list(names) or [f"entry {i}" for i in range(count)]


def _findings(found: Explanation, episodes: int) -> list[str]:
    sizes = found.mean_absolute()
    top = np.argsort(-sizes, kind="stable")[:3]
    listed = ", ".join(f"{found.names[i]} ({number(float(sizes[i]), 3)})" for i in top)
    return [
        f"The {found.output} at {len(found):,} moments, {number(float(found.outputs.mean()))} on average, beside "
        f"{number(float(found.base.mean()))} with nothing seen.",
        f"Largest on average: {listed}.",
        f"{found.method}; absent: {found.kind}, of {episodes} episodes; {found.evaluations:,} evaluations of the "
        "policy.",
    ]


def _pictures(found: Explanation, moment: int, shown: int) -> list[Picture]:
    label = found.output
    drawn: list[Picture] = [
        pictures.waterfall(
            found[0],
            shown=shown,
            joined=joined,
            label=label,
            title=f"{'What raises and lowers' if joined else 'From the base value to'} the output at moment {moment}",
        )
        for joined in (False, True)
    ]
    drawn.append(pictures.bar(found, shown=shown, label=label))
    if len(found) > 1:
        drawn += [
            pictures.beeswarm(found, shown=shown, label=label),
            pictures.heat_map(found, shown=shown, label=label),
            pictures.decision_paths(found, shown=shown, label=label),
            pictures.dependence(found, label=label),
        ]
    return drawn


def _table(found: Explanation, shown: int) -> Table:
    sizes = found.mean_absolute()
    rows: list[list[Any]] = [
        [found.names[i], float(sizes[i]), float(found.values[:, i].mean())]
        for i in np.argsort(-sizes, kind="stable")[:shown]
    ]
    return Table("shap-table", f"Shapley values: {found.output}", ["entry", "mean size", "mean"], rows)


def _applies(run: AgentRun) -> bool:
    if run.of_game:
        return False
    space = run.env.observation_space
    return isinstance(space, Box) and len(space.low.shape) == 1 and not jax.tree.leaves(run.policy().start())


probe = AgentProbe(
    "Shapley values of an action or of the expected return: which entries of an observation make the agent act so",
    "observations that are vectors, and a policy without memory",
    _applies,
    examine,
    AgentShapSettings,
    toy={"rows": "0:3", "episodes": 1, "budget": 16},
)

__all__ = ["AgentShapSettings", "examine", "probe"]
