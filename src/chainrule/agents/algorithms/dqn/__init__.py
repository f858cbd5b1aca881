"""Deep Q-learning."""

from chainrule.agents.algorithms.dqn.config import DQNConfig
from chainrule.agents.algorithms.dqn.learner import DQN
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="dqn",
    summary="Deep Q-learning: values of actions by a network, learnt from steps drawn from the past.",
    config=DQNConfig,
    build=DQN,
    env="cartpole",
    steps=500_000,
    citation="Mnih et al., Human-level control through deep reinforcement learning, Nature 518, 2015",
    toy={
        "widths": (8,),
        "buffer": 128,
        "batch": 16,
        "learning_start": 32,
        "update_every": 8,
        "target_every": 64,
    },
)

__all__ = ["DQN", "ENTRY", "DQNConfig"]
