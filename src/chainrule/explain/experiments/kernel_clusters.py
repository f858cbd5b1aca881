"""Clusters that are not balls: k-means, kernel k-means and spectral clustering of rings, moons and arms."""

from typing import Any, Literal, final

import numpy as np
from pydantic import Field
from scipy import optimize

from chainrule import data
from chainrule.core import random
from chainrule.core.pictures import Lines, Scatter, Table
from chainrule.explain.protocol import Experiment, Listener, NonNegative, Outcome, Positive, Settings
from chainrule.kernels import RBF, Linear
from chainrule.kernels.clustering import kernel_k_means, spectral_clustering
from chainrule.kernels.principal_components import KernelPCA

_WIDER = 5
"""Times the scale: what a narrow kernel varies by most are single groups of points."""


@final
class KernelClustersSettings(Settings):
    """The points and the kernel."""

    data: Literal["rings", "moons", "pinwheel", "ring"] = Field(
        "rings", description="generated points, whose classes are the clusters"
    )
    n: int = Field(400, ge=20, le=5000, description="points")
    noise: NonNegative = Field(0.05, description="standard deviation of every coordinate around its shape")
    scale: Positive = Field(0.1, description="of the RBF kernel; coordinates are of order one")
    seed: int = Field(0, ge=0, description="points and starts")


def run(settings: KernelClustersSettings, listener: Listener) -> Outcome:
    """Cluster the same points in three ways, and sweep the scale of the kernel."""
    x, y, names = _points(settings)
    clusters = len(names)
    key = random.key(settings.seed, "starts")
    spectral = spectral_clustering(x, clusters, RBF(settings.scale), key=key)
    labels = {
        "k-means": kernel_k_means(x, clusters, Linear(), key=key).labels,
        "kernel k-means": kernel_k_means(x, clusters, RBF(settings.scale), key=key).labels,
        "spectral clustering": spectral.labels,
    }
    right = {name: agreement(found, y) for name, found in labels.items()}
    for name, share in right.items():
        listener(f"{name}: {100 * share:.0f} % in the right cluster")
    scales, curves = _sweep(settings, x, y)
    components = KernelPCA(RBF(_WIDER * settings.scale), 2).fit(x)
    first = ", ".join(f"{value:.2g}" for value in spectral.eigenvalues[: clusters + 1])
    rows: list[list[Any]] = [[name, float(f"{share:.4g}")] for name, share in right.items()]
    return Outcome(
        [
            "In the right cluster: "
            + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in right.items())
            + ".",
            f"The first eigenvalues of the normalised Laplacian are {first}: as many are near zero as there are "
            "clusters that hardly touch.",
        ],
        [
            *(_scatter(name, x, found, right[name]) for name, found in labels.items()),
            Lines(
                "kernel-clusters-scales",
                "The scale decides",
                "scale of the kernel",
                "share in the right cluster",
                {name: (scales, np.array(shares)) for name, shares in curves.items()},
                log_x=True,
                marks=[(settings.scale, f"scale {settings.scale:g}")],
            ),
            Scatter(
                "kernel-clusters-components",
                "Kernel PCA of the same points",
                "first component",
                "second component",
                {name: components.codes[y == k] for k, name in enumerate(names)},
                caption="By their true cluster, along two axes of largest variance in feature space, with a kernel "
                f"{_WIDER} times as wide.",
            ),
        ],
        Table("kernel-clusters-table", "Points in the right cluster", ["method", "share"], rows),
        {
            "right": right,
            "eigenvalues": [float(v) for v in spectral.eigenvalues[:5]],
            "scales": {"scale": scales.tolist(), **curves},
        },
    )


def _sweep(
    settings: KernelClustersSettings, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, dict[str, list[float]]]:
    """Shares of points in the right cluster for scales around the one that is set."""
    scales = settings.scale * np.exp(np.linspace(-2.5, 2.5, 9))
    key, clusters = random.key(settings.seed, "starts"), int(y.max()) + 1
    curves: dict[str, list[float]] = {"kernel k-means": [], "spectral clustering": []}
    for scale in scales:
        kernel = RBF(float(scale))
        means = kernel_k_means(x, clusters, kernel, key=key, restarts=4)
        spectral = spectral_clustering(x, clusters, kernel, key=key, restarts=4)
        curves["kernel k-means"].append(agreement(means.labels, y))
        curves["spectral clustering"].append(agreement(spectral.labels, y))
    return scales, curves


def agreement(labels: np.ndarray, y: np.ndarray) -> float:
    """The share of points in the right cluster, whichever way clusters are numbered.

    >>> agreement(np.array([1, 1, 0]), np.array([0, 0, 0]))
    0.6666666666666666
    """
    counts = np.zeros((max(labels.max(), y.max()) + 1,) * 2)
    np.add.at(counts, (labels, y), 1)
    return float(counts[optimize.linear_sum_assignment(-counts)].sum() / len(y))


def _points(settings: KernelClustersSettings) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    found = data.load(settings.data, n=settings.n, noise=settings.noise, seed=settings.seed)
    parts = (found.train, found.val, found.test)
    x, y = (np.concatenate([np.asarray(getattr(part, name)) for part in parts]) for name in ("x", "y"))
    return x.astype(np.float64), y.astype(int), tuple(found.schema.classes)


def _scatter(name: str, x: np.ndarray, labels: np.ndarray, share: float) -> Scatter:
    return Scatter(
        f"kernel-clusters-{name.replace(' ', '-')}",
        f"Clusters by {name}",
        "first coordinate",
        "second coordinate",
        {f"cluster {k + 1}": x[labels == k] for k in range(labels.max() + 1)},
        caption=f"{100 * share:.0f} % of the points are in the right cluster.",
    )


experiment = Experiment(
    "Clusters of rings, moons or arms: k-means, kernel k-means and spectral clustering, and what the scale decides.",
    KernelClustersSettings,
    run,
    toy={"n": 40},
    reference="Ng, Jordan and Weiss, On spectral clustering: analysis and an algorithm, NeurIPS 2001",
)

__all__ = ["KernelClustersSettings", "agreement", "experiment", "run"]
