"""Parallel Q-learning."""

from chainrule.agents.algorithms.pqn.config import PQNConfig
from chainrule.agents.algorithms.pqn.learner import PQN
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="pqn",
    summary="Parallel Q-learning: many worlds, layer norm and lambda-returns in place of replay and a second network.",
    config=PQNConfig,
    build=PQN,
    env="cartpole",
    steps=500_000,
    citation="Gallici et al., Simplifying deep temporal difference learning, ICLR 2025",
    toy={"widths": (8,), "environments": 4, "length": 16, "minibatches": 2, "epochs": 2},
)

__all__ = ["ENTRY", "PQN", "PQNConfig"]
