"""Proximal policy optimisation."""

from typing import Any

from chainrule.agents.algorithms.ppo.config import PPOConfig, resolved
from chainrule.agents.algorithms.ppo.learner import PPO
from chainrule.agents.algorithms.starting import located, opened
from chainrule.agents.learning.base import AlgorithmEntry
from chainrule.agents.learning.policies import NetworkPolicy
from chainrule.core.errors import ArgumentError


def _build(config: PPOConfig, env: Any, steps: int) -> PPO:
    if not config.start:
        return PPO(config, env, steps)
    found = opened(config.start)
    learnt = None if found.of_game else found.policy()
    if not isinstance(learnt, NetworkPolicy):
        raise ArgumentError(
            f"start={config.start}: a run of {found.config['model']['name']} has no policy of this kind",
            remedy="begin with a run of behaviour-cloning, ppo, a2c, trpo or reinforce",
        )
    return PPO(config, env, steps, learnt.network)


def _resolved(config: PPOConfig, env: Any) -> PPOConfig:
    return located(resolved(config, env), "start")


def _begun(config: PPOConfig) -> PPOConfig:
    """The run that training began with may be gone."""
    return config.model_copy(update={"start": ""})


ENTRY = AlgorithmEntry(
    name="ppo",
    summary="Proximal policy optimisation: a policy and its value, improved by steps that stay close.",
    config=PPOConfig,
    build=_build,
    env="cartpole",
    steps=500_000,
    citation="Schulman et al., Proximal policy optimization algorithms, 2017",
    toy={"environments": 2, "length": 16, "epochs": 2, "minibatches": 2, "widths": (8, 8)},
    resolve=_resolved,
    begun=_begun,
)

__all__ = ["ENTRY", "PPO", "PPOConfig"]
