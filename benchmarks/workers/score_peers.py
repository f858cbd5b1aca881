"""The peers' side of the `scores` benchmark: NumPy and SciPy by the book, torchmetrics, prdc."""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import score_problems as problems
from protocol import Ready, serve, steady

warnings.filterwarnings("ignore")


def prepare(package: str, task: str, rows: int, threads: int) -> Ready:
    real, samples = problems.features(rows)
    began = time.perf_counter()
    work, result = TASKS[package, task](real, samples, threads)
    found = result(work())
    taken = time.perf_counter() - began
    name = "scipy" if package == "numpy" else package
    return Ready(
        found,
        taken,
        {name: version(name)},
        lambda: steady(lambda count: [work() for _ in range(count)], 1),
    )


Task = tuple[Callable[[], Any], Callable[[Any], list[float]]]


def plain_frechet(real: np.ndarray, samples: np.ndarray, threads: int) -> Task:
    """The root of the product of both covariances."""
    from scipy.linalg import sqrtm

    del threads

    def work() -> float:
        first, second = np.cov(real.T), np.cov(samples.T)
        apart = np.square(real.mean(axis=0) - samples.mean(axis=0)).sum()
        return float(apart + np.trace(first + second - 2 * sqrtm(first @ second).real))

    return work, lambda found: [found]


def metric_frechet(real: np.ndarray, samples: np.ndarray, threads: int) -> Task:
    """Sums of features and of their products, and eigenvalues."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    return _of_metric(
        lambda identity: FrechetInceptionDistance(feature=identity, normalize=False).set_dtype(
            _torch().float64
        ),
        *(real, samples, threads),
        lambda found: [float(found)],
    )


def metric_kernel(real: np.ndarray, samples: np.ndarray, threads: int) -> Task:
    """A subset after another."""
    from torchmetrics.image.kid import KernelInceptionDistance

    size = min(problems.SIZE, len(real) // 2)
    return _of_metric(
        lambda identity: KernelInceptionDistance(
            feature=identity, subsets=problems.SUBSETS, subset_size=size
        ),
        *(real, samples, threads),
        lambda found: [float(found[0])],
    )


def neighbours(real: np.ndarray, samples: np.ndarray, threads: int) -> Task:
    """All distances at once."""
    from prdc import compute_prdc

    del threads

    def work() -> dict[str, float]:
        found: dict[str, float] = compute_prdc(real, samples, nearest_k=problems.NEIGHBOURS)
        return found

    return work, lambda found: [float(found[name]) for name in ("precision", "recall", "density", "coverage")]


def _torch() -> Any:
    import torch

    return torch


def _of_metric(
    make: Callable[[Any], Any],
    real: np.ndarray,
    samples: np.ndarray,
    threads: int,
    result: Callable[[Any], list[float]],
) -> Task:
    torch = _torch()
    torch.set_num_threads(threads)
    identity = torch.nn.Identity()
    identity.num_features = problems.FEATURES
    metric = make(identity)
    pairs = [(torch.from_numpy(rows), is_real) for rows, is_real in ((real, True), (samples, False))]

    def work() -> Any:
        metric.reset()
        for rows, is_real in pairs:
            metric.update(rows, real=is_real)
        return metric.compute()

    return work, result


TASKS: dict[tuple[str, str], Callable[[np.ndarray, np.ndarray, int], Task]] = {
    ("numpy", "frechet"): plain_frechet,
    ("torchmetrics", "frechet"): metric_frechet,
    ("torchmetrics", "kernel"): metric_kernel,
    ("prdc", "neighbours"): neighbours,
}

if __name__ == "__main__":
    serve(prepare)
