"""The valley that mountain cars drive in: height is a sine of position, so that gravity pulls by its cosine."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.envs.drawing import Circle, Drawing, Line, Polygon
from chainrule.agents.envs.planes import StatePlane, continuous_plane
from chainrule.core.types import Array, Float, Int, Key

LOW, HIGH = -1.2, 0.6
MOST_SPEED = 0.07
_WIDTH, _HEIGHT = 300, 180


class MountainCarState(NamedTuple):
    """Position and velocity; and how many steps the episode has had."""

    x: Float[Array, "2"]
    t: Int[Array, ""]


def valley_plane() -> StatePlane:
    """Positions and velocities of a car."""
    ends = (LOW, -MOST_SPEED), (HIGH, MOST_SPEED)
    return continuous_plane(("position", "velocity"), *ends, lambda points: points)


def at_the_bottom(key: Key) -> tuple[MountainCarState, Array]:
    """A car at rest near the bottom, and what is seen of it."""
    position = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
    x = jnp.stack([position, jnp.zeros_like(position)])
    return MountainCarState(x, jnp.zeros((), jnp.int32)), x


def driven(x: Float[Array, "2"], push: Array, gravity: Array | float) -> Float[Array, "2"]:
    """Position and velocity after a push; the left end of the world stops a car."""
    position, velocity = x
    velocity = jnp.clip(velocity + push - gravity * jnp.cos(3 * position), -MOST_SPEED, MOST_SPEED)
    position = jnp.clip(position + velocity, LOW, HIGH)
    stopped = (position <= LOW) & (velocity < 0)
    return jnp.stack([position, jnp.where(stopped, 0, velocity)])


def drawn_car(position: float, goal: float) -> Drawing:
    """A car in the valley, and the flag it has to reach."""

    def at(x: float) -> tuple[float, float]:
        return (_WIDTH * (x - LOW) / (HIGH - LOW), _HEIGHT * (0.9 - 0.35 * (np.sin(3 * x) + 1)))

    valley = [at(x) for x in np.linspace(LOW, HIGH, 61)]
    # Wheels stand on the slope, the body above them, along the slope.
    (left, below), (right, above) = at(position - 0.04), at(position + 0.04)
    along = np.array([right - left, above - below]) / np.hypot(right - left, above - below)
    up = np.array([along[1], -along[0]])
    middle = np.array(at(position))
    wheels = [middle + side * along + 4 * up for side in (-9, 9)]
    body = [middle + side * along + height * up for side, height in ((-15, 6), (15, 6), (12, 16), (-12, 16))]
    flag = np.array(at(goal))
    return Drawing(
        _WIDTH,
        _HEIGHT,
        (
            Polygon((*valley, (_WIDTH, _HEIGHT), (0, _HEIGHT)), "grid"),
            Line(valley, "axis", 2),
            Line((tuple(flag), (flag[0], flag[1] - 30)), "soft", 2),
            Polygon(((flag[0], flag[1] - 30), (flag[0] + 14, flag[1] - 25), (flag[0], flag[1] - 20)), "mark"),
            Polygon([tuple(point) for point in body], "1"),
            *(Circle(wheel[0], wheel[1], 4, "ink") for wheel in wheels),
        ),
        "a car in a valley",
    )


__all__ = [
    "HIGH",
    "LOW",
    "MOST_SPEED",
    "MountainCarState",
    "at_the_bottom",
    "drawn_car",
    "driven",
    "valley_plane",
]
