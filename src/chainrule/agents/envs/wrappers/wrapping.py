"""Wrappers by settings: what `wrap.NAME=` on the command line and `wrappers=` of `fit` put around an environment.

Those that change the world (how long it lasts, what becomes of actions) hold whenever an agent acts; those that change
what is seen hold for the agent alone, and those that change rewards only while it learns (`settled`).
"""

from collections.abc import Mapping
from typing import Any, final

import pydantic
from pydantic import Field

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers.actions import ActionRepeat, StickyActions
from chainrule.agents.envs.wrappers.episodes import TimeLimit
from chainrule.agents.envs.wrappers.observations import FrameStack, NormalizeObservation, vector_observations
from chainrule.agents.envs.wrappers.rewards import ClipReward, NormalizeReward, ScaleReward
from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config
from chainrule.models import explain


@final
class WrapperSettings(Config):
    """What is put around an environment, from the inside out; nothing unless asked for."""

    sticky: float = Field(0, ge=0, le=1, description="how likely the last action is done again")
    repeat: int = Field(1, ge=1, le=10_000, description="how often every action is done")
    limit: int | None = Field(None, ge=1, description="actions after which an episode is cut off")
    reward_clip: float | None = Field(
        None, gt=0, le=1e9, description="largest size of a reward that is learnt from"
    )
    reward_scale: float = Field(1, gt=0, le=1e9, description="factor of rewards that are learnt from")
    normalise_returns: bool = Field(
        False, description="learn from rewards over the deviation of discounted returns so far"
    )
    normalise_observations: bool = Field(
        False, description="show deviations from the mean so far; mean and deviation are saved with the agent"
    )
    frames: int = Field(1, ge=1, le=1000, description="latest observations that are shown at once")

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> "WrapperSettings":
        """Validated settings.

        >>> WrapperSettings.parse({"frame": 4})
        Traceback (most recent call last):
        chainrule.core.errors.ArgumentError: unknown setting 'frame' (did you mean 'frames'?)
               wrappers: sticky, repeat, limit, reward_clip, ...
        """
        try:
            return cls(**settings)
        except pydantic.ValidationError as error:
            raise explain(error, cls, f"wrappers: {', '.join(cls.model_fields)}") from None

    @property
    def change_rewards(self) -> bool:
        """Whether what is learnt from is another number than what is earned."""
        return self.reward_clip is not None or self.reward_scale != 1 or self.normalise_returns

    @property
    def world(self) -> dict[str, Any]:
        """Those that change the world, and so what can be earned in it."""
        return {name: getattr(self, name) for name in ("sticky", "repeat", "limit")}


def changed_world(env: Environment[Any], settings: WrapperSettings) -> Environment[Any]:
    """The environment with its actions and its end as the settings say.

    >>> from chainrule.agents import envs
    >>> env = envs.make("cartpole")
    >>> changed_world(env, WrapperSettings()) is env
    True
    """
    if settings.sticky:
        env = StickyActions(env, settings.sticky)
    if settings.repeat > 1:
        env = ActionRepeat(env, settings.repeat)
    if settings.limit is not None:
        env = TimeLimit(env, settings.limit)
    return env


def wrapped(
    env: Environment[Any], settings: WrapperSettings, *, gamma: float, whole_numbers: bool = False
) -> Environment[Any]:
    """The environment as an agent learns in it: whole numbers as vectors, unless it wants them as they are.

    `gamma` is the discount of returns that are normalised.
    """
    env = changed_world(env, settings)
    if settings.reward_clip is not None:
        env = ClipReward(env, -settings.reward_clip, settings.reward_clip)
    if settings.reward_scale != 1:
        env = ScaleReward(env, settings.reward_scale)
    if settings.normalise_returns:
        env = NormalizeReward(env, gamma)
    if not whole_numbers:
        env = vector_observations(env)
    elif settings.normalise_observations or settings.frames > 1:
        name = "normalise_observations" if settings.normalise_observations else "frames"
        raise ArgumentError(
            f"{name}: a table needs observations that are whole numbers",
            remedy="leave it out, or use dqn or ppo",
        )
    if settings.normalise_observations:
        env = NormalizeObservation(env)
    return FrameStack(env, settings.frames) if settings.frames > 1 else env


__all__ = ["WrapperSettings", "changed_world", "wrapped"]
