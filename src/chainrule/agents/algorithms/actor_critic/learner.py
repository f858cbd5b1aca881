"""One-step actor-critic: every step is learnt from at once (Sutton and Barto, Reinforcement Learning, 2018, 13.5).

`delta = r + gamma v(s') - v(s)`, without `v(s')` after a true end, estimates the advantage of the action taken: the
actor follows `delta grad log pi`, the critic `delta grad v(s)` with its target held fixed.
"""

from typing import Any, final

import pydantic

from chainrule.agents.envs.base import Environment
from chainrule.agents.learning.actor_critic import ActorCriticHyper, AdvantageActorCritic, Stretches
from chainrule.agents.learning.on_policy import PolicyConfig


@final
class OneStepConfig(PolicyConfig):
    """Settings of the one-step actor-critic."""

    environments: int = pydantic.Field(
        default=8, ge=1, description="worlds side by side; a gradient is their mean"
    )
    updates: int = pydantic.Field(
        default=64, ge=1, description="steps, each with its gradient, in an iteration"
    )
    learning_rate: float = pydantic.Field(default=5e-4, gt=0, le=1, description="of Adam, at the start")
    entropy: float = pydantic.Field(default=0.01, ge=0, le=10, description="weight of the entropy bonus")
    value_weight: float = pydantic.Field(default=0.5, ge=0, le=100, description="weight of the value's loss")


def build(config: OneStepConfig, env: Environment[Any], steps: int) -> AdvantageActorCritic:
    """The learner for an environment."""
    # Generalised advantages that decay at once are single temporal differences.
    hyper = ActorCriticHyper(
        config.learning_rate, config.gamma, 0.0, config.entropy, config.value_weight, config.gradient_norm
    )
    return AdvantageActorCritic(config, env, steps, Stretches(config.environments, 1, config.updates), hyper)


__all__ = ["OneStepConfig", "build"]
