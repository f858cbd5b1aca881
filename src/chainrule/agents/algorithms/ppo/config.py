"""Settings of proximal policy optimisation, and what those left open become for an environment."""

import math
from typing import Any, Literal, final

import jax
import pydantic

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.spaces import Box
from chainrule.agents.learning.on_policy import PolicyConfig
from chainrule.core.errors import ArgumentError


@final
class PPOConfig(PolicyConfig):
    """Settings left open depend on the actions, discrete or continuous, and on the device."""

    environments: int | None = pydantic.Field(
        default=None,
        ge=1,
        description="worlds side by side; 4 (64 on accelerators), 1 for continuous actions",
    )
    length: int | None = pydantic.Field(
        default=None,
        ge=1,
        description="steps of each world in an iteration; 128 (32 on accelerators), 2048 for continuous actions",
    )
    epochs: int | None = pydantic.Field(
        default=None, ge=1, description="passes over each rollout; 4, 10 for continuous actions"
    )
    minibatches: int | None = pydantic.Field(
        default=None, ge=1, description="parts that a pass is cut into; 4, 32 for continuous actions"
    )
    learning_rate: float | None = pydantic.Field(
        default=None,
        gt=0,
        le=1,
        description="of Adam, at the start; 2.5e-4 (1e-3 with the worlds of accelerators), 3e-4 for continuous actions",
    )
    decay: float = pydantic.Field(default=0.95, ge=0, le=1, description="lambda of generalised advantages")
    clip: float = pydantic.Field(
        default=0.2, gt=0, le=10, description="how far ratios of probabilities are rewarded for moving"
    )
    entropy: float | None = pydantic.Field(
        default=None, ge=0, le=10, description="weight of the entropy bonus; 0.01, 0 for continuous actions"
    )
    value_weight: float = pydantic.Field(default=0.5, ge=0, le=100, description="weight of the value's loss")
    value_clip: bool = pydantic.Field(
        default=True, description="bound how far values move in an iteration too"
    )
    normalise: bool = pydantic.Field(default=True, description="normalise advantages in every minibatch")
    target_kl: float | None = pydantic.Field(
        default=None,
        gt=0,
        le=100,
        description="stop passes over a rollout once the policy has moved so far, in nats",
    )
    memory: Literal["none", "gru", "lstm"] = pydantic.Field(
        default="none", description="a recurrent layer, for what one observation does not tell"
    )
    start: str = pydantic.Field(
        default="",
        description="a run of behaviour-cloning or ppo whose network training begins with; none: with nothing",
    )
    hidden: int = pydantic.Field(default=64, ge=1, le=65536, description="units of the recurrent layer")


def resolved(config: PPOConfig, env: Environment[Any]) -> PPOConfig:
    """The settings with those left open filled in, for an environment, checked together."""
    if isinstance(env.action_space, Box):
        own: dict[str, Any] = {"environments": 1, "length": 2048, "epochs": 10, "minibatches": 32}
        own |= {"learning_rate": 3e-4, "entropy": 0.0}
    else:
        small = jax.default_backend() == "cpu"
        own = {
            "environments": 4 if small else 64,
            "length": 128 if small else 32,
            "epochs": 4,
            "minibatches": 4,
        }
        # Four times as many steps for each update: with the rate of few worlds CartPole is not solved in 500,000.
        many = not small and config.environments is None and config.length is None
        own |= {"learning_rate": 1e-3 if many else 2.5e-4, "entropy": 0.01}
    if config.memory != "none" and config.minibatches is None:
        own["minibatches"] = math.gcd(own["minibatches"], config.environments or own["environments"])
    given = {name: value for name in own if (value := getattr(config, name)) is not None}
    config = config.model_copy(update=own | given)
    _check_minibatches(config)
    return config


def _check_minibatches(config: PPOConfig) -> None:
    environments, length, parts = (
        int(x or 1) for x in (config.environments, config.length, config.minibatches)
    )
    recurrent = config.memory != "none"
    examples = environments if recurrent else environments * length
    if examples % parts == 0:
        return
    fitting = [n for n in range(1, examples + 1) if examples % n == 0]
    below = max(n for n in fitting if n < parts) if parts > 1 else 1
    above = min((n for n in fitting if n > parts), default=examples)
    what = (
        f"{environments} worlds, each a sequence,"
        if recurrent
        else f"{environments} x {length} = {examples} steps"
    )
    raise ArgumentError(
        f"minibatches={parts}: {what} cannot be cut into {parts} equal parts",
        remedy=f"nearest that fit: {' and '.join(str(n) for n in sorted({below, above}))}",
    )


__all__ = ["PPOConfig", "resolved"]
