"""What a Gaussian process believes before and after it has seen data, and how well hyper-parameters explain them."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Scatter, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels import RBF, Constant, Kernel, Matern, Periodic, RationalQuadratic
from chainrule.kernels.gaussian_processes import GaussianProcess, GaussianProcessPosterior

_REACH = 2.0
"""Standard deviations to either side of a band."""
_FACTOR = 1.0
"""Half the width of the surface, in powers of ten."""
_FUNCTIONS = 4
"""Eigenfunctions that are shown."""
_KERNELS: Mapping[str, Callable[[Any], Kernel]] = {
    "rbf": RBF,
    "matern12": lambda scale: Matern(0.5, scale),
    "matern32": lambda scale: Matern(1.5, scale),
    "matern52": lambda scale: Matern(2.5, scale),
    "rational-quadratic": RationalQuadratic,
    "periodic": lambda scale: Periodic(1.0, 4 * scale),
}


@final
class GaussianProcessSettings(Settings):
    """The process and the data."""

    kernel: Literal["rbf", "matern12", "matern32", "matern52", "rational-quadratic", "periodic"] = Field(
        "rbf",
        description="how values at two places depend on each other; periodic: repeats after four scales",
    )
    scale: float = Field(1.0, gt=0, description="length over which values stay similar")
    variance: float = Field(1.0, gt=0, description="of the function, before anything is seen")
    noise: float = Field(0.05, gt=0, description="variance of the noise of an observation")
    points: int = Field(12, ge=1, le=2000, description="observations of sin(1.5 x) + x / 4")
    paths: int = Field(20, ge=1, le=200, description="functions that are drawn")
    grid: int = Field(200, ge=10, le=2000, description="places at which functions are shown")
    surface: Annotated[int, Field(ge=5, le=100)] = Field(
        25, description="values of each hyper-parameter tried"
    )
    learn: bool = Field(False, description="learn the hyper-parameters before anything is shown")
    seed: int = Field(0, ge=0, description="data and draws")


def run(settings: GaussianProcessSettings, listener: Listener) -> Outcome:
    """Draw before and after, compare bands with the truth, and compute the evidence over scale and noise."""
    x, y = _data(settings)
    process = GaussianProcess(_kernel(settings, settings.scale), settings.noise)
    posterior = process.fit(x, y)
    if settings.learn:
        posterior = posterior.optimize(key=random.key(settings.seed, "starts"))
        listener(f"learnt: log evidence {float(posterior.log_marginal_likelihood):.3f}")
    grid = np.linspace(-5.0, 5.0, settings.grid)
    latent, seen = posterior.predict(grid, "latent"), posterior.predict(grid)
    inside = np.abs(_truth(grid) - latent.mean) <= _REACH * np.sqrt(latent.variance)
    field, scales, noises = _surface(settings, x, y)
    listener("evidence computed over scale and noise")
    row, column = np.unravel_index(int(np.argmax(field)), field.shape)
    noise = float(np.asarray(posterior.process.noise))
    numbers = {
        "log_evidence": float(posterior.log_marginal_likelihood),
        "noise": noise,
        "best_scale": float(scales[row]),
        "best_noise": float(noises[column]),
        "best_log_evidence": float(field.max()),
        "truth_inside": float(inside.mean()),
    }
    return Outcome(
        [
            f"The log evidence of {settings.points} observations is {numbers['log_evidence']:.3f} nats; of all tried "
            f"it is highest, {numbers['best_log_evidence']:.3f}, at scale {numbers['best_scale']:.3g} and noise "
            f"{numbers['best_noise']:.3g}.",
            f"The true function lies within two standard deviations at {100 * numbers['truth_inside']:.0f} % of the "
            "places shown (95 % are expected, if the kernel is right).",
        ],
        [
            _fan("prior", "Functions before anything is seen", grid, settings, process, None),
            _fan("posterior", "Functions that fit the observations", grid, settings, posterior, (x, y)),
            _bands(grid, latent, seen, (x, y)),
            _picture(field, settings, noises, scales),
            _eigenfunctions(grid, posterior.process.kernel),
        ],
        _table(numbers),
        numbers,
    )


def _kernel(settings: GaussianProcessSettings, scale: Any) -> Kernel:
    return Constant(settings.variance) * _KERNELS[settings.kernel](scale)


def _truth(x: np.ndarray) -> np.ndarray:
    return np.sin(1.5 * x) + x / 4


def _data(settings: GaussianProcessSettings) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(settings.seed)
    x = np.sort(rng.uniform(-4, 4, settings.points))
    return x, _truth(x) + math.sqrt(settings.noise) * rng.normal(size=settings.points)


def _fan(
    name: str,
    title: str,
    grid: np.ndarray,
    settings: GaussianProcessSettings,
    source: GaussianProcess | GaussianProcessPosterior,
    dots: tuple[np.ndarray, np.ndarray] | None,
) -> Lines:
    """Drawn functions over the band of two standard deviations."""
    drawn = source.sample(random.key(settings.seed, name), grid, settings.paths)
    if isinstance(source, GaussianProcessPosterior):
        mean, variance = map(np.asarray, source.predict(grid, "latent"))
    else:
        mean, variance = np.zeros(len(grid)), np.full(len(grid), settings.variance)
    reach = _REACH * np.sqrt(variance)
    series: dict[str, tuple[np.ndarray, ...]] = {"mean": (grid, mean, mean - reach, mean + reach)}
    caption = f"The band is two standard deviations of the function to either side; {settings.paths} draws."
    return Lines(name, title, "x", "f(x)", series, dots=dots, threads=(grid, drawn), caption=caption)


def _bands(grid: np.ndarray, latent: Any, seen: Any, dots: tuple[np.ndarray, np.ndarray]) -> Lines:
    def series(found: Any) -> tuple[np.ndarray, ...]:
        reach = _REACH * np.sqrt(found.variance)
        return grid, found.mean, found.mean - reach, found.mean + reach

    return Lines(
        "bands",
        "The function and a new observation",
        "x",
        "y",
        {"observation": series(seen), "function": series(latent), "truth": (grid, _truth(grid))},
        dots=dots,
        caption="Two standard deviations to either side. Observations vary by the noise as well; leaving it out makes "
        "intervals too narrow.",
    )


def _surface(
    settings: GaussianProcessSettings, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The log evidence, a row for each scale and a column for each noise."""
    powers = 10.0 ** np.linspace(-_FACTOR, _FACTOR, settings.surface)
    scales, noises = settings.scale * powers, settings.noise * powers
    rows = []
    with jax.enable_x64(True):
        for scale in scales:
            # One decomposition serves every noise.
            values, vectors = np.linalg.eigh(np.asarray(_kernel(settings, scale).gram(x)))
            spread = np.maximum(values, 0)[None] + noises[:, None]
            squares = np.square(vectors.T @ y)[None]
            rows.append(-0.5 * (squares / spread + np.log(2 * np.pi * spread)).sum(axis=1))
    return np.stack(rows), scales, noises


