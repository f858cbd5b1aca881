"""Momentum as a rolling ball: the differential equations of descent and acceleration, and the friction they need."""

import itertools
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Positive, Settings
from chainrule.nn.ode import runge_kutta_step

_STEP = 0.01


@final
class FrictionSettings(Settings):
    """The ball."""

    r: tuple[NonNegative, ...] = Field(
        (1.0, 3.0, 6.0), min_length=1, description="friction r in x'' + (r/s) x' + grad f = 0"
    )
    curvatures: tuple[Positive, ...] = Field(
        (1.0, 0.02), min_length=1, description="of the quadratic it rolls in"
    )
    time: float = Field(100.0, gt=1, le=1000, description="time of the equations")


def run(settings: FrictionSettings, listener: Listener) -> Outcome:
    """Follow the equations and see whether f falls like 1/s², as acceleration promises from r = 3 on."""
    del listener
    steps = int(settings.time / _STEP)
    h = np.asarray(settings.curvatures)
    start = np.ones_like(h)
    s = _STEP * np.arange(1, steps + 1)
    value = lambda x: 0.5 * (h * np.square(x)).sum(axis=1)  # noqa: E731
    curves = {"x' = -grad f": value(np.exp(-h[None, :] * s[:, None]) * start)}
    for r in settings.r:
        curves[f"r = {r:g}"] = value(_roll(h, start, r, steps))
    every = slice(0, None, max(1, steps // 1000))
    scaled = {name: s**2 * values for name, values in curves.items()}
    growth = {name: _trend(s, values) for name, values in scaled.items()}
    rows: list[list[Any]] = [
        [name, float(values[-1]), growth[name], bool(growth[name] <= 0.1)] for name, values in curves.items()
    ]
    shown: list[list[Any]] = [[row[0], row[1], row[2], "yes" if row[3] else "no"] for row in rows]
    return Outcome(
        [
            f"{name}: f ends at {float(values[-1]):.3g}; the peaks of s² f "
            f"{'stay bounded' if growth[name] <= 0.1 else 'grow'} (slope {growth[name]:+.2f} in double logarithms)."
            for name, values in curves.items()
        ]
        + [
            "Below r = 3 the rate 1/s² is lost. The step of momentum is sqrt(lr): one step of descent takes time lr."
        ],
        [
            Lines(
                "friction-value",
                "Height of the ball",
                "time s",
                "f",
                {name: (s[every], np.maximum(values[every], 1e-12)) for name, values in curves.items()},
                log_x=True,
                log_y=True,
            ),
            Lines(
                "friction-scaled",
                "s² f: bounded where the rate is 1/s²",
                "time s",
                "s² f",
                {
                    name: (s[every], values[every])
                    for name, values in scaled.items()
                    if name != "x' = -grad f"
                },
            ),
        ],
        Table("friction-table", "In the end", ["equation", "f", "slope of s² f", "rate 1/s² kept"], shown),
        {str(row[0]): {"f": row[1], "slope": row[2], "kept": row[3]} for row in rows},
    )


def _roll(h: np.ndarray, start: np.ndarray, r: float, steps: int) -> np.ndarray:
    """The path of the ball by the classical Runge-Kutta method; at time zero x'' = -grad f / (1 + r)."""
    curvature = jnp.asarray(h, jnp.float32)

    def slope(s: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        x, v = state
        return v, -r / s * v - curvature * x

    def step(
        state: tuple[jax.Array, jax.Array], s: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        state = runge_kutta_step(slope, s, state, _STEP)
        return state, state[0]

    x = jnp.asarray(start, jnp.float32)
    first = _STEP
    state = (x - curvature * x * first**2 / (2 * (1 + r)), -curvature * x * first / (1 + r))
    times = first + _STEP * jnp.arange(steps - 1, dtype=jnp.float32)
    _, points = jax.jit(lambda state: jax.lax.scan(step, state, times))(state)
    return np.concatenate([np.asarray(state[0])[None], np.asarray(points)]).astype(np.float64)


def _trend(s: np.ndarray, values: np.ndarray) -> float:
    """The slope of the upper envelope over the second half of the time, both logarithmic."""
    edges = np.geomspace(s[-1] / 8, s[-1], 7)
    peaks = [values[(s >= a) & (s <= b)].max() for a, b in itertools.pairwise(edges)]
    return float(np.polyfit(np.log(edges[1:]), np.log(np.maximum(peaks, 1e-30)), 1)[0])


experiment = Experiment(
    "Momentum as a ball with friction r/s: from r = 3 on the value falls like 1/s².",
    FrictionSettings,
    run,
    toy={"time": 5.0, "r": [3.0]},
    reference="Su, Boyd and Candès, JMLR 17, 2016, arXiv:1503.01243",
)

__all__ = ["FrictionSettings", "experiment", "run"]
