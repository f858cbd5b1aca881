"""One-step actor-critic."""

from chainrule.agents.algorithms.actor_critic.learner import OneStepConfig, build
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="actor-critic",
    summary="One-step actor-critic: every step is learnt from at once, by its temporal difference.",
    config=OneStepConfig,
    build=build,
    env="cartpole",
    steps=500_000,
    citation="Sutton and Barto, Reinforcement Learning: An Introduction, 2018, section 13.5",
    toy={"environments": 2, "updates": 4, "widths": (8, 8)},
)

__all__ = ["ENTRY", "OneStepConfig"]
