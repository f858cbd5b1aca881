"""Trainings that begin with what another run has learnt: the setting `start` of an algorithm."""

from pathlib import Path
from typing import Any, TypeVar

from chainrule.core.settings import Config

Settings = TypeVar("Settings", bound=Config)


def opened(run: str) -> Any:
    """The run of a name or in a folder."""
    # Runs know all algorithms, so that an algorithm can only ask for them when it is used.
    from chainrule.agents.training.run import AgentRun

    return AgentRun.open(run)


def located(config: Settings, *names: str) -> Settings:
    """The settings with the folders of the runs that these of them name, so that they can be repeated anywhere."""
    runs = {
        name: str(Path(opened(getattr(config, name)).path).resolve())
        for name in names
        if getattr(config, name)
    }
    return config.model_copy(update=runs) if runs else config


__all__ = ["located", "opened"]
