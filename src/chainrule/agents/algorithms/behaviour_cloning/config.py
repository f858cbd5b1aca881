"""Settings of behaviour cloning."""

from typing import final

from pydantic import Field

from chainrule.agents.learning.on_policy import PolicyConfig


@final
class CloningConfig(PolicyConfig):
    """Settings of behaviour cloning; whose episodes are learnt from, and how."""

    records: str = Field(
        "", description="a folder of recorded episodes, such as episodes/ of a run; none: those of a teacher"
    )
    teacher: str = Field(
        "",
        description="a run whose best agent plays episodes to learn from; none: the best actions, where few states "
        "let them be computed",
    )
    episodes: int = Field(64, ge=2, le=100_000, description="episodes of the teacher")
    batch: int = Field(256, ge=1, le=2**20, description="steps of an update")
    updates: int = Field(16, ge=1, le=2**20, description="updates of an iteration")
    learning_rate: float = Field(1e-3, gt=0, le=1, description="of Adam, at the start")
    gradient_norm: float = Field(
        1e6,
        gt=0,
        le=1e6,
        description="longest gradient of both networks; values of large returns have long ones",
    )
    value_weight: float = Field(0.5, ge=0, le=100, description="weight of the value's loss")
    held_out: float = Field(
        0.1, gt=0, lt=1, description="share of the episodes that are not learnt from but judged by"
    )


__all__ = ["CloningConfig"]
