"""What hidden states emit: parameters from weighted observations, one function for each family of distributions.

All of it runs where JAX computes in double precision.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.probability.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    MultivariateNormal,
    Normal,
)
from chainrule.probability.distributions.covariances import Diagonal
from chainrule.probability.markov.checks import in_numbers

FLOOR = 1e-6
"""Variances stay above this share of the variance of all observations: a state must not collapse on one of them."""


def in_double(tree: Any) -> Any:
    """The same with arrays of double precision."""
    with in_numbers():
        return jax.tree.map(lambda array: jnp.asarray(np.asarray(array, np.float64)), tree)


@functools.singledispatch
def condensed(emission: Distribution, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted observations that are the same to `refit`, and fewer where many are alike."""
    del emission
    return y, weights


@condensed.register
def _(emission: Categorical, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    symbols = emission.log_probs.shape[-1]
    counts = [np.bincount(y.astype(int), one, minlength=symbols) for one in weights.T]
    return np.arange(symbols), np.stack(counts, axis=1)


@functools.singledispatch
def refit(
    emission: Distribution, y: np.ndarray, weights: np.ndarray, pseudo_count: float
) -> tuple[Distribution, np.ndarray]:
    """The emission that makes weighted observations most likely, and which states are held up by a floor.

    `y` is (observations, *event), `weights` (observations, states): how much of each observation is of each state.
    """
    del y, weights, pseudo_count
    raise CapabilityError(
        f"HiddenMarkov.fit: no rule for fitting {type(emission).__name__}",
        remedy="emit Categorical, Bernoulli, Normal or MultivariateNormal, or maximise log_prob by gradients",
    )


@refit.register
def _(
    emission: Categorical, y: np.ndarray, weights: np.ndarray, pseudo_count: float
) -> tuple[Distribution, np.ndarray]:
    counts = condensed(emission, y, weights)[1].T + pseudo_count
    return in_double(Categorical(_shares(counts, np.exp(emission.log_probs)))), np.zeros(len(counts), bool)


@refit.register
def _(
    emission: Bernoulli, y: np.ndarray, weights: np.ndarray, pseudo_count: float
) -> tuple[Distribution, np.ndarray]:
    ones = np.stack([weights.T @ (1 - y), weights.T @ y], axis=1) + pseudo_count
    before = np.asarray(emission.mean, np.float64)
    shares = _shares(ones, np.stack([1 - before, before], axis=1))
    return in_double(Bernoulli(shares[:, 1])), np.zeros(len(shares), bool)


@refit.register
def _(
    emission: Normal, y: np.ndarray, weights: np.ndarray, pseudo_count: float
) -> tuple[Distribution, np.ndarray]:
    del pseudo_count
    seen = weights.sum(axis=0)
    share = np.divide(weights, seen, out=np.zeros_like(weights), where=seen > 0)
    mean = np.where(seen > 0, share.T @ y, emission.mean)
    variance = np.einsum("ts,ts->s", share, np.square(y[:, None] - mean))
    variance = np.where(seen > 0, variance, np.square(emission.scale))
    least = FLOOR * y.var() + np.finfo(float).tiny
    return in_double(Normal(mean, np.sqrt(np.maximum(variance, least)))), variance < least


@refit.register
def _(
    emission: MultivariateNormal, y: np.ndarray, weights: np.ndarray, pseudo_count: float
) -> tuple[Distribution, np.ndarray]:
    del pseudo_count
    seen = weights.sum(axis=0)
    share = np.divide(weights, seen, out=np.zeros_like(weights), where=seen > 0)
    mean = np.where(seen[:, None] > 0, share.T @ y, emission.mean)
    least = FLOOR * y.var(axis=0).mean() + np.finfo(float).tiny
    if isinstance(emission.structure, Diagonal):
        variance = np.stack([w @ np.square(y - m) for w, m in zip(share.T, mean, strict=True)])
        variance = np.where(seen[:, None] > 0, variance, emission.variance)
        floored = (variance < least).any(axis=1)
        return in_double(MultivariateNormal(mean, Diagonal(np.maximum(variance, least)))), floored
    centred = ((y - m) * np.sqrt(w)[:, None] for w, m in zip(share.T, mean, strict=True))
    covariance = np.stack([one.T @ one for one in centred])
    covariance = np.where(seen[:, None, None] > 0, covariance, emission.covariance)
    values, vectors = np.linalg.eigh(covariance)
    floored = (values < least).any(axis=1)
    held = np.einsum("sik,sk,sjk->sij", vectors, np.maximum(values, least), vectors)
    return in_double(MultivariateNormal(mean, np.where(floored[:, None, None], held, covariance))), floored


def _shares(counts: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Counts as probabilities; what was never seen stays as it was."""
    total = counts.sum(axis=1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), before)


__all__ = ["FLOOR", "condensed", "in_double", "refit"]
