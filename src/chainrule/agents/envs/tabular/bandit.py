"""Bandit: arms of unknown mean reward, drawn anew for every episode (the testbed of Sutton and Barto's book)."""

from typing import Annotated, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import Environment, HasDrawing, TimeStep
from chainrule.agents.envs.drawing import Drawing, Line, Rectangle, Shape, Text
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.spaces import Discrete
from chainrule.core.types import Array, Float, Int, Key

_WIDTH, _HEIGHT, _MOST = 24, 120, 3.0


class BanditParams(NamedTuple):
    """How the arms are drawn."""

    mean: Annotated[float, Field(description="of the arms' means")] = 0.0
    spread: Annotated[float, Field(ge=0, description="standard deviation of the arms' means")] = 1.0
    noise: Annotated[
        float, Field(ge=0, description="standard deviation of a reward around its arm's mean")
    ] = 1.0
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 1000


class BanditState(NamedTuple):
    """The arms' means, which are not seen; and how many steps the episode has had."""

    means: Float[Array, "arms"]
    t: Int[Array, ""]


@final
class Bandit(Environment[BanditState], HasDrawing):
    """Pull one of the arms; there is nothing to see but the rewards."""

    arms: Annotated[int, Field(ge=1, le=100_000, description="how many there are")] = eqx.field(
        static=True, default=10
    )
    params: BanditParams = BanditParams()

    @property
    def observation_space(self) -> Discrete:
        return Discrete(1)

    @property
    def action_space(self) -> Discrete:
        return Discrete(self.arms)

    def begin(self, key: Key, params: BanditParams) -> tuple[BanditState, Array]:
        means = params.mean + params.spread * jax.random.normal(key, (self.arms,))
        return BanditState(means, jnp.zeros((), jnp.int32)), jnp.zeros((), jnp.int32)

    def advance(self, key: Key, state: BanditState, action: Array, params: BanditParams) -> TimeStep:
        reward = state.means[action] + params.noise * jax.random.normal(key)
        t = state.t + 1
        regret = state.means.max() - state.means[action]
        return TimeStep(
            BanditState(state.means, t),
            jnp.zeros((), jnp.int32),
            reward,
            jnp.zeros((), bool),
            t >= jnp.asarray(params.limit),
            {"regret": regret},
        )

    def render(self, state: BanditState, params: BanditParams | None = None) -> Drawing:
        del params
        means = np.asarray(state.means)[:40]
        middle = _HEIGHT / 2
        shapes: list[Shape] = [Line(((0, middle), (_WIDTH * len(means), middle)), "axis", 1)]
        for arm, mean in enumerate(means):
            height = min(abs(float(mean)) / _MOST, 1.0) * (middle - 14)
            top = middle - height if mean > 0 else middle
            color = "2" if arm == int(means.argmax()) else "1"
            shapes.append(Rectangle(_WIDTH * arm + 4, top, _WIDTH - 8, height, color, 1))
            shapes.append(Text(_WIDTH * (arm + 0.5), _HEIGHT - 7, str(arm), "soft", 9))
        return Drawing(_WIDTH * len(means), _HEIGHT, tuple(shapes), "mean rewards of the arms")


ENTRY = EnvironmentEntry(
    Bandit,
    "pull one of ten arms whose mean rewards are unknown",
    "Sutton and Barto (2018), Reinforcement Learning: An Introduction, section 2.3",
    random_return=0.0,
    optimal_return=1538.8,
)

__all__ = ["ENTRY", "Bandit", "BanditParams", "BanditState"]
