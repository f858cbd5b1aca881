"""Advantage actor-critic: many worlds, short stretches, one gradient for each (Mnih et al., 2016)."""

from typing import Any, final

import pydantic

from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.actor_critic import ActorCriticHyper, AdvantageActorCritic, Stretches
from chainrule.agents.learning.on_policy import PolicyConfig


@final
class A2CConfig(PolicyConfig):
    """Settings of advantage actor-critic."""

    environments: int = pydantic.Field(default=16, ge=1, description="worlds side by side")
    length: int = pydantic.Field(default=8, ge=1, description="steps of each world for one gradient")
    updates: int = pydantic.Field(default=8, ge=1, description="gradients in an iteration")
    learning_rate: float = pydantic.Field(default=1e-3, gt=0, le=1, description="of Adam, at the start")
    decay: float = pydantic.Field(default=0.95, ge=0, le=1, description="lambda of generalised advantages")
    entropy: float = pydantic.Field(default=0.01, ge=0, le=10, description="weight of the entropy bonus")
    value_weight: float = pydantic.Field(default=0.5, ge=0, le=100, description="weight of the value's loss")


def build(config: A2CConfig, env: Environment[Any], steps: int) -> AdvantageActorCritic:
    """The learner for an environment."""
    hyper = ActorCriticHyper(*(getattr(config, name) for name in ActorCriticHyper._fields))
    stretches = Stretches(config.environments, config.length, config.updates)
    return AdvantageActorCritic(config, env, steps, stretches, hyper)


__all__ = ["A2CConfig", "build"]
