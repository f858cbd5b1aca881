"""Behaviour cloning: actions and returns of stored episodes."""

from pathlib import Path
from typing import Any

from chainrule.agents.algorithms.behaviour_cloning.config import CloningConfig
from chainrule.agents.algorithms.behaviour_cloning.learner import Cloning
from chainrule.agents.algorithms.starting import located
from chainrule.agents.learning.base import AlgorithmEntry


def _resolved(config: CloningConfig, env: Any) -> CloningConfig:
    del env
    config = located(config, "teacher")
    if not config.records:
        return config
    return config.model_copy(update={"records": str(Path(config.records).expanduser().resolve())})


ENTRY = AlgorithmEntry(
    name="behaviour-cloning",
    summary="Behaviour cloning: which action comes next in stored episodes, and what comes of it.",
    config=CloningConfig,
    build=Cloning,
    env="cliff-walking",
    steps=500_000,
    citation="Pomerleau, ALVINN: an autonomous land vehicle in a neural network, NIPS 1988",
    toy={"episodes": 4, "batch": 8, "updates": 2, "widths": (8,)},
    toy_env="cat-world",
    toy_steps=64,
    resolve=_resolved,
)

__all__ = ["ENTRY", "Cloning", "CloningConfig"]
