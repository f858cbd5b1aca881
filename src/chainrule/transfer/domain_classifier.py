"""Domain classifier: logistic regression that tells two samples apart, every row judged by folds without it.

What it cannot do is as telling as what it can: by Bayes' rule its odds are the ratio of the two densities, and its
error on rows it has not seen bounds a distance of the domains. It is fitted on the features as they are and on random
Fourier features beside them, with several penalties; held-out cross-entropy decides. All folds and penalties are solved
by Newton's method in one compiled program.
"""

import math
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array
from chainrule.kernels.functions import RBF
from chainrule.kernels.precision import in_double
from chainrule.kernels.random_features import RandomFourierFeatures
from chainrule.probability.divergences.kernel_mean import median_distance

Basis = Literal["auto", "linear", "fourier"]
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)
"""Tried ones, per example."""
FOLDS = 5
_STEPS = 10
_FREQUENCIES = 64
_DIRECTIONS = 128
"""Principal components that stand for longer rows."""
_COMPARED = 500


class DomainJudgement(NamedTuple):
    """Held-out judgements of a classifier of domains."""

    log_odds: Float[np.ndarray, " rows"]
    """Of the target against the source, domains taken as equally frequent, for source rows and then target rows."""
    error: float
    """Its held-out error, the mean of those on the two domains."""
    cross_entropy: float
    """In nats, held out."""
    basis: str
    penalty: float


@in_double
def judge_domains(
    source: Float[Array, "rows features"],
    target: Float[Array, "others features"],
    *,
    basis: str = "auto",
    folds: int | None = None,
    seed: int = 0,
) -> DomainJudgement:
    """The best of several classifiers by held-out cross-entropy; five folds, fewer where a domain has fewer rows.

    >>> rng = np.random.default_rng(0)
    >>> found = judge_domains(rng.normal(size=(100, 2)), 9 + rng.normal(size=(100, 2)))
    >>> found.error
    0.0
    """
    check_choice("judge_domains", "basis", basis, get_args(Basis))
    fewest = min(len(source), len(target))
    if fewest < 2:
        raise ArgumentError(
            f"judge_domains: {len(source)} source and {len(target)} target examples",
            remedy="give two or more of each: some are judged by the others",
        )
    folds = folds_of("judge_domains", folds, fewest)
    pooled = jnp.concatenate([jnp.asarray(source), jnp.asarray(target)])
    labels = jnp.concatenate([jnp.zeros(len(source)), jnp.ones(len(target))])
    fold = jnp.asarray(_folds(len(source), len(target), folds, seed))
    tried = {}
    for name in ("linear", "fourier") if basis == "auto" else (basis,):
        psi = _features(pooled, name, len(source), seed)
        tried[name] = _held_out(psi, labels, fold, folds, jnp.asarray(PENALTIES))
    losses = {name: np.asarray(loss) for name, (_, loss) in tried.items()}
    best = min(losses, key=lambda name: float(losses[name].min()))
    at = int(losses[best].argmin())
    logits = np.asarray(tried[best][0])[at]
    wrong = (logits > 0) != (np.asarray(labels) > 0.5)
    error = float(wrong[: len(source)].mean() + wrong[len(source) :].mean()) / 2
    return DomainJudgement(logits, error, float(losses[best][at]), best, PENALTIES[at])


def folds_of(where: str, folds: int | None, fewest: int) -> int:
    """How many folds there are where the smaller domain has so many rows, each of which needs one of both.

    >>> folds_of("judge_domains", None, 3)
    3
    """
    if folds is None:
        return min(FOLDS, fewest)
    if not 2 <= whole(where, "folds", folds) <= fewest:
        raise ArgumentError(f"{where}(folds={folds}): between 2 and {fewest}, the rows of the smaller domain")
    return folds


def _folds(first: int, second: int, folds: int, seed: int) -> Int[np.ndarray, " rows"]:
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.arange(count) % folds) for count in (first, second)])