def _picture(
    field: np.ndarray, settings: GaussianProcessSettings, noises: np.ndarray, scales: np.ndarray
) -> Scatter:
    left, right, bottom, top = (float(np.log10(v)) for v in (noises[0], noises[-1], scales[0], scales[-1]))
    row, column = np.unravel_index(int(np.argmax(field)), field.shape)
    highest = float(field.max())
    at = {
        "as set": np.array([[math.log10(settings.noise), math.log10(settings.scale)]]),
        "highest": np.array([[math.log10(noises[column]), math.log10(scales[row])]]),
    }
    return Scatter(
        "evidence",
        "Log evidence over two hyper-parameters",
        "noise variance, power of ten",
        "scale, power of ten",
        at,
        np.maximum(field, highest - 25),
        (left, right, bottom, top),
        [(highest - drop, f"-{drop}") for drop in (1, 3, 10)],
        caption=f"Lines are 1, 3 and 10 nats below the highest, {highest:.2f}. A short scale makes anything signal, a "
        "large noise anything noise.",
    )


def _eigenfunctions(grid: np.ndarray, kernel: Kernel) -> Lines:
    """What drawn functions are made of: the first eigenfunctions of the kernel over the places shown."""
    with jax.enable_x64(True):
        values, vectors = np.linalg.eigh(np.asarray(kernel.gram(grid)))
    shares = values[::-1] / values.sum()
    # As functions of mean square one; the sign of each is free.
    functions = math.sqrt(len(grid)) * (vectors * np.sign(vectors.sum(axis=0) + 1e-9)[None])[:, ::-1]
    return Lines(
        "eigenfunctions",
        "Eigenfunctions of the kernel",
        "x",
        "",
        {f"{j + 1}: {100 * shares[j]:.2g} %": (grid, functions[:, j]) for j in range(_FUNCTIONS)},
        caption="A function drawn before anything is seen is a sum of these with independent normal weights; the "
        f"first {_FUNCTIONS} hold {100 * shares[:_FUNCTIONS].sum():.3g} % of its variance.",
    )


def _table(numbers: dict[str, float]) -> Table:
    rows: list[list[Any]] = [
        [name.replace("_", " "), float(f"{value:.6g}")] for name, value in numbers.items()
    ]
    return Table("gaussian-process", "Numbers", ["what", "value"], rows)


experiment = Experiment(
    "Gaussian process: functions before and after data, bands of function and observation, evidence over two settings, "
    "eigenfunctions.",
    GaussianProcessSettings,
    run,
    toy={"points": 5, "paths": 2, "grid": 20, "surface": 5},
    reference="Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, chapters 2 and 5",
)

__all__ = ["GaussianProcessSettings", "experiment", "run"]
