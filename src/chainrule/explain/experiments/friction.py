"""Momentum as a rolling ball: the differential equations of descent and acceleration, and the friction they need."""

import itertools
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Picture, Scatter, Table
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Positive, Settings
from chainrule.nn.ode import runge_kutta_step

_STEP = 0.01


_EARLY = 20.0
"""Time up to which iterations are drawn beside the equations."""


@final
class FrictionSettings(Settings):
    """The ball."""

    r: tuple[NonNegative, ...] = Field(
        (1.0, 3.0, 6.0), min_length=1, description="friction r in x'' + (r/s) x' + grad f = 0: r=2 or r=1,3,6"
    )
    curvatures: tuple[Positive, ...] = Field(
        (1.0, 0.02), min_length=1, description="of the quadratic it rolls in"
    )
    time: float = Field(100.0, gt=1, le=1000, description="time of the equations")
    lr: float | None = Field(
        None,
        gt=1e-6,
        description="learning rate of the iterations beside the equations; none: 0.0025/L",
    )


def run(settings: FrictionSettings, listener: Listener) -> Outcome:
    """Follow equations and iterations, and see whether f falls like 1/s², as acceleration promises from r = 3 on."""
    del listener
    lr = _rate(settings)
    ball = _Ball(np.asarray(settings.curvatures), settings.time, lr)
    ways = {"x' = -grad f": _Way(*ball.flow(), *ball.descend())}
    ways |= {f"r = {r:g}": _Way(*ball.roll(r), *ball.accelerate(r)) for r in settings.r}
    rows: list[list[Any]] = []
    for name, way in ways.items():
        slopes = [_trend(t, t**2 * ball.value(x)) for t, x in ((way.s, way.x), (way.t, way.y))]
        rows.append([name, float(ball.value(way.x)[-1]), *slopes, way.distance, bool(slopes[0] <= 0.1)])
    shown: list[list[Any]] = [[*row[:-1], "yes" if row[-1] else "no"] for row in rows]
    steps = {name: len(way.t) for name, way in ways.items()}
    lost = [row[0] for row in rows[1:] if not row[-1]]
    return Outcome(
        [
            f"{name}: f ends at {end:.3g}; the peaks of s² f {'stay bounded' if kept else 'grow'} (slope {slope:+.2f} "
            f"in double logarithms, {of_steps:+.2f} for the iterations); the iterations stay within {apart:.2g} of "
            "the equation."
            for name, end, slope, of_steps, apart, kept in rows
        ]
        + [
            "Below r = 3 the rate 1/s² is lost"
            + (f": here for {', '.join(lost)}." if lost else ".")
            + " On a quadratic f falls like 1/s^r, which shows it below r = 2; between 2 and 3 other convex functions "
            "lose it, such as |x| with 1/s^(2r/3).",
            f"One step of descent takes time lr, one step of momentum time sqrt(lr): to come to s = {settings.time:g} "
            f"at lr = {lr:g} takes {next(iter(steps.values())):,} steps of descent and {steps[rows[-1][0]]:,} of "
            "momentum.",
        ],
        _pictures(ways, ball),
        Table(
            "friction-table",
            "In the end",
            ["equation", "f", "slope of s² f", "of its iterations", "largest distance", "rate 1/s² kept"],
            shown,
        ),
        {
            str(row[0]): {
                **{"f": row[1], "slope": row[2], "slope_of_iterations": row[3]},
                **{"distance": row[4], "kept": row[5], "steps": steps[row[0]]},
            }
            for row in rows
        },
    )


def _rate(settings: FrictionSettings) -> float:
    """The learning rate, which may not be longer than 1/L."""
    longest = 1 / max(settings.curvatures)
    if settings.lr is None:
        return 0.0025 * longest
    if settings.lr > longest:
        raise ArgumentError(
            f"friction(lr={settings.lr:g}): longer than 1/L = {longest:g}, where descent need not go down",
            remedy=f"lr={longest:g} or less, or smaller curvatures",
        )
    return settings.lr


@final
@dataclass(frozen=True)
class _Way:
    """The solution of an equation at times s, and the iterates that follow it at times t."""

    s: np.ndarray
    x: np.ndarray
    t: np.ndarray
    y: np.ndarray

    @property
    def distance(self) -> float:
        """The largest distance of an iterate from the solution at its time."""
        s, x = np.append(0.0, self.s), np.concatenate([np.ones_like(self.x[:1]), self.x])  # all start at ones
        there = np.stack([np.interp(self.t, s, column) for column in x.T], axis=1)
        return float(np.linalg.norm(there - self.y, axis=1).max())


