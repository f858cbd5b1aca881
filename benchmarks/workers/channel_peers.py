"""The peers' side of the `information_channels` benchmark: NumPy by the book, and dit."""

import time
from collections.abc import Callable
from importlib.metadata import version

import channel_problems as problems
import numpy as np
from protocol import Ready, serve, steady


def prepare(package: str, task: str, size: int) -> Ready:
    began = time.perf_counter()
    work = TASKS[package, task](size)
    found = work()
    taken = time.perf_counter() - began
    return Ready(
        [found],
        taken,
        {package: version(package)},
        lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1),
    )


def numpy_capacity(size: int) -> Callable[[], float]:
    """Blahut and Arimoto's iteration as textbooks have it, until its two bounds meet."""
    matrix = problems.channel(size)

    def work() -> float:
        p = np.full(len(matrix), 1 / len(matrix))
        while True:
            output = p @ matrix
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(matrix > 0, matrix * np.log(matrix / output), 0.0)
            divergence = terms.sum(axis=1)
            weights = p * np.exp(divergence)
            lower = np.log(weights.sum())
            if (divergence.max() - lower) / np.log(2) <= problems.TOLERANCE:
                return float(lower / np.log(2))
            p = weights / weights.sum()

    return work


def dit_capacity(size: int) -> Callable[[], float]:
    """dit's own, which takes a matrix of conditional probabilities."""
    from dit.algorithms import channel_capacity

    matrix = problems.channel(size)
    return lambda: float(channel_capacity(matrix, rtol=1e-12, atol=problems.TOLERANCE)[0])


def numpy_bottleneck(size: int) -> Callable[[], float]:
    """The three equations in turn from random starts, one start after another; the best objective in bits."""
    joint = problems.joint(size)
    p_x = joint.sum(axis=1)
    given_x = joint / p_x[:, None]

    def objective(codes: np.ndarray) -> float:
        def shared(table: np.ndarray) -> float:
            outer = np.outer(table.sum(axis=1), table.sum(axis=0))
            with np.errstate(divide="ignore", invalid="ignore"):
                return float(np.where(table > 0, table * np.log(table / outer), 0.0).sum())

        return shared(p_x[:, None] * codes) - problems.BETA * shared(codes.T @ joint)

    def solved(codes: np.ndarray) -> float:
        last = np.inf
        for _ in range(problems.SWEEPS):
            p_z = p_x @ codes
            given_z = (codes.T @ joint) / p_z[:, None]
            divergence = (given_x[:, None] * np.log(given_x[:, None] / given_z[None])).sum(axis=2)
            logits = np.log(p_z) - problems.BETA * divergence
            codes = np.exp(logits - logits.max(axis=1, keepdims=True))
            codes /= codes.sum(axis=1, keepdims=True)
            now = objective(codes)
            if last - now <= problems.STILL:
                break
            last = now
        return now

    def work() -> float:
        draws = np.random.default_rng(0)
        starts = draws.dirichlet(np.ones(size), (problems.STARTS, size))
        return min(solved(codes) for codes in starts) / np.log(2)

    return work


TASKS = {
    ("numpy", "capacity"): numpy_capacity,
    ("dit", "capacity"): dit_capacity,
    ("numpy", "bottleneck"): numpy_bottleneck,
}

if __name__ == "__main__":
    serve(prepare)
