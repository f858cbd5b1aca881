"""Wrappers of environments: limits of time, stacked frames, normalisation, sticky actions."""

from typing import Any

import equinox as eqx

from chainrule.agents.envs.base import Environment
from chainrule.agents.envs.wrappers.actions import ActionRepeat, StickyActions
from chainrule.agents.envs.wrappers.base import Wrapper, innermost
from chainrule.agents.envs.wrappers.episodes import EpisodeLog, TimeLimit
from chainrule.agents.envs.wrappers.moments import merged
from chainrule.agents.envs.wrappers.observations import (
    FrameStack,
    NormalizeObservation,
    OneHot,
    vector_observations,
)
from chainrule.agents.envs.wrappers.rewards import ClipReward, NormalizeReward, ScaleReward
from chainrule.agents.envs.wrappers.wrapping import WrapperSettings, changed_world, wrapped


def settled(env: Environment[Any], state: Any) -> Environment[Any]:
    """The environment as a trained agent is judged in it.

    Observations are normalised by the moments in `state`, which no longer change (those of many environments side by
    side are taken together), and rewards are those that are earned: neither clipped, scaled nor normalised.
    """
    if not isinstance(env, Wrapper):
        return env
    inside = settled(env.env, state.inner)
    if isinstance(env, ClipReward | NormalizeReward | ScaleReward):
        return inside
    if isinstance(env, NormalizeObservation):
        return NormalizeObservation(inside, merged(state.moments))
    found: Environment[Any] = eqx.tree_at(lambda one: one.env, env, inside, is_leaf=lambda x: x is env.env)
    return found


__all__ = [
    "ActionRepeat",
    "ClipReward",
    "EpisodeLog",
    "FrameStack",
    "NormalizeObservation",
    "NormalizeReward",
    "OneHot",
    "ScaleReward",
    "StickyActions",
    "TimeLimit",
    "Wrapper",
    "WrapperSettings",
    "changed_world",
    "innermost",
    "settled",
    "vector_observations",
    "wrapped",
]
