"""Soft actor-critic."""

from chainrule.agents.algorithms.sac.config import SACConfig
from chainrule.agents.algorithms.sac.learner import SAC
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="sac",
    summary="Soft actor-critic: continuous actions, learnt from the past, as random as they can afford to be.",
    config=SACConfig,
    build=SAC,
    env="pendulum",
    steps=20_000,
    citation="Haarnoja et al., Soft actor-critic algorithms and applications, 2018",
    toy={
        "widths": (8,),
        "buffer": 128,
        "batch": 16,
        "learning_start": 32,
        "update_every": 4,
        "report_every": 64,
    },
    toy_env="pendulum",
)

__all__ = ["ENTRY", "SAC", "SACConfig"]
