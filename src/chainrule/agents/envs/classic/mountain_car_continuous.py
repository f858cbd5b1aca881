"""Mountain car with a continuous throttle, where fuel costs and only arriving pays (Moore, 1990)."""

from typing import Annotated, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import Environment, HasDrawing, TimeStep
from chainrule.agents.envs.drawing import Drawing
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.hills import (
    HIGH,
    LOW,
    MOST_SPEED,
    MountainCarState,
    at_the_bottom,
    drawn_car,
    driven,
    valley_plane,
)
from chainrule.agents.envs.planes import HasPlane, StatePlane
from chainrule.agents.envs.spaces import Box
from chainrule.core.types import Array, Float, Key


class MountainCarContinuousParams(NamedTuple):
    """Numbers of the world; lengths and times have no units."""

    power: Annotated[float, Field(gt=0, description="of the engine at full throttle")] = 0.0015
    gravity: Annotated[float, Field(ge=0, description="at the steepest slope")] = 0.0025
    goal: Annotated[float, Field(gt=LOW, lt=HIGH, description="position to reach")] = 0.45
    goal_speed: Annotated[float, Field(le=MOST_SPEED, description="to have there, at least")] = 0.0
    fuel: Annotated[float, Field(ge=0, description="price of a step at full throttle")] = 0.1
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 999


@final
class MountainCarContinuous(Environment[MountainCarState], HasDrawing, HasPlane):
    """A throttle between -1 and 1; fuel costs its square, and arriving is worth 100."""

    params: MountainCarContinuousParams = MountainCarContinuousParams()

    @property
    def observation_space(self) -> Box:
        return Box(np.array([LOW, -MOST_SPEED]), np.array([HIGH, MOST_SPEED]))

    @property
    def action_space(self) -> Box:
        return Box(-1, 1, (1,))

    def begin(self, key: Key, params: MountainCarContinuousParams) -> tuple[MountainCarState, Array]:
        del params
        return at_the_bottom(key)

    def advance(
        self, key: Key, state: MountainCarState, action: Array, params: MountainCarContinuousParams
    ) -> TimeStep:
        del key
        throttle = action[0]
        x = driven(state.x, params.power * jnp.clip(throttle, -1, 1), params.gravity)
        t = state.t + 1
        terminated = (x[0] >= params.goal) & (x[1] >= params.goal_speed)
        truncated = (t >= params.limit) & ~terminated
        reward = jnp.where(terminated, 100.0, 0.0) - params.fuel * throttle**2
        return TimeStep(MountainCarState(x, t), x, reward, terminated, truncated, {})

    def render(self, state: MountainCarState, params: MountainCarContinuousParams | None = None) -> Drawing:
        params = self.params if params is None else params
        return drawn_car(float(state.x[0]), float(params.goal))

    def plane(self) -> StatePlane:
        return valley_plane()

    def coordinates(self, states: MountainCarState) -> Float[np.ndarray, "n 2"]:
        return np.asarray(states.x)


ENTRY = EnvironmentEntry(
    MountainCarContinuous,
    "drive an underpowered car out of a valley by a continuous throttle, sparing fuel",
    "Moore (1990), Efficient memory-based learning for robot control",
    random_return=-33.2,
    threshold=90.0,
)

__all__ = ["ENTRY", "MountainCarContinuous", "MountainCarContinuousParams"]
