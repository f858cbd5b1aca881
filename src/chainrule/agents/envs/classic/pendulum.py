"""Pendulum: swing a rod up and hold it there, by a torque too weak to lift it at once."""

from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import Environment, HasDrawing, TimeStep
from chainrule.agents.envs.drawing import Circle, Drawing, Line
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.planes import HasPlane, StatePlane, continuous_plane
from chainrule.agents.envs.spaces import Box
from chainrule.core.types import Array, Float, Int, Key


class PendulumParams(NamedTuple):
    """Numbers of the world, in SI units."""

    gravity: Annotated[float, Field(ge=0, description="m/s²")] = 10.0
    mass: Annotated[float, Field(gt=0, description="kg")] = 1.0
    length: Annotated[float, Field(gt=0, description="m")] = 1.0
    seconds: Annotated[float, Field(gt=0, description="length of a step")] = 0.05
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 200


class PendulumState(NamedTuple):
    """Angle from upright, angular velocity, the last torque (for drawings); and how many steps so far."""

    x: Float[Array, "2"]
    torque: Float[Array, ""]
    t: Int[Array, ""]


_MOST_TORQUE = 2.0
_MOST_SPEED = 8.0
_SIZE = 160


@final
class Pendulum(Environment[PendulumState], HasDrawing, HasPlane):
    """A torque between -2 and 2 N m; angle, velocity and torque cost their squares; it never ends by itself."""

    params: PendulumParams = PendulumParams()

    @property
    def observation_space(self) -> Box:
        high = np.array([1, 1, _MOST_SPEED])
        return Box(-high, high)

    @property
    def action_space(self) -> Box:
        return Box(-_MOST_TORQUE, _MOST_TORQUE, (1,))

    def begin(self, key: Key, params: PendulumParams) -> tuple[PendulumState, Array]:
        del params
        high = jnp.array([np.pi, 1.0])
        x = jax.random.uniform(key, (2,), minval=-high, maxval=high)
        return PendulumState(x, jnp.zeros(()), jnp.zeros((), jnp.int32)), _seen(x)

    def advance(self, key: Key, state: PendulumState, action: Array, params: PendulumParams) -> TimeStep:
        del key
        angle, speed = state.x
        torque = jnp.clip(action[0], -_MOST_TORQUE, _MOST_TORQUE).astype(angle.dtype)
        upright = (angle + np.pi) % (2 * np.pi) - np.pi
        cost = upright**2 + 0.1 * speed**2 + 0.001 * torque**2
        pull = 1.5 * params.gravity / params.length * jnp.sin(angle)
        speed = speed + params.seconds * (pull + 3 * torque / (params.mass * params.length**2))
        speed = jnp.clip(speed, -_MOST_SPEED, _MOST_SPEED)
        x, t = jnp.stack([angle + params.seconds * speed, speed]), state.t + 1
        truncated = t >= params.limit
        return TimeStep(
            PendulumState(x, torque, t), _seen(x), -cost, jnp.zeros((), bool), jnp.asarray(truncated), {}
        )

    def render(self, state: PendulumState, params: PendulumParams | None = None) -> Drawing:
        del params
        angle, torque = float(state.x[0]), float(state.torque)
        middle, reach = _SIZE / 2, 0.38 * _SIZE
        tip = (middle + reach * np.sin(angle), middle - reach * np.cos(angle))
        # The torque as an arc around the joint, from the top towards the side it pushes to.
        turns = np.linspace(0, torque / _MOST_TORQUE * np.pi / 2, 16)
        arc = [(middle + 18 * np.sin(turn), middle - 18 * np.cos(turn)) for turn in turns]
        return Drawing(
            _SIZE,
            _SIZE,
            (
                Line(((middle, middle), (middle, middle - reach)), "grid", 3),
                Line(((middle, middle), tip), "2", 12),
                Line(arc, "1", 3),
                Circle(middle, middle, 5, "ink"),
            ),
            "a pendulum and its torque",
        )

    def plane(self) -> StatePlane:
        def seen(points: np.ndarray) -> np.ndarray:
            return np.stack([np.cos(points[..., 0]), np.sin(points[..., 0]), points[..., 1]], -1)

        ends = (-np.pi, -_MOST_SPEED), (np.pi, _MOST_SPEED)
        return continuous_plane(("angle from upright", "angular velocity"), *ends, seen)

    def coordinates(self, states: PendulumState) -> Float[np.ndarray, "n 2"]:
        angle, speed = np.asarray(states.x).T
        return np.stack([(angle + np.pi) % (2 * np.pi) - np.pi, speed], -1)


def _seen(x: Array) -> Array:
    return jnp.stack([jnp.cos(x[0]), jnp.sin(x[0]), x[1]])


ENTRY = EnvironmentEntry(
    Pendulum,
    "swing a rod up and hold it there by a weak torque",
    "Doya (2000), Reinforcement learning in continuous time and space",
    random_return=-1225.0,
)

__all__ = ["ENTRY", "Pendulum", "PendulumParams", "PendulumState"]
