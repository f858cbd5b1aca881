"""Settings of tabular learning."""

from typing import Literal, final

from pydantic import Field

from chainrule.core.settings import Config


@final
class TabularConfig(Config):
    """Which rule learns, how fast, and how it explores."""

    rule: Literal["q-learning", "sarsa", "expected-sarsa", "double-q", "n-step-sarsa"] = Field(
        "q-learning", description="what a step changes"
    )
    alpha: float = Field(0.5, gt=0, le=1, description="step size; with power above 0 that of the first visit")
    power: float = Field(
        0.0,
        ge=0,
        le=1,
        description="step sizes fall like 1 / visits^power: 0 is constant, 0.6 with alpha=1 converges",
    )
    gamma: float = Field(0.99, ge=0, le=1, description="discount")
    epsilon: float = Field(1.0, ge=0, le=1, description="how often any action is taken, at first")
    epsilon_end: float = Field(0.05, ge=0, le=1, description="and once exploration is over")
    exploration: float = Field(
        0.5, gt=0, le=1, description="share of the training over which epsilon or the temperature falls"
    )
    schedule: Literal["linear", "exponential"] = Field("linear", description="how it falls")
    behaviour: Literal["epsilon-greedy", "softmax"] = Field(
        "epsilon-greedy", description="any action now and then, or better ones more often (softmax)"
    )
    temperature: float = Field(
        1.0, gt=0, le=1e6, description="of softmax, at first: differences of values that hardly count"
    )
    temperature_end: float = Field(0.05, gt=0, le=1e6, description="and once exploration is over")
    initial: float = Field(
        0.0, ge=-1e6, le=1e6, description="values to begin with; high ones make every action worth a try"
    )
    trace: float | None = Field(
        None, ge=0, le=1, description="lambda of eligibility traces, of q-learning, sarsa and expected-sarsa"
    )
    lookahead: int = Field(4, ge=1, le=100, description="steps that n-step-sarsa adds up")
    chunk: int = Field(
        100, ge=1, le=100_000, description="steps of an iteration, after which metrics are taken"
    )


__all__ = ["TabularConfig"]
