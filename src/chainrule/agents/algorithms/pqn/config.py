"""Settings of parallel Q-learning."""

from typing import final

from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config


@final
class PQNConfig(Config):
    """Q-learning without a memory of the past: many worlds at once, layer norm, and returns over many steps."""

    environments: int = Field(32, ge=1, le=65536, description="worlds side by side")
    length: int = Field(64, ge=1, le=65536, description="steps of each world in an iteration")
    epochs: int = Field(4, ge=1, le=1000, description="passes over the steps of an iteration")
    minibatches: int = Field(16, ge=1, description="parts that a pass is cut into")
    learning_rate: float = Field(5e-4, gt=0, le=1, description="of rectified Adam, at the start")
    anneal: bool = Field(True, description="let the learning rate fall to 0 over the training")
    gradient_norm: float = Field(10.0, gt=0, le=1e6, description="longest gradient")
    gamma: float = Field(0.99, ge=0, le=1, description="discount of rewards")
    decay: float = Field(0.95, ge=0, le=1, description="lambda of returns: 0 is one step, 1 all of them")
    epsilon_start: float = Field(1, ge=0, le=1, description="share of random actions in the beginning")
    epsilon_end: float = Field(0.05, ge=0, le=1, description="share of random actions in the end")
    exploration: float = Field(
        0.2, ge=0, le=1, description="part of the training over which random actions become fewer"
    )
    dueling: bool = Field(False, description="heads of their own for the state and for what actions add")
    widths: tuple[int, ...] = Field(
        (128, 128),
        min_length=1,
        description="units of each dense layer; pictures have a network of their own",
    )


def check(config: PQNConfig) -> None:
    """Refuse minibatches that the steps of an iteration cannot be cut into."""
    steps = config.environments * config.length
    if steps % config.minibatches:
        fitting = [n for n in range(1, steps + 1) if steps % n == 0]
        near = sorted(fitting, key=lambda n: abs(n - config.minibatches))[:2]
        raise ArgumentError(
            f"minibatches={config.minibatches}: {config.environments} x {config.length} = {steps} steps cannot be "
            "cut into as many equal parts",
            remedy=f"nearest that fit: {' and '.join(str(n) for n in sorted(near))}",
        )


__all__ = ["PQNConfig", "check"]