def _features(pooled: Array, basis: str, first: int, seed: int) -> Float[Array, "rows count"]:
    """Standardised numbers, or the principal components of many, then cosines where they are wanted, then a one."""
    spread = pooled.std(axis=0, keepdims=True)
    plain = (pooled - pooled.mean(axis=0, keepdims=True)) / jnp.where(spread > 0, spread, 1.0)
    if plain.shape[1] > _DIRECTIONS:
        plain = principal_scores(plain, _DIRECTIONS)
    parts = [plain]
    if basis == "fourier":
        few = (
            plain[part][:: max(1, len(plain[part]) // _COMPARED)]
            for part in (slice(first), slice(first, None))
        )
        kernel = RBF(median_distance(*few))
        drawn = RandomFourierFeatures(
            kernel, plain.shape[1], frequencies=_FREQUENCIES, key=jax.random.key(seed)
        )
        parts.append(drawn(plain) * math.sqrt(_FREQUENCIES))
    return jnp.concatenate([*parts, jnp.ones((len(plain), 1))], axis=1)


@eqx.filter_jit
def principal_scores(x: Float[Array, "rows features"], count: int) -> Float[Array, "rows count"]:
    """The leading principal components of rows, by the smaller of the two matrices of inner products.

    >>> principal_scores(jnp.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]), 1).shape
    (2, 1)
    """
    centred = x - x.mean(axis=0, keepdims=True)
    count = min(count, *x.shape)
    if x.shape[1] <= x.shape[0]:
        return centred @ jnp.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count]
    values, vectors = jnp.linalg.eigh(centred @ centred.T)
    return (vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None])[:, ::-1][:, :count]


@eqx.filter_jit
def _held_out(
    psi: Array, labels: Array, fold: Array, folds: int, penalties: Array
) -> tuple[Float[Array, "penalties rows"], Float[Array, " penalties"]]:
    """Logits of each row by the fit without its fold, and their mean cross-entropy, for each penalty.

    Both domains weigh the same whatever their sizes, so that zero is the boundary of equally likely ones.
    """
    second = labels.mean()
    weight = jnp.where(labels > 0.5, 0.5 / second, 0.5 / (1 - second))

    def solved(penalty: Array, held: Array) -> Array:
        counted = weight * (fold != held)
        return _newton(psi, labels, counted / counted.sum(), penalty)

    each = jax.vmap(jax.vmap(solved, (None, 0)), (0, None))(penalties, jnp.arange(folds))
    logits = jnp.einsum("rf,pkf->pkr", psi, each)
    own = jnp.take_along_axis(logits, fold[None, None, :], axis=1)[:, 0]
    losses = jnp.logaddexp(0.0, own) - labels[None] * own
    return own, (losses * weight[None]).mean(axis=1)


def _newton(psi: Array, labels: Array, weight: Array, penalty: Array) -> Float[Array, " count"]:
    """The weights of least penalised cross-entropy; the last feature, a one, is not penalised."""
    ridge = penalty * jnp.ones(psi.shape[1]).at[-1].set(1e-8)
    steps = jnp.array([1.0, 0.5, 0.25, 0.1, 0.0])

    def loss(w: Array) -> Array:
        logits = psi @ w
        return (weight * (jnp.logaddexp(0.0, logits) - labels * logits)).sum() + (ridge * w * w).sum() / 2

    def step(_: Array, w: Array) -> Array:
        chance = jax.nn.sigmoid(psi @ w)
        gradient = psi.T @ (weight * (chance - labels)) + ridge * w
        hessian = (psi * (weight * chance * (1 - chance))[:, None]).T @ psi + jnp.diag(ridge + 1e-10)
        direction = jax.scipy.linalg.solve(hessian, gradient, assume_a="pos")
        candidates = w[None] - steps[:, None] * direction[None]
        return candidates[jnp.argmin(jax.vmap(loss)(candidates))]

    return jax.lax.fori_loop(0, _STEPS, step, jnp.zeros(psi.shape[1]))


__all__ = ["FOLDS", "PENALTIES", "DomainJudgement", "folds_of", "judge_domains", "principal_scores"]
