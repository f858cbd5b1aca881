"""The peers' side of the `latent` benchmark: scikit-learn and hmmlearn."""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import latent_problems as problems
import numpy as np
from protocol import Ready, serve, steady

warnings.filterwarnings("ignore")


def prepare(task: str) -> Ready:
    began = time.perf_counter()
    work, result, package = TASKS[task]()
    found = result(work())
    taken = time.perf_counter() - began
    return Ready(
        found,
        taken,
        {package: version(package)},
        lambda: steady(lambda count: [work() for _ in range(count)], 1),
    )


Task = tuple[Callable[[], Any], Callable[[Any], list[float]], str]


def pca() -> Task:
    """Axes and variances."""
    from sklearn.decomposition import PCA

    x = problems.rows()
    work = lambda: PCA(problems.KEPT).fit(x)  # noqa: E731
    scale = (len(x) - 1) / len(x)
    return work, lambda found: [float(v * scale) for v in found.explained_variance_], "scikit-learn"


def mixture() -> Task:
    """A few steps of EM from a given start."""
    from sklearn.mixture import GaussianMixture

    x = problems.rows()
    weights, means, covariances = problems.start(x)

    def work() -> GaussianMixture:
        return GaussianMixture(
            problems.COMPONENTS,
            tol=0.0,
            max_iter=problems.ITERATIONS,
            weights_init=weights,
            means_init=means,
            precisions_init=np.linalg.inv(covariances),
        ).fit(x)

    return work, lambda found: [float(found.lower_bound_)], "scikit-learn"


def hidden() -> Task:
    """Probabilities of states given all observations."""
    from hmmlearn.hmm import GaussianHMM

    first, transition, means, variances = problems.chain()
    model = GaussianHMM(problems.STATES, covariance_type="diag")
    model.startprob_, model.transmat_ = first, transition
    model.means_, model.covars_ = means[:, None], variances[:, None]
    y = problems.observations()[:, None]
    work = lambda: model.score_samples(y)  # noqa: E731
    return work, lambda found: [float(found[0]), *(float(p) for p in found[1][::10_000].ravel())], "hmmlearn"


TASKS: dict[str, Callable[[], Task]] = {"pca": pca, "mixture": mixture, "hidden": hidden}

if __name__ == "__main__":
    serve(prepare)
