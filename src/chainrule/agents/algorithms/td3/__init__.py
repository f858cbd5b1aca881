"""Twin delayed deep deterministic policy gradients."""

from chainrule.agents.algorithms.td3.config import TD3Config
from chainrule.agents.algorithms.td3.learner import TD3
from chainrule.agents.learning.base import AlgorithmEntry

ENTRY = AlgorithmEntry(
    name="td3",
    summary="Twin delayed policy gradients: one action for every state, learnt from the past through two critics.",
    config=TD3Config,
    build=TD3,
    env="pendulum",
    steps=20_000,
    citation="Fujimoto, van Hoof and Meger, Addressing function approximation error in actor-critic methods, ICML 2018",
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

__all__ = ["ENTRY", "TD3", "TD3Config"]
