"""Hard clusters of the deterministic bottleneck: every x in one cluster, H(Z) - beta I(Z; Y) as small as can be found.

Moving x to the cluster with the largest log p(z) - beta KL(p(y given x), p(y given z)) never raises the objective, and
stops early; joining the two clusters whose union is best goes on from there.
"""

import numpy as np
from scipy.special import xlogy

from chainrule.information.bottleneck_steps import BottleneckProblem

_ROUNDS = 200


def hard_clusters(
    problem: BottleneckProblem, beta: float, clusters: int, restarts: int, seed: int
) -> np.ndarray:
    """The best encoder of zeros and ones, from every x for itself and from random clusters."""
    inputs = len(problem.source)
    draws = np.random.default_rng(seed)
    starts = [np.arange(inputs) % clusters, *(draws.integers(clusters, size=inputs) for _ in range(restarts))]
    found = [_improved(problem, beta, labels, clusters) for labels in starts]
    best = min(found, key=lambda labels: _objective(problem, beta, np.eye(clusters)[labels]))
    return np.asarray(np.eye(clusters)[best])


def _improved(problem: BottleneckProblem, beta: float, labels: np.ndarray, clusters: int) -> np.ndarray:
    """Move and join in turn until neither helps."""
    for _ in range(_ROUNDS):
        before = labels
        labels = _joined(problem, beta, _moved(problem, beta, labels, clusters), clusters)
        if (labels == before).all():
            break
    return labels


def _moved(problem: BottleneckProblem, beta: float, labels: np.ndarray, clusters: int) -> np.ndarray:
    for _ in range(_ROUNDS):
        mass, decoder = problem.decoder(np.eye(clusters)[labels])
        logs = np.log(np.maximum(decoder, 1e-300))
        gain = np.log(np.maximum(mass, 1e-300)) + beta * problem.relevant @ logs.T
        stays = gain[np.arange(len(labels)), labels]
        better = np.where(gain.max(axis=1) > stays + 1e-12, gain.argmax(axis=1), labels)
        if (better == labels).all():
            break
        encoders = np.eye(clusters)[better], np.eye(clusters)[labels]
        if _objective(problem, beta, encoders[0]) >= _objective(problem, beta, encoders[1]):
            break
        labels = better
    return labels


def _joined(problem: BottleneckProblem, beta: float, labels: np.ndarray, clusters: int) -> np.ndarray:
    """Join pairs, the most profitable first, as long as one is."""
    while True:
        encoder = np.eye(clusters)[labels]
        mass = problem.source @ encoder
        with_y = (problem.source[:, None] * encoder).T @ problem.relevant
        own = _term(mass, with_y, beta)
        union = _term(mass[:, None] + mass[None], with_y[:, None] + with_y[None], beta)
        change = union - own[:, None] - own[None]
        change[(mass == 0)[:, None] | (mass == 0)[None] | np.eye(clusters, dtype=bool)] = np.inf
        first, second = np.unravel_index(int(change.argmin()), change.shape)
        if not change[first, second] < -1e-12:
            return labels
        labels = np.where(labels == second, first, labels)


def _term(mass: np.ndarray, with_y: np.ndarray, beta: float) -> np.ndarray:
    """What a cluster adds to H(Z) - beta I(Z; Y), but for a constant."""
    return np.asarray((beta - 1) * xlogy(mass, mass) - beta * xlogy(with_y, with_y).sum(axis=-1))


def _objective(problem: BottleneckProblem, beta: float, encoder: np.ndarray) -> float:
    mass = problem.source @ encoder
    with_y = (problem.source[:, None] * encoder).T @ problem.relevant
    return float(_term(mass, with_y, beta).sum())


__all__ = ["hard_clusters"]
