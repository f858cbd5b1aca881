"""Descent on noisy gradients: the average of the points against the bound that theory gives it."""

from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines
from chainrule.explain.methods.stochastic import stochastic_descent
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings


@final
class NoiseSettings(Settings):
    """The bowl, the noise and the lengths of the runs."""

    condition: float = Field(10.0, ge=1, description="f = (x² + condition y²)/2, from (1, 1)")
    noise: float = Field(
        3.0, ge=0, description="standard deviation of the noise on each entry of the gradient"
    )
    steps: tuple[Count, ...] = Field((100, 300, 1000, 3000), min_length=2, description="lengths of the runs")
    runs: int = Field(50, ge=1, le=1000, description="runs of each length; means are shown")
    seed: int = Field(0, ge=0, description="noise")


def run(settings: NoiseSettings, listener: Listener) -> Outcome:
    """For each length the rate that theory recommends, lr = |x0 - x*| / (G sqrt(T))."""
    x0, least = jnp.ones(2), jnp.zeros(2)
    bend = jnp.array([1.0, settings.condition])
    # At the start, where the gradient is longest, and with the noise of two entries.
    length = float(np.sqrt(1 + settings.condition**2 + 2 * settings.noise**2))
    lengths = sorted(settings.steps)
    ends, lasts, bounds = [], [], []
    for steps in lengths:
        lr = float(np.sqrt(2) / (length * np.sqrt(steps)))
        found = stochastic_descent(
            lambda x: (bend * x**2).sum() / 2,
            x0,
            lr,
            steps,
            noise=settings.noise,
            minimizer=least,
            key=random.key(settings.seed, "noise"),
            runs=settings.runs,
        )
        ends.append(float(found.average_gaps[-1]))
        lasts.append(float(found.last_gaps[-1]))
        bounds.append(float(found.bounds[-1]))
        listener(
            f"{steps} steps at {lr:.3g}: average {ends[-1]:.4g}, last {lasts[-1]:.4g}, bound {bounds[-1]:.4g}"
        )
    t = np.array(lengths, dtype=float)
    slope = float(np.polyfit(np.log(t), np.log(bounds), 1)[0])
    kept = all(end <= bound for end, bound in zip(ends, bounds, strict=True))
    return Outcome(
        [
            f"The average of the points is {ends[-1]:.3g} above the minimum after {lengths[-1]} steps, the last "
            f"point {lasts[-1]:.3g}; the bound of the average is {bounds[-1]:.3g}"
            + (" and holds for every length." if kept else " and is violated: an assumption is broken."),
            f"The bound falls like T^{slope:.2f}.",
        ],
        [
            Lines(
                "noise",
                "Distance to the minimum by length of the run",
                "steps T",
                "f - f*",
                {
                    "average of the points": (t, np.array(ends)),
                    "last point": (t, np.array(lasts)),
                    "bound of the average": (t, np.array(bounds)),
                },
                log_x=True,
                log_y=True,
                caption=f"Means of {settings.runs} runs, each length with the rate that suits it.",
            )
        ],
        None,
        {"steps": lengths, "average": ends, "last": lasts, "bound": bounds, "slope": slope, "kept": kept},
    )


experiment = Experiment(
    "Descent on noisy gradients: the average of the points converges like 1/sqrt(T).",
    NoiseSettings,
    run,
    toy={"steps": [10, 40], "runs": 5},
    reference="Nemirovski and Yudin, Problem Complexity and Method Efficiency in Optimization, 1983",
)

__all__ = ["NoiseSettings", "experiment", "run"]
