"""AlphaZero: self-play guided by search, for games of two."""

from typing import Any

from chainrule.agents.algorithms.alphazero.config import AlphaZeroConfig
from chainrule.agents.algorithms.alphazero.learner import AlphaZero
from chainrule.agents.algorithms.starting import located, opened
from chainrule.agents.learning.base import AlgorithmEntry, HasGameNetwork
from chainrule.agents.policy_value.network import PolicyValueNetwork
from chainrule.core.errors import ArgumentError


def _build(config: AlphaZeroConfig, env: Any, steps: int) -> AlphaZero:
    del steps  # nothing is annealed
    return AlphaZero(config, env, _learnt(config.start) if config.start else None)


def _resolved(config: AlphaZeroConfig, env: Any) -> AlphaZeroConfig:
    del env
    return located(config, "start")


def _begun(config: AlphaZeroConfig) -> AlphaZeroConfig:
    """The run that training began with may be gone."""
    return config.model_copy(update={"start": ""})


def _learnt(run: str) -> PolicyValueNetwork:
    """The network of another run."""
    found = opened(run)
    if not isinstance(found.learner, HasGameNetwork):
        raise ArgumentError(
            f"start={run}: a run of {found.config['model']['name']} has no network that says both move and outcome",
            remedy="train one by imitation, or by alphazero",
        )
    learnt: PolicyValueNetwork = found.learner.network(found.state())
    return learnt


ENTRY = AlgorithmEntry(
    name="alphazero",
    summary="Self-play guided by tree search: learns a game of two from its rules alone.",
    config=AlphaZeroConfig,
    build=_build,
    env="tic-tac-toe",
    steps=200_000,
    citation="Silver et al., A general reinforcement learning algorithm that masters chess, shogi, and Go through "
    "self-play, Science 362, 2018",
    toy={"simulations": 4, "games": 4, "moves": 4, "window": 64, "batch": 8, "updates": 2, "width": 16},
    toy_env="tic-tac-toe",
    of_games=True,
    toy_steps=64,
    numbers={
        "return_mean": "won less lost, against a search without a network",
        "return_random": "won less lost, against random moves",
    },
    resolve=_resolved,
    begun=_begun,
)

__all__ = ["ENTRY", "AlphaZero", "AlphaZeroConfig"]
