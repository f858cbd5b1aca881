"""REINFORCE."""

from chainrule.agents.algorithms.reinforce.learner import Reinforce, ReinforceConfig
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="reinforce",
    summary="REINFORCE: whole episodes, each action weighed by what followed it.",
    config=ReinforceConfig,
    build=Reinforce,
    env="cartpole",
    steps=1_000_000,
    citation="Williams, Simple statistical gradient-following algorithms, Machine Learning 8, 1992",
    toy={"episodes": 4, "horizon": 16, "widths": (8, 8)},
)

__all__ = ["ENTRY", "Reinforce", "ReinforceConfig"]
