"""Settings of self-play, and the sizes that follow from them and a game."""

from typing import Literal, NamedTuple, final

from pydantic import Field

from chainrule.agents.policy_value.sizing import BlocksSetting, BodySetting, WidthSetting
from chainrule.agents.policy_value.training import TrainingHyper
from chainrule.core.settings import Config
from chainrule.core.types import Array

GUMBEL_UP_TO = 64
"""Simulations up to which visit counts say too little of a policy, so that Gumbel's search serves better."""


@final
class AlphaZeroConfig(Config):
    """Settings of AlphaZero."""

    network: BodySetting = "auto"
    blocks: BlocksSetting = 0
    width: WidthSetting = 0
    start: str = Field(
        "",
        description="a run of imitation or alphazero whose network training begins with; none: with nothing",
    )
    simulations: int = Field(32, ge=1, le=100_000, description="simulations for every move of self-play")
    search: Literal["auto", "gumbel", "puct"] = Field(
        "auto", description="how moves are searched (auto: gumbel for up to 64 simulations)"
    )
    exploration: float = Field(1.0, gt=0, le=100, description="factor of the prior in the search by puct")
    noise: float = Field(
        0.25, ge=0, le=1, description="share of Dirichlet noise in the prior at the root (puct)"
    )
    concentration: float = Field(
        0.0, ge=0, le=100, description="of that noise; 0: 10 over the number of typical legal moves"
    )
    exploring: int = Field(
        30,
        ge=0,
        le=100_000,
        description="moves at the beginning of a game that are drawn; later ones are the best",
    )
    opening: int = Field(
        4, ge=0, le=1000, description="at most so many moves at the beginning of a game are made at random"
    )
    games: int = Field(128, ge=1, le=2**20, description="games side by side")
    moves: int = Field(16, ge=1, le=100_000, description="moves of every game between trainings")
    limit: int = Field(
        0, ge=0, le=2**20, description="moves after which a game is cut off and has no outcome; 0: none"
    )
    window: int = Field(32_768, ge=1, le=2**26, description="most recent positions that are learnt from")
    batch: int = Field(256, ge=2, le=2**20, description="positions of an update")
    updates: int = Field(16, ge=1, le=2**20, description="updates of the weights between self-play")
    learning_rate: float = Field(1e-3, gt=0, le=1, description="of Adam")
    decay: float = Field(1e-4, ge=0, le=1, description="factor of the squared weights in the loss")
    average: float = Field(
        0.99, ge=0, lt=1, description="share of the old in the average of weights that plays in earnest"
    )
    resign: float = Field(
        0.0, ge=0, lt=1, description="give up below minus this value; 0: never. One game in ten is played on"
    )
    gating: bool = Field(
        False,
        description="the best network plays; a candidate takes its place by winning a match (AlphaGo Zero)",
    )
    gate_every: int = Field(1000, ge=1, le=2**24, description="updates between matches")
    gate_games: int = Field(400, ge=2, le=2**16, multiple_of=2, description="games of a match")
    gate_share: float = Field(0.55, ge=0.5, le=1, description="share of the points that it takes to win one")
    match_opening: int = Field(
        4,
        ge=0,
        le=1000,
        multiple_of=2,
        description="moves at the beginning of a match's games that are made at random, so that games differ",
    )


class AlphaZeroHyper(NamedTuple):
    """Settings that are numbers, as far as runs side by side may differ in them."""

    training: TrainingHyper
    resign: Array | float


def hyper_of(config: AlphaZeroConfig) -> AlphaZeroHyper:
    """The settings that are numbers."""
    return AlphaZeroHyper(TrainingHyper(config.learning_rate, config.decay, config.average), config.resign)


__all__ = ["GUMBEL_UP_TO", "AlphaZeroConfig", "AlphaZeroHyper", "hyper_of"]
