"""Cart pole: push a cart left or right so that the pole on it stays up (Barto, Sutton and Anderson, 1983)."""

import math
from typing import Annotated, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.agents.envs.base import Environment, HasDrawing, TimeStep
from chainrule.agents.envs.drawing import Circle, Drawing, Line, Rectangle
from chainrule.agents.envs.entry import EnvironmentEntry
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.core.types import Array, Float, Int, Key


class CartPoleParams(NamedTuple):
    """Numbers of the world, in SI units."""

    gravity: Annotated[float, Field(ge=0, description="m/s²")] = 9.8
    cart_mass: Annotated[float, Field(gt=0, description="kg")] = 1.0
    pole_mass: Annotated[float, Field(gt=0, description="kg")] = 0.1
    half_length: Annotated[float, Field(gt=0, description="of the pole, in m")] = 0.5
    force: Annotated[float, Field(gt=0, description="of a push, in N")] = 10.0
    seconds: Annotated[float, Field(gt=0, description="length of a step")] = 0.02
    limit: Annotated[int, Field(ge=1, description="steps after which an episode is cut off")] = 500


class CartPoleState(NamedTuple):
    """Position, velocity, angle, angular velocity; and how many steps the episode has had."""

    x: Float[Array, "4"]
    t: Int[Array, ""]


_MOST_X = 2.4
_MOST_ANGLE = 12 * np.pi / 180
_START = 0.05
_WIDTH, _HEIGHT, _PIXELS = 300, 150, 60
"""Size of a drawing, and of a metre in it."""


@final
class CartPole(Environment[CartPoleState], HasDrawing):
    """Two actions, left and right; a reward of 1 for every step, until cart or pole are too far out."""

    params: CartPoleParams = CartPoleParams()

    @property
    def observation_space(self) -> Box:
        high = np.array([2 * _MOST_X, np.inf, 2 * _MOST_ANGLE, np.inf])
        return Box(-high, high)

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: Key, params: CartPoleParams) -> tuple[CartPoleState, Array]:
        del params
        x = jax.random.uniform(key, (4,), minval=-_START, maxval=_START)
        return CartPoleState(x, jnp.zeros((), jnp.int32)), x

    def advance(self, key: Key, state: CartPoleState, action: Array, params: CartPoleParams) -> TimeStep:
        del key
        _, velocity, angle, spin = state.x
        force = jnp.where(action == 1, params.force, -params.force)
        total = params.cart_mass + params.pole_mass
        sin, cos = jnp.sin(angle), jnp.cos(angle)
        pushed = (force + params.pole_mass * params.half_length * spin**2 * sin) / total
        turning = (params.gravity * sin - cos * pushed) / (
            params.half_length * (4 / 3 - params.pole_mass * cos**2 / total)
        )
        moving = pushed - params.pole_mass * params.half_length * turning * cos / total
        # Explicit Euler: positions move by the velocities before the step.
        x = state.x + params.seconds * jnp.stack([velocity, moving, spin, turning])
        t = state.t + 1
        terminated = (jnp.abs(x[0]) > _MOST_X) | (jnp.abs(x[2]) > _MOST_ANGLE)
        truncated = (t >= params.limit) & ~terminated
        return TimeStep(CartPoleState(x, t), x, jnp.ones(()), terminated, truncated, {})

    def render(self, state: CartPoleState, params: CartPoleParams | None = None) -> Drawing:
        params = self.params if params is None else params
        x, _, angle, _ = (float(part) for part in np.asarray(state.x))
        middle, ground = _WIDTH / 2 + _PIXELS * x, 0.8 * _HEIGHT
        joint = (middle, ground - 22)
        reach = min(2 * _PIXELS * float(params.half_length), joint[1] - 8)
        tip = (joint[0] + reach * math.sin(angle), joint[1] - reach * math.cos(angle))
        ends = [_WIDTH / 2 + side * _PIXELS * _MOST_X for side in (-1, 1)]
        return Drawing(
            _WIDTH,
            _HEIGHT,
            (
                Line(((0, ground), (_WIDTH, ground)), "axis", 2),
                *(Line(((end, ground - 5), (end, ground + 5)), "mark", 2) for end in ends),
                *(Circle(middle + side, ground - 4, 4, "soft") for side in (-13, 13)),
                Rectangle(middle - 24, ground - 24, 48, 18, "1", 3),
                Line((joint, tip), "2", 6),
                Circle(*joint, 4, "ink"),
            ),
            "a cart with a pole",
        )


ENTRY = EnvironmentEntry(
    CartPole,
    "push a cart left or right so that the pole on it stays up",
    "Barto, Sutton and Anderson (1983), Neuronlike adaptive elements that can solve difficult learning control "
    "problems",
    random_return=22.5,
    optimal_return=500.0,
    threshold=475.0,
)

__all__ = ["ENTRY", "CartPole", "CartPoleParams", "CartPoleState"]
