"""Settings of the training of an agent that are not the algorithm's own."""

from typing import Any, final

import pydantic
from pydantic import Field

from chainrule.models import explain
from chainrule.train.tuning import FrozenSettings


@final
class AgentConfig(FrozenSettings):
    """How long an agent learns, how many of them side by side, and when they are judged and saved."""

    steps: int = Field(100_000, ge=1, description="steps of the environment that one agent takes")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of all that is random")
    seeds: int = Field(
        1,
        ge=1,
        le=65536,
        description="agents that learn side by side, each from a seed of its own, so that curves have error bands",
    )
    minutes: float | None = Field(
        None, gt=0, le=1e6, description="stop after so many minutes; the run can be resumed"
    )
    eval_every: int | None = Field(
        None, ge=1, description="steps between two evaluations; a tenth of the run unless told"
    )
    eval_episodes: int = Field(
        20, ge=1, le=10_000, description="episodes by which an agent is judged, the same every time"
    )
    log_every: int | None = Field(
        None, ge=1, description="steps between two lines of metrics; a hundredth of the run unless told"
    )
    save_every: int | None = Field(
        None, ge=1, description="steps between two checkpoints; a tenth of the run unless told"
    )
    keep: int = Field(2, ge=1, le=1000, description="newest checkpoints that are kept, beside the best")

    @classmethod
    def parse(cls, **settings: Any) -> "AgentConfig":
        """Validated settings.

        >>> AgentConfig.parse(step=3)
        Traceback (most recent call last):
        chainrule.core.errors.ArgumentError: unknown setting 'step' (did you mean 'steps'?)
               settings of agents: chainrule train ppo --help
        """
        try:
            return cls(**settings)
        except pydantic.ValidationError as error:
            raise explain(error, cls, "settings of agents: chainrule train ppo --help") from None


__all__ = ["AgentConfig"]
