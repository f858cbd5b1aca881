"""Mountain car: an engine too weak for the hill has to gather speed on the other one first (Moore, 1990)."""

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
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.core.types import Array, Float, Key


class MountainCarParams(NamedTuple):
    """Numbers of the world; lengths and times have no units."""

    force: Annotated[float, Field(gt=0, description="of the engine")] = 0.001
    gravity: Annotated[float, Field(ge=0, description="at the steepest slope")] = 0.0025
    goal: Annotated[float, Field(gt=LOW, lt=HIGH, description="position to reach")] = 0.5
    goal_speed: Annotated[float, Field(le=MOST_SPEED, description="to have there, at least")] = 0.0
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 200


@final
class MountainCar(Environment[MountainCarState], HasDrawing, HasPlane):
    """Backwards, coast or forwards; a reward of -1 for every step until the goal is reached."""

    params: MountainCarParams = MountainCarParams()

    @property
    def observation_space(self) -> Box:
        return Box(np.array([LOW, -MOST_SPEED]), np.array([HIGH, MOST_SPEED]))

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: Key, params: MountainCarParams) -> tuple[MountainCarState, Array]:
        del params
        return at_the_bottom(key)

    def advance(
        self, key: Key, state: MountainCarState, action: Array, params: MountainCarParams
    ) -> TimeStep:
        del key
        x = driven(state.x, params.force * (action - 1), params.gravity)
        t = state.t + 1
        terminated = (x[0] >= params.goal) & (x[1] >= params.goal_speed)
        truncated = (t >= params.limit) & ~terminated
        return TimeStep(MountainCarState(x, t), x, -jnp.ones(()), terminated, truncated, {})

    def render(self, state: MountainCarState, params: MountainCarParams | None = None) -> Drawing:
        params = self.params if params is None else params
        return drawn_car(float(state.x[0]), float(params.goal))

    def plane(self) -> StatePlane:
        return valley_plane()

    def coordinates(self, states: MountainCarState) -> Float[np.ndarray, "n 2"]:
        return np.asarray(states.x)


ENTRY = EnvironmentEntry(
    MountainCar,
    "drive an underpowered car out of a valley: gather speed on the other hill first",
    "Moore (1990), Efficient memory-based learning for robot control",
    random_return=-200.0,
    threshold=-110.0,
)

__all__ = ["ENTRY", "MountainCar", "MountainCarParams"]
