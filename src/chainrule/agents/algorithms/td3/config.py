"""Settings of twin delayed policy gradients."""

from typing import final

from pydantic import Field

from chainrule.agents.learning.continuous import ContinuousConfig


@final
class TD3Config(ContinuousConfig):
    """Noise is in units of half the distance between the bounds of an action."""

    exploration: float = Field(
        0.1, ge=0, le=1, description="deviation of the noise on actions while learning"
    )
    smoothing: float = Field(0.2, ge=0, le=1, description="deviation of the noise on actions in targets")
    smoothing_clip: float = Field(0.5, ge=0, le=2, description="largest size of that noise")
    delay: int = Field(2, ge=1, le=1000, description="updates of the critics for one of policy and targets")


__all__ = ["TD3Config"]
