"""The peer's side of the `information_estimates` benchmark: scikit-learn's estimators by nearest neighbours."""

import time
from collections.abc import Callable
from importlib.metadata import version

import estimate_problems as problems
from protocol import Ready, serve, steady


def prepare(task: str, count: int) -> Ready:
    began = time.perf_counter()
    work = TASKS[task](count)
    found = work()
    taken = time.perf_counter() - began
    return Ready(
        [found],
        taken,
        {"scikit-learn": version("scikit-learn")},
        lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1),
    )


def numbers(count: int) -> Callable[[], float]:
    """Of two numbers."""
    from sklearn.feature_selection import mutual_info_regression

    x, y = problems.pairs(count)
    return lambda: float(
        mutual_info_regression(x[:, None], y, n_neighbors=problems.NEIGHBOURS, random_state=0)[0]
    )


def labels(count: int) -> Callable[[], float]:
    """Of a number and a label."""
    from sklearn.feature_selection import mutual_info_classif

    x, y = problems.labelled(count)
    return lambda: float(
        mutual_info_classif(x[:, None], y, n_neighbors=problems.NEIGHBOURS, random_state=0)[0]
    )


TASKS = {"numbers": numbers, "labels": labels}

if __name__ == "__main__":
    serve(prepare)
