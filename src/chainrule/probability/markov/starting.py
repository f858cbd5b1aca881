"""Where Baum-Welch begins: states from clusters of the observations, or from frequencies that are pulled apart."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Integer

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.probability.distributions import Categorical, MultivariateNormal
from chainrule.probability.markov.checks import in_numbers
from chainrule.probability.markov.emissions import FLOOR, in_double
from chainrule.probability.markov.hidden import HiddenMarkov

_MOST = 5_000
"""Observations that centres are sought among."""
_ROUNDS = 20
_GUESSES, _TRIES, _TRIED = 8, 10, 16_384
"""Guesses that are compared, iterations of each, and observations they are made on."""


def guess_symbols(key: Key, states: int, frequencies: Any) -> HiddenMarkov:
    """A model of symbols to begin with: every state has the frequencies of the data, pulled its own way.

    >>> guess_symbols(jax.random.key(0), 2, [6, 3, 1]).emission.probs.shape
    (2, 3)
    """
    count = whole("guess_symbols", "states", states)
    weights = np.asarray(frequencies, np.float64) + 0.5
    random = _random(key)
    pulled = weights * random.gamma(2.0, size=(count, len(weights)))
    transition = random.dirichlet(np.full(count, 2.0), size=count)
    with in_numbers():
        emission = in_double(Categorical(pulled / pulled.sum(axis=1, keepdims=True)))
    return HiddenMarkov(np.full(count, 1 / count), transition, emission)


def best_guess_of_symbols(
    key: Key, states: int, symbols: int, y: Integer[np.ndarray, "batch time"], *, pseudo_count: float = 0.0
) -> HiddenMarkov:
    """The likeliest of several guesses after a few iterations of Baum-Welch each, on some of the sequences.

    Baum-Welch climbs to a maximum nearby, and with few states about every other guess leads to a poor one.

    Reference: Biernacki, Celeux and Govaert, Choosing starting values for the EM algorithm for getting the highest
    likelihood in multivariate Gaussian mixture models, Computational Statistics and Data Analysis 41, 2003.
    """
    few = y[np.unique(np.linspace(0, len(y) - 1, max(_TRIED // y.shape[1], 1)).astype(int))]
    frequencies = np.bincount(y.ravel(), minlength=symbols)
    tried = [
        guess_symbols(one, states, frequencies).fit(few, steps=_TRIES, tolerance=0, pseudo_count=pseudo_count)
        for one in jax.random.split(key, _GUESSES)
    ]
    best = max(tried, key=lambda model: model.trace.log_likelihoods[-1] if model.trace else -np.inf)
    return HiddenMarkov(best.start, best.transition, best.emission)


def guess_gaussians(key: Key, states: int, y: Float[np.ndarray, "batch time features"]) -> HiddenMarkov:
    """A model of vectors to begin with: a state for each cluster, moves as often as between the clusters.

    >>> y = np.repeat([0.0, 5.0, 0.0], 20).reshape(1, 60, 1)
    >>> sorted(guess_gaussians(jax.random.key(0), 2, y).emission.mean.ravel().tolist())
    [0.0, 5.0]
    """
    count = whole("guess_gaussians", "states", states)
    points = y.reshape(-1, y.shape[-1]).astype(np.float64)
    if len(points) < count:
        raise ArgumentError(f"guess_gaussians(states={count}): only {len(points)} observations for them")
    random = _random(key)
    few = points if len(points) <= _MOST else points[random.choice(len(points), _MOST, replace=False)]
    centres = _clustered(few, count, random)
    nearest = _nearest(points, centres)
    spread = points.var(axis=0)
    least = FLOOR * spread.mean() + np.finfo(float).tiny
    covariances = np.stack(
        [
            np.cov(points[nearest == k].T, bias=True).reshape(len(spread), len(spread))
            if (nearest == k).sum() > len(spread)
            else np.diag(spread)
            for k in range(count)
        ]
    )
    covariances += (least + 1e-3 * spread.mean()) * np.eye(len(spread))
    paths = nearest.reshape(y.shape[:2])
    moves = np.ones((count, count))
    np.add.at(moves, (paths[:, :-1].ravel(), paths[:, 1:].ravel()), 1.0)
    start = 1.0 + np.bincount(paths[:, 0], minlength=count)
    with in_numbers():
        emission = in_double(MultivariateNormal(centres, covariances))
    return HiddenMarkov(start / start.sum(), moves / moves.sum(axis=1, keepdims=True), emission)


def _clustered(points: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """k-means from centres that are drawn far from each other (k-means++)."""
    centres = points[random.integers(len(points))][None]
    while len(centres) < count:
        far = np.square(points[:, None] - centres[None]).sum(axis=-1).min(axis=1)
        chance = far / far.sum() if far.sum() > 0 else np.full(len(points), 1 / len(points))
        centres = np.concatenate([centres, points[random.choice(len(points), p=chance)][None]])
    for _ in range(_ROUNDS):
        nearest = _nearest(points, centres)
        sizes = np.bincount(nearest, minlength=count)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return centres


def _nearest(points: np.ndarray, centres: np.ndarray) -> Integer[np.ndarray, " points"]:
    # |x - c|² without |x|², which is the same for all centres: no array of points × centres × features.
    return (np.square(centres).sum(axis=1)[None] - 2 * points @ centres.T).argmin(axis=1)


def _random(key: Key) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


__all__ = ["best_guess_of_symbols", "guess_gaussians", "guess_symbols"]
