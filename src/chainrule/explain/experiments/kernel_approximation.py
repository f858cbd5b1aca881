"""Features in place of a kernel: how the error of the Gram matrix falls with their number, for each way of making them.

Random features know nothing of the points, and their error falls with the root of the number. Landmarks are chosen
among the points, so a smooth kernel needs few of them.
"""

from collections.abc import Callable
from typing import Any, Literal, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.kernels import RBF, Kernel, Matern, Nystrom, PositiveFeatures, RandomFourierFeatures
from chainrule.kernels.precision import in_double

Maker = Callable[[Any, np.ndarray, int, Any], Any]
"""From (kernel, points, number of features, key) to a map of points to features."""


@final
class KernelApproximationSettings(Settings):
    """The points, the kernel and the numbers of features."""

    kernel: Literal["rbf", "matern52", "matern12"] = Field("rbf", description="rbf is smooth, matern12 rough")
    scale: float = Field(1.0, gt=0, le=100, description="length over which the kernel falls")
    points: int = Field(200, ge=10, le=2000, description="points, standard normal")
    size: int = Field(3, ge=1, le=100, description="coordinates of a point")
    counts: tuple[Count, ...] = Field(
        (8, 16, 32, 64, 128), min_length=2, description="numbers of features tried; even ones"
    )
    repeats: int = Field(5, ge=1, le=1000, description="independent draws of each number")
    seed: int = Field(0, ge=0, description="points and draws")


def run(settings: KernelApproximationSettings, listener: Listener) -> Outcome:
    """Compare each way at each number of features with the exact Gram matrix."""
    kernel = _kernel(settings)
    x = np.random.default_rng(settings.seed).normal(size=(settings.points, settings.size))
    exact = np.asarray(in_double(lambda kernel, x: kernel.gram(x))(kernel, x))
    counts = sorted({max(2, count - count % 2) for count in settings.counts if count <= settings.points})
    counts = counts if len(counts) > 1 else [2, settings.points - settings.points % 2]
    curves: dict[str, tuple[np.ndarray, ...]] = {}
    for name, (make, drawn) in _makers(kernel).items():
        errors = []
        for count in counts:
            keys = jax.random.split(random.key(settings.seed, name), settings.repeats if drawn else 1)
            errors.append(float(np.mean([_error(make(kernel, x, count, key), x, exact) for key in keys])))
        curves[name] = (np.array(counts, dtype=float), np.array(errors))
        listener(f"{name}: relative error from {errors[0]:.3g} down to {errors[-1]:.3g}")
    slopes = {
        name: float(np.polyfit(np.log(c[0]), np.log(np.maximum(c[1], 1e-300)), 1)[0])
        for name, c in curves.items()
    }
    last = {name: float(curve[1][-1]) for name, curve in curves.items()}
    best = min(last, key=last.__getitem__)
    return Outcome(
        [
            f"With {counts[-1]} features for {settings.points} points, {best} comes closest: relative error "
            f"{last[best]:.3g}.",
            f"The error of independent Fourier features falls with their number to the power "
            f"{slopes['Fourier, independent']:.2f}; theory says -0.5.",
        ],
        [
            Lines(
                "kernel-approximation-error",
                "Error by number of features",
                "features",
                "relative error of the Gram matrix",
                curves,
                log_x=True,
                log_y=True,
                caption=f"{settings.kernel}, {settings.points} points of {settings.size} coordinates, "
                f"mean of {settings.repeats} draws.",
            )
        ],
        Table(
            "kernel-approximation-table",
            "Relative error of the Gram matrix",
            ["features", *map(str, counts), "power"],
            [
                [name, *(float(f"{e:.3g}") for e in c[1]), round(slopes[name], 2)]
                for name, c in curves.items()
            ],
        ),
        {
            name: {"counts": counts, "error": c[1].tolist(), "slope": slopes[name]}
            for name, c in curves.items()
        },
    )


def _kernel(settings: KernelApproximationSettings) -> Kernel:
    made: dict[str, Callable[[], Kernel]] = {
        "rbf": lambda: RBF(settings.scale),
        "matern52": lambda: Matern(2.5, settings.scale),
        "matern12": lambda: Matern(0.5, settings.scale),
    }
    return made[settings.kernel]()


def _makers(kernel: Kernel) -> dict[str, tuple[Maker, bool]]:
    """Every way of making features, and whether it draws."""
    ways: dict[str, tuple[Maker, bool]] = {
        "Fourier with phases": (_fourier(phases=True, orthogonal=False), True),
        "Fourier, independent": (_fourier(phases=False, orthogonal=False), True),
        "Fourier, orthogonal": (_fourier(phases=False, orthogonal=True), True),
        "landmarks, uniform": (_landmarks("uniform"), True),
        "landmarks, k-means": (_landmarks("kmeans"), True),
        "landmarks, pivoted": (_landmarks("pivoted"), False),
    }
    if isinstance(kernel, RBF):
        ways["positive, in pairs"] = (_positive, True)
    return ways


def _fourier(*, phases: bool, orthogonal: bool) -> Maker:
    def make(kernel: Any, x: np.ndarray, count: int, key: Any) -> Any:
        frequencies = count if phases else count // 2
        return RandomFourierFeatures(
            kernel, x.shape[1], frequencies=frequencies, phases=phases, orthogonal=orthogonal, key=key
        )

    return make


def _positive(kernel: Any, x: np.ndarray, count: int, key: Any) -> Any:
    return PositiveFeatures(kernel, x.shape[1], draws=count // 2, key=key)


def _landmarks(choice: Literal["uniform", "kmeans", "pivoted"]) -> Maker:
    def make(kernel: Any, x: np.ndarray, count: int, key: Any) -> Any:
        return Nystrom(kernel, x, count=count, choice=choice, key=key)

    return make


def _error(features: Any, x: np.ndarray, exact: np.ndarray) -> float:
    psi = np.asarray(in_double(lambda features, x: features(x))(features, x))
    return float(np.linalg.norm(psi @ psi.T - exact) / np.linalg.norm(exact))


experiment = Experiment(
    "Features in place of a kernel: the error of the Gram matrix by their number, for random ones and for landmarks.",
    KernelApproximationSettings,
    run,
    toy={"points": 20, "size": 2, "counts": [4, 8], "repeats": 2},
    reference="Rahimi and Recht, Random features for large-scale kernel machines, 2007; Williams and Seeger, Using the "
    "Nyström method to speed up kernel machines, 2001",
)

__all__ = ["KernelApproximationSettings", "experiment", "run"]
