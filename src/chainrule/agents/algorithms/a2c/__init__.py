"""Advantage actor-critic."""

from chainrule.agents.algorithms.a2c.learner import A2CConfig, build
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="a2c",
    summary="Advantage actor-critic: one gradient for each short stretch of many worlds.",
    config=A2CConfig,
    build=build,
    env="cartpole",
    steps=500_000,
    citation="Mnih et al., Asynchronous methods for deep reinforcement learning, ICML 2016",
    toy={"environments": 4, "length": 4, "updates": 2, "widths": (8, 8)},
)

__all__ = ["ENTRY", "A2CConfig"]
