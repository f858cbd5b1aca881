"""Settings of the soft actor-critic."""

from typing import final

from pydantic import Field

from chainrule.agents.learning.continuous import ContinuousConfig


@final
class SACConfig(ContinuousConfig):
    """Soft actor-critic with two critics and a temperature that is learnt."""

    temperature: float = Field(
        1.0, gt=0, le=1e6, description="what a nat of entropy is worth in the beginning"
    )
    entropy: float | None = Field(
        None,
        ge=-1e6,
        le=1e6,
        description="entropy to keep, in nats; minus the number of actions unless given",
    )


__all__ = ["SACConfig"]
