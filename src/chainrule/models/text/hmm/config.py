"""Settings of the hidden Markov model."""

from typing import Literal, final

from pydantic import Field

from chainrule.models.protocol import Config


@final
class HMMConfig(Config):
    """Settings of the hidden Markov model."""

    states: int = Field(4, ge=1, le=256, description="hidden states; texts: 32")
    covariance: Literal["full", "diagonal"] = Field(
        "full", description="of the features of a step within a state; diagonal: independent"
    )
    pseudo_count: float = Field(
        0.0,
        ge=0,
        description="added to the expected number of every start, move, level and token: keeps all of them possible; "
        "texts: 0.1",
    )
    tolerance: float = Field(
        1e-5,
        gt=0,
        description="gain of log-likelihood below which iterations end, nats a step of a series; texts: 1e-4",
    )


__all__ = ["HMMConfig"]
