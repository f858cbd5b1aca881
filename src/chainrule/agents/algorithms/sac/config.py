"""Settings of the soft actor-critic."""

from typing import final

from pydantic import Field

from chainrule.agents.learning.replay_settings import check_multiple, check_replay
from chainrule.core.settings import Config


@final
class SACConfig(Config):
    """Soft actor-critic with two critics and a temperature that is learnt."""

    widths: tuple[int, ...] = Field((256, 256), min_length=1, description="units of each dense layer")
    learning_rate: float = Field(3e-4, gt=0, le=1, description="of Adam, for the policy")
    critic_rate: float = Field(1e-3, gt=0, le=1, description="of Adam, for critics and temperature")
    gamma: float = Field(0.99, ge=0, le=1, description="discount of rewards")
    environments: int = Field(1, ge=1, le=65536, description="worlds side by side")
    buffer: int = Field(100_000, ge=1, description="latest steps that are kept to learn from")
    batch: int = Field(256, ge=1, description="steps drawn for an update")
    learning_start: int = Field(1_000, ge=0, description="steps of random actions before the first update")
    update_every: int = Field(1, ge=1, description="steps between two updates")
    polyak: float = Field(0.005, gt=0, le=1, description="share by which targets follow in every update")
    temperature: float = Field(
        1.0, gt=0, le=1e6, description="what a nat of entropy is worth in the beginning"
    )
    entropy: float | None = Field(
        None,
        ge=-1e6,
        le=1e6,
        description="entropy to keep, in nats; minus the number of actions unless given",
    )
    report_every: int = Field(
        500, ge=1, description="steps of an iteration, after which numbers are reported"
    )


def check(config: SACConfig, steps: int) -> None:
    """Refuse settings that do not go together, or not with so many steps of training."""
    check_replay(
        steps,
        environments=config.environments,
        buffer=config.buffer,
        batch=config.batch,
        learning_start=config.learning_start,
        update_every=config.update_every,
    )
    check_multiple("report_every", config.report_every, "update_every", config.update_every)


__all__ = ["SACConfig", "check"]
