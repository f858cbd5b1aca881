"""Proximal policy optimisation."""

from chainrule.agents.algorithms.ppo.config import PPOConfig, resolved
from chainrule.agents.algorithms.ppo.learner import PPO
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="ppo",
    summary="Proximal policy optimisation: a policy and its value, improved by steps that stay close.",
    config=PPOConfig,
    build=PPO,
    env="cartpole",
    steps=500_000,
    citation="Schulman et al., Proximal policy optimization algorithms, 2017",
    toy={"environments": 2, "length": 16, "epochs": 2, "minibatches": 2, "widths": (8, 8)},
    resolve=resolved,
)

__all__ = ["ENTRY", "PPO", "PPOConfig"]
