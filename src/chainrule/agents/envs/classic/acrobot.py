"""Acrobot: swing the free end of two links up by torques at the joint between them (Sutton, 1996).

The equations of motion are those of Sutton and Barto's book, integrated by one classical Runge-Kutta step.
"""

from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import Environment, HasDrawing, TimeStep
from chainrule.agents.envs.drawing import Circle, Drawing, Line
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn.ode import runge_kutta_step


class AcrobotParams(NamedTuple):
    """Numbers of the world, in SI units; the first link hangs from a fixed joint, the second from its end."""

    gravity: Annotated[float, Field(ge=0, description="m/s²")] = 9.8
    length: Annotated[float, Field(gt=0, description="of the first link, in m")] = 1.0
    mass_1: Annotated[float, Field(gt=0, description="of the first link, in kg")] = 1.0
    mass_2: Annotated[float, Field(gt=0, description="of the second link, in kg")] = 1.0
    centre_1: Annotated[float, Field(gt=0, description="of mass of the first link, from its joint, in m")] = (
        0.5
    )
    centre_2: Annotated[
        float, Field(gt=0, description="of mass of the second link, from its joint, in m")
    ] = 0.5
    inertia: Annotated[float, Field(gt=0, description="of each link about its centre, in kg m²")] = 1.0
    torque: Annotated[float, Field(gt=0, description="of an action, in N m")] = 1.0
    seconds: Annotated[float, Field(gt=0, description="length of a step")] = 0.2
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 500


class AcrobotState(NamedTuple):
    """Angle of the first link from hanging, of the second from the first, their velocities; and steps so far."""

    x: Float[Array, "4"]
    t: Int[Array, ""]


_MOST_SPEED = np.array([4 * np.pi, 9 * np.pi])
_START = 0.1
_SIZE, _PIXELS = 200, 42
"""Size of a drawing, and of the first link in it."""


@final
class Acrobot(Environment[AcrobotState], HasDrawing):
    """Torques -1, 0, 1; a reward of -1 for every step until the free end is one length above the fixed joint."""

    params: AcrobotParams = AcrobotParams()

    @property
    def observation_space(self) -> Box:
        high = np.array([1, 1, 1, 1, *_MOST_SPEED])
        return Box(-high, high)

    @property
    def action_space(self) -> Discrete:
        return Discrete(3)

    def begin(self, key: Key, params: AcrobotParams) -> tuple[AcrobotState, Array]:
        del params
        x = jax.random.uniform(key, (4,), minval=-_START, maxval=_START)
        return AcrobotState(x, jnp.zeros((), jnp.int32)), _seen(x)

    def advance(self, key: Key, state: AcrobotState, action: Array, params: AcrobotParams) -> TimeStep:
        del key
        torque = params.torque * (action - 1)

        def slope(_: Array, x: Array) -> Array:
            return _motion(x, torque, params)

        x = runge_kutta_step(slope, jnp.zeros(()), state.x, params.seconds)
        angles = (x[:2] + np.pi) % (2 * np.pi) - np.pi
        speeds = jnp.clip(x[2:], -_MOST_SPEED.astype(x.dtype), _MOST_SPEED.astype(x.dtype))
        x, t = jnp.concatenate([angles, speeds]), state.t + 1
        terminated = -jnp.cos(angles[0]) - jnp.cos(angles.sum()) > 1
        truncated = (t >= params.limit) & ~terminated
        reward = jnp.where(terminated, 0.0, -1.0)
        return TimeStep(AcrobotState(x, t), _seen(x), reward, terminated, truncated, {})

    def render(self, state: AcrobotState, params: AcrobotParams | None = None) -> Drawing:
        del params
        first, second = (float(angle) for angle in np.asarray(state.x)[:2])
        joint = (_SIZE / 2, _SIZE / 2)
        elbow = (joint[0] + _PIXELS * np.sin(first), joint[1] + _PIXELS * np.cos(first))
        hand = (elbow[0] + _PIXELS * np.sin(first + second), elbow[1] + _PIXELS * np.cos(first + second))
        height = joint[1] - _PIXELS
        return Drawing(
            _SIZE,
            _SIZE,
            (
                Line(((0, height), (_SIZE, height)), "mark", 1.5),
                Line((joint, elbow), "1", 8),
                Line((elbow, hand), "2", 8),
                Circle(*joint, 5, "ink"),
                Circle(*elbow, 5, "ink"),
            ),
            "two links, and the height to reach",
        )


def _seen(x: Array) -> Array:
    cos, sin = jnp.cos(x[:2]), jnp.sin(x[:2])
    return jnp.stack([cos[0], sin[0], cos[1], sin[1], x[2], x[3]])


def _motion(x: Array, torque: Array, params: AcrobotParams) -> Array:
    """Velocities and accelerations of the two angles."""
    first, second, speed, bending = x
    m1, m2, g = params.mass_1, params.mass_2, params.gravity
    length, c1, c2, inertia = params.length, params.centre_1, params.centre_2, params.inertia
    sin = jnp.sin(second)
    coupling = m2 * length * c2
    inertia_2 = m2 * c2**2 + inertia
    mixed = inertia_2 + coupling * jnp.cos(second)
    inertia_1 = m1 * c1**2 + m2 * length**2 + inertia + 2 * mixed - inertia_2
    pull_2 = m2 * c2 * g * jnp.sin(first + second)
    pull_1 = (m1 * c1 + m2 * length) * g * jnp.sin(first) + pull_2
    pull_1 -= coupling * bending * (bending + 2 * speed) * sin
    share = mixed / inertia_1
    bent = (torque + share * pull_1 - coupling * speed**2 * sin - pull_2) / (inertia_2 - share * mixed)
    return jnp.stack([speed, bending, -(mixed * bent + pull_1) / inertia_1, bent])


ENTRY = EnvironmentEntry(
    Acrobot,
    "swing the free end of two links up by torques at the joint between them",
    "Sutton (1996), Generalization in reinforcement learning: successful examples using sparse coarse coding",
    random_return=-498.6,
    threshold=-100.0,
)

__all__ = ["ENTRY", "Acrobot", "AcrobotParams", "AcrobotState"]
