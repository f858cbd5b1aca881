"""Do two samples come from one distribution? Their MMD among those of shuffled labels, and where they differ."""

import math
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field
from scipy import stats

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Positive, Settings
from chainrule.kernels import RBF
from chainrule.kernels.density import KernelDensity
from chainrule.kernels.hypothesis_tests import two_sample_test
from chainrule.kernels.mean_embedding import median_kernel, witness

_LEVEL = 0.05


@final
class TwoSampleSettings(Settings):
    """The two samples and the test."""

    n: int = Field(100, ge=4, le=5000, description="points of each sample")
    features: int = Field(1, ge=1, le=1000, description="coordinates of a point")
    shift: float = Field(
        0.5,
        ge=-1000,
        le=1000,
        description="of the second sample along the first coordinate, standard deviations",
    )
    stretch: Positive = Field(1.0, description="of the second sample along the first coordinate")
    scale: NonNegative = Field(0.0, description="of the RBF kernel; 0: the median distance of all points")
    permutations: int = Field(1000, ge=19, le=100_000, description="shuffles of the labels")
    repeats: int = Field(
        40, ge=2, le=10_000, description="pairs of samples for every shift of the power curve"
    )
    seed: int = Field(0, ge=0, description="samples and shuffles")


def run(settings: TwoSampleSettings, listener: Listener) -> Outcome:
    """Draw two samples, test them by every estimate, and see how often shifts of all sizes are found."""
    x, y = _samples(settings, settings.shift, settings.stretch, 0)
    kernel = RBF(settings.scale) if settings.scale else median_kernel(x, y)
    rows: list[list[Any]] = []
    tests = {}
    for number, estimate in enumerate(("unbiased", "biased", "features", "linear")):
        key = jax.random.fold_in(random.key(settings.seed, "shuffles"), number)
        tests[estimate] = two_sample_test(
            x, y, kernel, estimate=estimate, permutations=settings.permutations, key=key
        )
        listener(f"{estimate}: p = {tests[estimate].p_value:.3g}")
        rows.append([estimate, *(float(f"{v:.4g}") for v in tests[estimate][:2])])
    found = tests["unbiased"]
    shifts, powers = _power(settings)
    f = witness(x, y, kernel)
    others = {
        "Wasserstein-1": float(stats.wasserstein_distance(x[:, 0], y[:, 0])),
        "energy distance": float(stats.energy_distance(x[:, 0], y[:, 0])),
    }
    verdict = "differ" if found.p_value <= _LEVEL else "cannot be told apart"
    return Outcome(
        [
            f"Two samples of {settings.n} points, one shifted by {settings.shift:g} and stretched by "
            f"{settings.stretch:g}: squared MMD {found.statistic:.4g}, p = {found.p_value:.3g}; at the level "
            f"{_LEVEL:g} they {verdict}.",
            f"Without a shift {100 * powers[0]:.0f} % of {settings.repeats} pairs have p <= {_LEVEL:g}, where the test "
            f"promises {100 * _LEVEL:.0f} %; with a shift of {shifts[-1]:.2g} it is {100 * powers[-1]:.0f} %.",
            "Along the first coordinate alone, "
            + ", ".join(f"{name} is {value:.3g}" for name, value in others.items())
            + ".",
        ],
        [_null(found.statistic, found.null), _along(x, y, f), _curve(shifts, powers, settings)],
        Table("two-sample-table", "Squared MMD by estimate", ["estimate", "squared MMD", "p"], rows),
        {
            "tests": {name: {"statistic": t.statistic, "p": t.p_value} for name, t in tests.items()},
            "mmd": float(f.distance),
            "scale": float(kernel.scale),
            "power": {"shift": shifts.tolist(), "share": powers.tolist()},
            "first_coordinate": others,
        },
    )


def _samples(settings: TwoSampleSettings, shift: float, stretch: float, number: int) -> tuple[Any, Any]:
    draws = np.random.default_rng([settings.seed, number]).normal(size=(2, settings.n, settings.features))
    draws[1, :, 0] = stretch * draws[1, :, 0] + shift
    return draws[0], draws[1]


def _power(settings: TwoSampleSettings) -> tuple[np.ndarray, np.ndarray]:
    """How often a shift is found, from none to one that is found nearly always."""
    largest = 6 * math.sqrt(math.sqrt(settings.features) / settings.n)
    shifts = np.linspace(0, largest, 6)
    shares = []
    for shift in shifts:
        found = []
        for number in range(1, settings.repeats + 1):
            x, y = _samples(settings, float(shift), 1.0, number)
            kernel = RBF(settings.scale) if settings.scale else RBF(1.2 * math.sqrt(settings.features))
            key = jax.random.fold_in(random.key(settings.seed, "power"), number)
            found.append(two_sample_test(x, y, kernel, permutations=99, key=key).p_value <= _LEVEL)
        shares.append(np.mean(found))
    return shifts, np.array(shares)


def _null(statistic: float, null: np.ndarray) -> Lines:
    low, high = min(null.min(), statistic), max(null.max(), statistic)
    grid = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), 200)
    density = np.exp(KernelDensity("silverman").fit(null).log_prob(grid))
    return Lines(
        "two-sample-null",
        "The statistic among those of shuffled labels",
        "squared MMD, unbiased",
        "density",
        {f"{len(null)} shuffles": (grid, density)},
        marks=[(statistic, "the data")],
        caption="The p-value is the share of shuffles right of the mark, the data counted among them.",
    )


def _along(x: np.ndarray, y: np.ndarray, f: Any) -> Lines:
    """The witness along the first coordinate, at the mean of the others, with the densities of the samples."""
    pooled = np.concatenate([x, y])
    low, high = pooled[:, 0].min(), pooled[:, 0].max()
    grid = np.linspace(low - 0.2 * (high - low), high + 0.2 * (high - low), 160)
    at = np.repeat(pooled.mean(axis=0)[None], len(grid), axis=0)
    at[:, 0] = grid
    series = {"witness": (grid, np.asarray(f(jnp.asarray(at))))}
    for name, sample in (("first sample", x), ("second sample", y)):
        series[f"density of the {name}"] = (grid, np.exp(KernelDensity().fit(sample[:, 0]).log_prob(grid)))
    return Lines(
        "two-sample-witness",
        "Where the samples differ",
        "first coordinate",
        "witness, and densities",
        series,
        caption="The witness is the function of norm one whose means over the samples differ most: positive where the "
        "first is denser.",
    )


def _curve(shifts: np.ndarray, powers: np.ndarray, settings: TwoSampleSettings) -> Lines:
    error = np.sqrt(powers * (1 - powers) / settings.repeats)
    return Lines(
        "two-sample-power",
        "How often a shift is found",
        "shift, standard deviations",
        f"share of tests with p <= {_LEVEL:g}",
        {
            f"{settings.repeats} pairs of samples": (shifts, powers, powers - error, powers + error),
            "promised without a shift": (shifts, np.full(len(shifts), _LEVEL)),
        },
    )


experiment = Experiment(
    "Two-sample test by MMD: the statistic among shuffled labels, the witness, and how often shifts are found.",
    TwoSampleSettings,
    run,
    toy={"n": 20, "permutations": 49, "repeats": 2},
    reference="Gretton, Borgwardt, Rasch, Schölkopf and Smola, A kernel two-sample test, JMLR 13, 2012",
)

__all__ = ["TwoSampleSettings", "experiment", "run"]