@final
@dataclass(frozen=True)
class _Ball:
    """A function, where the ball starts (at ones), and the four ways down."""

    h: np.ndarray
    time: float
    lr: float

    def value(self, x: np.ndarray) -> np.ndarray:
        """f at some points."""
        return np.asarray(0.5 * (self.h * np.square(x)).sum(axis=-1))

    def flow(self) -> tuple[np.ndarray, np.ndarray]:
        """x' = -grad f, whose solution is known."""
        s = _STEP * np.arange(1, int(self.time / _STEP) + 1)
        return s, np.exp(-self.h * s[:, None])

    def roll(self, r: float) -> tuple[np.ndarray, np.ndarray]:
        """x'' + (r/s) x' + grad f = 0 by the classical Runge-Kutta method; at time zero x'' = -grad f / (1 + r)."""
        h = jnp.asarray(self.h, jnp.float32)

        def slope(s: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            x, v = state
            return v, -r / s * v - h * x

        def step(state: Any, s: jax.Array) -> tuple[Any, jax.Array]:
            state = runge_kutta_step(slope, s, state, _STEP)
            return state, state[0]

        steps = int(self.time / _STEP)
        state = (1 - h * _STEP**2 / (2 * (1 + r)), -h * _STEP / (1 + r))
        times = _STEP * jnp.arange(1, steps, dtype=jnp.float32)
        _, points = jax.jit(lambda state: jax.lax.scan(step, state, times))(state)
        path = np.concatenate([np.asarray(state[0])[None], np.asarray(points)]).astype(np.float64)
        return _STEP * np.arange(1, steps + 1), path

    def descend(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradient descent, whose step t is at time lr t."""
        x, points = np.ones_like(self.h), []
        for _ in range(int(self.time / self.lr)):
            x = x - self.lr * self.h * x
            points.append(x)
        return self.lr * np.arange(1, len(points) + 1), np.array(points)

    def accelerate(self, r: float) -> tuple[np.ndarray, np.ndarray]:
        """Nesterov's iteration with momentum t/(t + r), whose step t is at time sqrt(lr) t."""
        x = before = np.ones_like(self.h)
        points = []
        for t in range(int(self.time / np.sqrt(self.lr))):
            phi = x - self.lr * self.h * x
            x, before = phi + t / max(t + r, 1e-9) * (phi - before), phi
            points.append(phi)
        return np.sqrt(self.lr) * np.arange(1, len(points) + 1), np.array(points)


def _thin(t: np.ndarray, values: np.ndarray, most: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    every = slice(0, None, max(1, len(t) // most))
    return t[every], values[every]


def _pictures(ways: dict[str, _Way], ball: _Ball) -> list[Picture]:
    """Iterations beside equations over time and in the plane; heights, and heights times s²."""
    beside, groups = {}, {}
    steepest = int(np.argmax(ball.h))
    for name, way in ways.items():
        for label, t, x in ((name, way.s, way.x), (f"{name}, iterations", way.t, way.y)):
            t, x = _thin(t[t <= _EARLY], x[t <= _EARLY], 400 if label == name else 60)
            beside[label], groups[label] = (t, x[:, steepest]), x
    caption = "Iterations stand at time lr t for descent and sqrt(lr) t for momentum."
    pictures: list[Picture] = [
        Lines(
            "friction-beside",
            "Iterations beside the equations",
            "time s",
            "x along the steepest direction",
            beside,
            caption=caption,
        )
    ]
    if len(ball.h) == 2:
        title = "The same in the plane"
        pictures.append(Scatter("friction-paths", title, "x", "y", groups, joined=True, caption=caption))
    heights = {name: _thin(way.s, np.maximum(ball.value(way.x), 1e-12)) for name, way in ways.items()}
    scaled = {name: _thin(way.s, way.s**2 * ball.value(way.x)) for name, way in list(ways.items())[1:]}
    return [
        *pictures,
        Lines("friction-value", "Height of the ball", "time s", "f", heights, log_x=True, log_y=True),
        Lines("friction-scaled", "s² f: bounded where the rate is 1/s²", "time s", "s² f", scaled),
    ]


def _trend(s: np.ndarray, values: np.ndarray) -> float:
    """The slope of the upper envelope over the second half of the time, both logarithmic."""
    edges = np.geomspace(s[-1] / 8, s[-1], 7)
    peaks = [values[(s >= a) & (s <= b)].max() for a, b in itertools.pairwise(edges)]
    return float(np.polyfit(np.log(edges[1:]), np.log(np.maximum(peaks, 1e-30)), 1)[0])


experiment = Experiment(
    "Momentum as a ball with friction r/s, iterations beside equations: from r = 3 on f falls like 1/s².",
    FrictionSettings,
    run,
    toy={"time": 5.0, "r": [3.0]},
    reference="Su, Boyd and Candès, JMLR 17, 2016, arXiv:1503.01243",
)

__all__ = ["FrictionSettings", "experiment", "run"]
