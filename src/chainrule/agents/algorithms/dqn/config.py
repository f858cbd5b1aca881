"""Settings of deep Q-learning, and whether they go together."""

from typing import Literal, final

from pydantic import Field

from chainrule.agents.learning.replay_settings import check_multiple, check_replay
from chainrule.agents.learning.returns import CategoricalReturns, ExpectedReturns, QuantileReturns, Returns
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config


@final
class DQNConfig(Config):
    """Deep Q-learning with double targets; what else has been added to it over the years is off unless asked for."""

    widths: tuple[int, ...] = Field(
        (120, 84), min_length=1, description="units of each dense layer; pictures have a network of their own"
    )
    learning_rate: float = Field(2.5e-4, gt=0, le=1, description="of Adam")
    gamma: float = Field(0.99, ge=0, le=1, description="discount of rewards")
    environments: int = Field(1, ge=1, le=65536, description="worlds side by side")
    buffer: int = Field(10_000, ge=1, description="latest steps that are kept to learn from")
    batch: int = Field(128, ge=1, description="steps drawn for an update")
    learning_start: int = Field(10_000, ge=0, description="steps before the first update")
    update_every: int = Field(10, ge=1, description="steps between two updates")
    target_every: int = Field(500, ge=1, description="steps between two copies to the network of the targets")
    polyak: float = Field(
        0,
        ge=0,
        le=1,
        description="share by which targets follow in every update; 0 copies now and then instead",
    )
    epsilon_start: float = Field(1, ge=0, le=1, description="share of random actions in the beginning")
    epsilon_end: float = Field(0.05, ge=0, le=1, description="share of random actions in the end")
    exploration: float = Field(
        0.5, ge=0, le=1, description="part of the training over which random actions become fewer"
    )
    double: bool = Field(
        True,
        description="targets take the best action from the network that learns, its value from the old one",
    )
    dueling: bool = Field(False, description="heads of their own for the state and for what actions add")
    n_step: int = Field(
        1, ge=1, le=1000, description="rewards that a target sums before it relies on a value"
    )
    loss: Literal["squared", "huber"] = Field("squared", description="of expected returns")
    returns: Literal["expected", "categorical", "quantile"] = Field(
        "expected",
        description="what is learnt: the mean return, or its distribution, by masses or by quantiles",
    )
    atoms: int = Field(51, ge=2, le=1000, description="returns with a mass, or quantiles, of a distribution")
    lowest: float = Field(-10, ge=-1e9, le=1e9, description="smallest return with a mass (categorical)")
    highest: float = Field(10, ge=-1e9, le=1e9, description="largest return with a mass (categorical)")
    replay: Literal["uniform", "prioritised"] = Field("uniform", description="how steps are drawn")
    priority: float = Field(
        0.6, ge=0, le=1, description="power of an error that makes its priority; 0 is uniform"
    )
    importance: float = Field(
        0.4, ge=0, le=1, description="power of importance weights in the beginning; 1 in the end"
    )


def returns_of(config: DQNConfig) -> Returns:
    """What networks say about returns."""
    match config.returns:
        case "categorical":
            if config.lowest >= config.highest:
                raise ArgumentError(
                    f"lowest={config.lowest:g}, highest={config.highest:g}: the largest return must lie above"
                )
            return CategoricalReturns(config.lowest, config.highest, config.atoms)
        case "quantile":
            return QuantileReturns(config.atoms)
        case "expected":
            return ExpectedReturns(robust=config.loss == "huber")


def check(config: DQNConfig, steps: int) -> None:
    """Refuse settings that do not go together, or not with so many steps of training."""
    check_replay(
        steps,
        environments=config.environments,
        buffer=config.buffer,
        batch=config.batch,
        learning_start=config.learning_start,
        update_every=config.update_every,
    )
    check_multiple("target_every", config.target_every, "update_every", config.update_every)
    if config.n_step * config.environments > config.buffer:
        raise ArgumentError(
            f"n_step={config.n_step}: so many steps of each world exceed the buffer",
            remedy=f"set buffer to {config.n_step * config.environments} at least",
        )


__all__ = ["DQNConfig", "check", "returns_of"]
