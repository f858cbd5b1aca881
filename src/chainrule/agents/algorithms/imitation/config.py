"""Settings of learning from records."""

from typing import Literal, final

from pydantic import Field

from chainrule.agents.policy_value.sizing import BlocksSetting, BodySetting, WidthSetting
from chainrule.core.settings import Config


@final
class ImitationConfig(Config):
    """Settings of imitation."""

    records: str = Field(
        "", description="a file or folder of stored games; none: games of a tree search without a network"
    )
    bad: Literal["refuse", "skip"] = Field(
        "refuse", description="what becomes of games that cannot be read or break the rules"
    )
    network: BodySetting = "auto"
    blocks: BlocksSetting = 0
    width: WidthSetting = 0
    batch: int = Field(256, ge=2, le=2**20, description="positions of an update")
    updates: int = Field(16, ge=1, le=2**20, description="updates of an iteration")
    learning_rate: float = Field(1e-3, gt=0, le=1, description="of Adam")
    decay: float = Field(1e-4, ge=0, le=1, description="factor of the squared weights in the loss")
    average: float = Field(
        0.99, ge=0, lt=1, description="share of the old in the average of weights that is judged"
    )
    held_out: float = Field(
        0.1, gt=0, lt=1, description="share of the games that are not learnt from but judged by"
    )
    teacher_games: int = Field(512, ge=2, le=2**16, description="games of the search, without records")
    teacher_simulations: int = Field(200, ge=1, le=100_000, description="simulations for each of its moves")
    teacher_drawn: int = Field(
        6,
        ge=0,
        le=1000,
        description="moves at the beginning of its games that are drawn, so that games differ",
    )


__all__ = ["ImitationConfig"]
