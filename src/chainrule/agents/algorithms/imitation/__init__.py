"""Imitation: moves and outcomes of stored games."""

from pathlib import Path
from typing import Any

from chainrule.agents.algorithms.imitation.config import ImitationConfig
from chainrule.agents.algorithms.imitation.learner import Imitation
from chainrule.agents.learning.base import AlgorithmEntry


def _build(config: ImitationConfig, env: Any, steps: int) -> Imitation:
    del steps  # nothing is annealed
    return Imitation(config, env)


def _resolved(config: ImitationConfig, env: Any) -> ImitationConfig:
    del env
    if not config.records:
        return config
    return config.model_copy(update={"records": str(Path(config.records).expanduser().resolve())})


ENTRY = AlgorithmEntry(
    name="imitation",
    summary="Learning from stored games: which move comes next, and who will win.",
    config=ImitationConfig,
    build=_build,
    env="tic-tac-toe",
    steps=400_000,
    citation="Silver et al., Mastering the game of Go with deep neural networks and tree search, Nature 529, 2016",
    toy={"teacher_games": 8, "teacher_simulations": 8, "batch": 8, "updates": 2, "width": 16},
    toy_env="tic-tac-toe",
    of_games=True,
    toy_steps=64,
    numbers={
        "return_mean": "share of moves foreseen",
        "surprisal": "surprisal of a move, nats",
        "value_error": "squared error of outcomes",
    },
    resolve=_resolved,
)

__all__ = ["ENTRY", "Imitation", "ImitationConfig"]
