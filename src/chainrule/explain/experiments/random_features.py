"""Random features against the kernel they stand for: how they scatter, and how the error falls with their number."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Scatter, Table
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.nn.attention.features import directions, log_features

_KINDS = {
    "plain": (False, False),
    "hyperbolic": (True, False),
    "hyperbolic, orthogonal": (True, True),
}
"""Whether w comes with -w, and whether the w stand at right angles."""


@final
class RandomFeaturesSettings(Settings):
    """The vectors and the numbers of draws."""

    size: int = Field(16, ge=1, le=512, description="entries of a query or key")
    points: int = Field(32, ge=2, le=512, description="queries, and keys")
    length: float = Field(1.0, gt=0, description="typical length of a query or key after scaling")
    draws: tuple[Count, ...] = Field(
        (4, 16, 64, 256, 1024), min_length=2, description="numbers of draws tried"
    )
    repeats: int = Field(20, ge=1, description="independent draws of each number")
    seed: int = Field(0, ge=0, description="vectors and draws")


def run(settings: RandomFeaturesSettings, listener: Listener) -> Outcome:
    """Estimate `exp(x · y)` for all pairs, by each kind of feature and for each number of draws."""
    x, y, exact = _pairs(settings)
    clouds: dict[str, np.ndarray] = {}
    curves: dict[str, tuple[np.ndarray, ...]] = {}
    for name in _KINDS:
        found = [_estimates(settings, name, draws, x, y) for draws in settings.draws]
        errors = [float(np.sqrt(np.square(one / exact[None] - 1).mean())) for one in found]
        clouds[name] = np.stack([exact.reshape(-1), found[-1][0].reshape(-1)], axis=1)
        curves[name] = (np.array(settings.draws, dtype=float), np.array(errors))
        listener(f"{name}: relative error from {errors[0]:.3g} down to {errors[-1]:.3g}")
    slopes = {name: float(np.polyfit(np.log(c[0]), np.log(c[1]), 1)[0]) for name, c in curves.items()}
    rows: list[list[Any]] = [
        [name, *(float(f"{e:.4g}") for e in curves[name][1]), round(slopes[name], 3)] for name in curves
    ]
    last = {name: curve[1][-1] for name, curve in curves.items()}
    return Outcome(
        [
            f"With {settings.draws[-1]} draws the relative error is "
            + ", ".join(f"{error:.3g} ({name})" for name, error in last.items())
            + ".",
            "The error falls with the number of draws to the power "
            + ", ".join(f"{slope:.2f} ({name})" for name, slope in slopes.items())
            + "; theory says -0.5 for independent draws.",
        ],
        [
            Scatter(
                "random-features-scatter",
                f"Estimates of exp(x · y) from {settings.draws[-1]} draws",
                "exact",
                "estimate",
                clouds,
                diagonal=True,
            ),
            Lines(
                "random-features-error",
                "Error by number of draws",
                "draws",
                "root mean square relative error",
                curves,
                log_x=True,
                log_y=True,
            ),
        ],
        Table(
            "random-features-table",
            "Relative error by number of draws",
            ["features", *map(str, settings.draws), "power"],
            rows,
        ),
        {
            name: {"draws": list(settings.draws), "error": curves[name][1].tolist(), "slope": slopes[name]}
            for name in curves
        },
    )


def _pairs(settings: RandomFeaturesSettings) -> tuple[Any, Any, np.ndarray]:
    """Queries, keys, and the kernel of all pairs."""
    spread = settings.length / math.sqrt(settings.size)
    x, y = (
        spread * jax.random.normal(key, (settings.points, settings.size))
        for key in jax.random.split(random.key(settings.seed, "points"))
    )
    return x, y, np.asarray(jnp.exp(x @ y.T))


def _estimates(settings: RandomFeaturesSettings, name: str, draws: int, x: Any, y: Any) -> np.ndarray:
    """The kernel of all pairs from features, once for each repeat."""
    hyperbolic, orthogonal = _KINDS[name]

    @jax.jit
    def estimate(key: Any) -> Any:
        w = directions(key, draws, settings.size, orthogonal=orthogonal)
        a, b = (jnp.exp(log_features(points, w, hyperbolic)) for points in (x, y))
        return a @ b.T / a.shape[-1]

    return np.asarray(
        jax.lax.map(estimate, jax.random.split(random.key(settings.seed, name), settings.repeats))
    )


experiment = Experiment(
    "Random features of the softmax's kernel: scatter against the exact kernel, and error by number of draws.",
    RandomFeaturesSettings,
    run,
    toy={"size": 4, "points": 6, "draws": [4, 16], "repeats": 2},
    reference="Choromanski et al., Rethinking attention with Performers, 2021, arXiv:2009.14794",
)

__all__ = ["RandomFeaturesSettings", "experiment", "run"]
