"""Trust region policy optimisation."""

from chainrule.agents.algorithms.trpo.learner import TRPO, TRPOConfig
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="trpo",
    summary="Trust region policy optimisation: the best step that moves the policy no further than a divergence.",
    config=TRPOConfig,
    build=TRPO,
    env="cartpole",
    steps=500_000,
    citation="Schulman et al., Trust region policy optimization, ICML 2015",
    toy={"environments": 2, "length": 16, "cg_steps": 3, "value_steps": 2, "widths": (8, 8)},
)

__all__ = ["ENTRY", "TRPO", "TRPOConfig"]
