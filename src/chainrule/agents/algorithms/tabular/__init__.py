"""Tabular learning: a number for every state and action."""

from collections.abc import Callable, Mapping
from typing import Any

from chainrule.agents.algorithms.tabular.config import TabularConfig
from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.finite import FiniteEnvironment
from chainrule.agents.learning import exploration
from chainrule.agents.learning.base import AlgorithmEntry
from chainrule.agents.mdp import enumerated
from chainrule.agents.tabular import (
    Behaviour,
    DoubleQLearning,
    EpsilonGreedyBehaviour,
    ExpectedSarsa,
    NStepSarsa,
    QLearning,
    Sarsa,
    SoftmaxBehaviour,
    TabularHyper,
    TabularLearner,
    TabularRule,
)
from chainrule.core.errors import ArgumentError

_TRACED: Mapping[str, Callable[[float | None], TabularRule]] = {
    "q-learning": QLearning,
    "sarsa": Sarsa,
    "expected-sarsa": ExpectedSarsa,
}


def build(config: TabularConfig, env: Environment[Any], steps: int) -> TabularLearner:
    """The learner for an environment and a length of training."""
    behaviour = _behaviour(config, config.exploration * steps)
    hyper = TabularHyper(config.alpha, config.power, config.gamma, config.initial, behaviour)
    learner = TabularLearner(env, _rule(config), hyper, chunk=min(config.chunk, steps))
    if (
        config.gamma == 1
        and isinstance(env, FiniteEnvironment)
        and not enumerated(env).transition[:, :, -1].any()
    ):
        raise ArgumentError(
            f"gamma=1: {type(env).__name__} never ends by itself, so that returns have no limit",
            remedy="use gamma below 1, such as gamma=0.99",
        )
    return learner


def _behaviour(config: TabularConfig, steps: float) -> Behaviour:
    schedule = {"linear": exploration.linear, "exponential": exploration.exponential}[config.schedule]
    if config.behaviour == "softmax":
        return SoftmaxBehaviour(config.temperature, config.temperature_end, steps, schedule)
    for name in ("epsilon", "epsilon_end"):
        if config.schedule == "exponential" and getattr(config, name) == 0:
            raise ArgumentError(
                f"{name}=0: an exponential schedule never comes from or to 0",
                remedy=f"use {name}=0.01, or schedule=linear",
            )
    return EpsilonGreedyBehaviour(config.epsilon, config.epsilon_end, steps, schedule)


def _rule(config: TabularConfig) -> TabularRule:
    if config.rule in _TRACED:
        return _TRACED[config.rule](config.trace)
    if config.trace is not None:
        raise ArgumentError(
            f"trace={config.trace:g}: rule={config.rule} has no traces", remedy=f"use {', '.join(_TRACED)}"
        )
    return DoubleQLearning() if config.rule == "double-q" else NStepSarsa(config.lookahead)


ENTRY = AlgorithmEntry(
    name="tabular",
    summary="Tabular learning: Q-learning, SARSA and their relatives, a number for every state and action.",
    config=TabularConfig,
    build=build,
    env="cliff-walking",
    steps=50_000,
    citation="Watkins, Learning from delayed rewards, 1989; Sutton and Barto, Reinforcement Learning, 2018",
    toy={"chunk": 16},
    toy_env="cliff-walking",
    whole_numbers=True,
)

__all__ = ["ENTRY", "TabularConfig", "build"]
