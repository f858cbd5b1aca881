"""Judging agents: episodes with keys of their own, the same at every evaluation of a run."""

from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from chainrule.agents.envs import settled
from chainrule.agents.evaluation.evaluate import AgentEvaluation, evaluate
from chainrule.agents.learning.base import HasOwnEvaluation, HasWorlds, Learner
from chainrule.core.types import Array, Key, Tree
from chainrule.train import Metric


@final
@dataclass(frozen=True)
class Judgement:
    """Numbers of every agent: a row for each, a column for each episode where there are episodes."""

    returns: np.ndarray
    """(agents, episodes) of greedy episodes, or (agents, 1) where a learner judges itself."""
    stochastic: np.ndarray | None
    """The same as the agents explore."""
    lengths: np.ndarray | None
    more: dict[str, float]
    """Further numbers, means over agents."""
    action_share: float | None = None
    """How often an agent took the action that it took most often, where actions are finitely many."""

    @property
    def by_agent(self) -> np.ndarray:
        """Mean return of each agent."""
        return self.returns.mean(axis=1)

    def numbers(self) -> dict[str, float]:
        """One number each, for a line of metrics."""
        found = {"return_mean": float(self.returns.mean()), **self.more}
        if self.stochastic is not None:
            found["return_stochastic"] = float(self.stochastic.mean())
        if self.lengths is not None:
            found["episode_length"] = float(self.lengths.mean())
        if self.action_share is not None:
            found["action_share"] = self.action_share
        if len(self.returns) > 1:
            found |= {f"return.{agent}": float(value) for agent, value in enumerate(self.by_agent)}
        return found

    def metrics(self) -> dict[str, Metric]:
        """The same with standard errors: between agents where there are several, else between episodes."""
        found = {"return_mean": _mean(self.returns)}
        if self.stochastic is not None:
            found["return_stochastic"] = _mean(self.stochastic)
        if self.lengths is not None:
            found["episode_length"] = _mean(self.lengths, "steps")
        return found | {name: Metric(value) for name, value in self.more.items()}


def judged_in(learner: Learner[Any], env: Any, state: Tree) -> Any:
    """The environment as one agent is judged in it: with what its wrappers have gathered, and all that is earned."""
    return settled(env, learner.worlds(state)) if isinstance(learner, HasWorlds) else env


def judge(learner: Learner[Any], env: Any, states: Tree, key: Key, episodes: int) -> Judgement:
    """What all agents are worth; `env` is the one that they learn in."""
    if isinstance(learner, HasOwnEvaluation):
        found = {name: np.asarray(v, np.float64) for name, v in _own(learner, states, key, episodes).items()}
        more = {name: float(values.mean()) for name, values in found.items() if name != "return_mean"}
        return Judgement(found["return_mean"].reshape(-1, 1), None, None, more)
    keys = jax.random.split(key, episodes)
    greedy, exploring = (_episodes(learner, env, states, keys, greedy=each) for each in (True, False))
    returns, stochastic, lengths = map(_wide, (greedy.returns, exploring.returns, greedy.lengths))
    return Judgement(returns, stochastic, lengths, {}, greedy.action_share())


@eqx.filter_jit
def _own(learner: Any, states: Tree, key: Key, episodes: int) -> dict[str, Any]:
    found: dict[str, Any] = eqx.filter_vmap(lambda state: learner.evaluate(state, key, episodes))(states)
    return found


@eqx.filter_jit
def _episodes(learner: Learner[Any], env: Any, states: Tree, keys: Array, *, greedy: bool) -> AgentEvaluation:
    found: AgentEvaluation = eqx.filter_vmap(
        lambda state: evaluate(learner.policy(state), judged_in(learner, env, state), keys, greedy=greedy)
    )(states)
    return found


def _wide(values: Array) -> np.ndarray:
    """On the host, so that means of thousands are exact."""
    return np.asarray(values, np.float64)


def _mean(values: np.ndarray, unit: str = "") -> Metric:
    apart = values.mean(axis=1) if len(values) > 1 else values[0]
    stderr = float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else None
    return Metric(float(values.mean()), unit, stderr)


__all__ = ["Judgement", "judge", "judged_in"]
