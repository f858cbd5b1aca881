"""Attention as regression: a query gathers the values of keys nearby, and how near is found by leaving one out."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Heatmap, Lines
from chainrule.explain.protocol import Experiment, Listener, Outcome, Positive, Settings
from chainrule.kernels import exponential, fit_bandwidth, gaussian, leave_one_out, smooth, smoothing_weights


@final
class KernelAttentionSettings(Settings):
    """The data and the widths tried."""

    points: int = Field(60, ge=5, le=2000, description="keys, each with a value")
    noise: float = Field(0.2, ge=0, description="standard deviation of the noise on values")
    widths: tuple[Positive, ...] = Field(
        (0.005, 0.3), min_length=1, description="widths to compare with the best"
    )
    seed: int = Field(0, ge=0, description="keys and noise")


def run(settings: KernelAttentionSettings, listener: Listener) -> Outcome:
    """Fit a curve by attention with Gaussian weights, and compare Gaussian with dot-product weights."""
    keys = jax.random.split(random.key(settings.seed, "data"), 4)
    x = jnp.sort(jax.random.uniform(keys[0], (settings.points, 1)), axis=0)
    target = lambda x: jnp.sin(12 * x) + x  # noqa: E731
    y = target(x) + settings.noise * jax.random.normal(keys[1], x.shape)
    best = fit_bandwidth(x, y)
    grid = jnp.linspace(0, 1, 201)[:, None]
    at = np.asarray(grid)[:, 0]
    series = {"without noise": (at, np.asarray(target(grid))[:, 0])}
    for width in (best, *settings.widths):
        label = f"width {width:.3g}" + (" (best)" if width == best else "")
        series[label] = (at, np.asarray(smooth(grid, x, y, gaussian(width)))[:, 0])
    widths = np.geomspace(0.002, 1.0, 40)
    error = jax.jit(lambda width: leave_one_out(x, y, gaussian(width)))
    errors = np.array([float(error(width)) for width in widths])
    listener(f"least leave-one-out error {float(error(best)):.4g} at width {best:.4g}")
    query, direction = (jax.random.normal(key, (8, 4)) for key in keys[2:])
    unit = direction / jnp.linalg.norm(direction, axis=1, keepdims=True)
    by_distance, by_product = (
        smoothing_weights(query, unit, kernel) for kernel in (gaussian(0.7), exponential(0.49))
    )
    apart = float(jnp.abs(by_distance - by_product).max())
    return Outcome(
        [
            f"Leaving one out chooses a width of {best:.3g}, with a mean squared error of {float(error(best)):.3g}; "
            f"the noise alone has {settings.noise**2:.3g}.",
            f"With keys of equal length, Gaussian weights and softmax weights of q · k / width² differ by {apart:.1g} "
            "at most: dot-product attention is kernel regression.",
        ],
        [
            Lines("kernel-attention", "One curve at several widths", "query", "value", series),
            Lines(
                "kernel-attention-width",
                "Leave-one-out error by width",
                "width",
                "mean squared error",
                {"left out": (widths, errors)},
                log_x=True,
                log_y=True,
                marks=((best, "best"),),
            ),
            Heatmap(
                "kernel-attention-weights",
                "Weights at the best width",
                "key",
                "query",
                np.asarray(smoothing_weights(grid[::4], x, gaussian(best))),
                caption="A band along the diagonal: each query takes from the keys around it.",
            ),
        ],
        None,
        {
            "best": best,
            "error": float(error(best)),
            "difference": apart,
            "widths": widths.tolist(),
            "errors": errors.tolist(),
        },
    )


experiment = Experiment(
    "Attention as kernel regression, with the width found by leaving one out.",
    KernelAttentionSettings,
    run,
    toy={"points": 12},
    reference="Nadaraya, On estimating regression, 1964; Watson, Smooth regression analysis, 1964; Tsai et al., "
    "Transformer dissection, 2019, arXiv:1908.11775",
)

__all__ = ["KernelAttentionSettings", "experiment", "run"]
