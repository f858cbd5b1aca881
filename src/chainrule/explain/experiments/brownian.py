"""Brownian motion as a Gaussian process: paths, a variance that grows as the time, eigenvalues of its covariance."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.kernels.gaussian_processes import brownian_motion

_SHOWN = 66
"""Times at which paths are drawn."""
_FUNCTIONS = 4
"""Eigenfunctions that are shown."""


@final
class BrownianSettings(Settings):
    """How much is drawn."""

    paths: int = Field(1000, ge=2, le=100_000, description="paths that are drawn")
    steps: int = Field(
        200, ge=2, le=5000, description="times at which they are known, evenly spaced in (0, 1]"
    )
    eigenvalues: int = Field(
        10, ge=1, le=100, description="largest eigenvalues that are compared with theory"
    )
    seed: int = Field(0, ge=0, description="draws")


def run(settings: BrownianSettings, listener: Listener) -> Outcome:
    """Draw paths, compare their variance with the time and the eigenvalues of min(s, t) with theory."""
    process = brownian_motion()
    times = (np.arange(settings.steps) + 1) / settings.steps
    drawn = process.sample(random.key(settings.seed, "paths"), times, settings.paths)
    listener(f"{settings.paths:,} paths drawn")
    variance = drawn.var(axis=0)
    outside = float((np.abs(drawn) > 2 * np.sqrt(times)[None]).mean())
    found, theory, functions = _eigenvalues(settings)
    steps = np.diff(drawn, axis=1)
    together = np.corrcoef(steps[:, :-1].ravel(), steps[:, 1:].ravel())[0, 1] if settings.steps > 2 else 0.0
    worst = float(np.abs(found / theory - 1).max())
    rows: list[list[Any]] = [
        [j + 1, float(f"{a:.6f}"), float(f"{b:.6f}")]
        for j, (a, b) in enumerate(zip(found, theory, strict=True))
    ]
    return Outcome(
        [
            f"At time 1 the variance of {settings.paths:,} paths is {variance[-1]:.3f} (1 in theory); "
            f"{100 * outside:.1f} % of all values lie beyond two standard deviations (4.6 %).",
            f"The eigenvalues {', '.join(f'{v:.6f}' for v in found[:3])} of the covariance are 1 / ((j - 1/2)² pi²) to "
            f"{worst:.1e}.",
            f"Successive steps are correlated by {together:.3f} (0 in theory: increments are independent).",
        ],
        [_paths(times, drawn), _variance(times, variance), _spectrum(found, theory), _functions(functions)],
        Table("brownian-eigenvalues", "Eigenvalues", ["j", "of the kernel", "1 / ((j - 1/2)² pi²)"], rows),
        {
            "variance_at_1": float(variance[-1]),
            "share_outside": outside,
            "correlation_of_steps": float(together),
            "eigenvalues": found.tolist(),
            "theory": theory.tolist(),
        },
    )


def _eigenvalues(settings: BrownianSettings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Those of the integral operator on [0, 1], by its kernel at midpoints; in theory; eigenfunctions as columns."""
    count = max(8 * settings.eigenvalues, 400)
    middle = (np.arange(count) + 0.5) / count
    values, vectors = np.linalg.eigh(np.asarray(brownian_motion().kernel.gram(middle), np.float64))
    theory = 1 / ((np.arange(1, settings.eigenvalues + 1) - 0.5) ** 2 * np.pi**2)
    # As functions of mean square one; the sign of each is free, and here they rise from zero.
    functions = np.sqrt(count) * (vectors * np.sign(vectors[:1]))[:, ::-1]
    return values[::-1][: settings.eigenvalues] / count, theory, functions[:, : settings.eigenvalues]


def _paths(times: np.ndarray, drawn: np.ndarray) -> Lines:
    at = np.concatenate([[0.0], times])
    reach = 2 * np.sqrt(at)
    series: dict[str, tuple[np.ndarray, ...]] = {"2 sqrt(t)": (at, reach), "-2 sqrt(t)": (at, -reach)}
    every = max(1, len(times) // _SHOWN)
    kept = np.concatenate([[0], np.arange(len(times), 0, -every)[::-1]])
    whole = np.concatenate([np.zeros((len(drawn), 1)), drawn], axis=1)
    return Lines(
        "brownian-paths",
        f"{len(drawn):,} paths of Brownian motion",
        "time",
        "value",
        series,
        threads=(at[kept], whole[:, kept]),
        caption="At any time 95.4 % of the values lie between the two curves, ±2 sqrt(t).",
    )


def _variance(times: np.ndarray, variance: np.ndarray) -> Lines:
    return Lines(
        "brownian-variance",
        "Variance of the paths",
        "time",
        "variance",
        {"paths": (times, variance), "theory": (times, times)},
        caption="The variance is the time: Brownian motion is not stationary.",
    )


def _spectrum(found: np.ndarray, theory: np.ndarray) -> Lines:
    at = np.arange(1, len(found) + 1, dtype=float)
    return Lines(
        "brownian-spectrum",
        "Eigenvalues of the covariance",
        "number",
        "",
        {"kernel": (at, found), "theory": (at, theory)},
        log_x=True,
        log_y=True,
    )


def _functions(found: np.ndarray) -> Lines:
    """The first eigenfunctions, over dots where theory has them."""
    count, shown = len(found), min(_FUNCTIONS, found.shape[1])
    middle = (np.arange(count) + 0.5) / count
    some = middle[:: max(1, count // 40)]
    theory = [np.sqrt(2) * np.sin((j + 0.5) * np.pi * some) for j in range(shown)]
    return Lines(
        "brownian-eigenfunctions",
        "Eigenfunctions of the covariance",
        "time",
        "",
        {f"number {j + 1}": (middle, found[:, j]) for j in range(shown)},
        dots=(np.tile(some, shown), np.concatenate(theory)),
        caption="Every path is a sum of these with independent normal weights, whose variances are the eigenvalues; "
        "dots: sqrt(2) sin((j - 1/2) pi t).",
    )


experiment = Experiment(
    "Brownian motion: a thousand paths with ±2 sqrt(t), variance by time, eigenfunctions against theory.",
    BrownianSettings,
    run,
    toy={"paths": 20, "steps": 10, "eigenvalues": 3},
    reference="Mörters and Peres, Brownian Motion, 2010; Rasmussen and Williams, 2006, section 4.3",
)

__all__ = ["BrownianSettings", "experiment", "run"]
