"""Gaussian classes from examples, in closed form and double precision: discriminant analysis and naive Bayes.

Means and covariances of the classes are those of maximum likelihood. A covariance is one of all classes together
(linear discriminant analysis), one of each (quadratic), or variances alone (Gaussian naive Bayes). It may be shrunk to
a multiple of the identity, `(1 - s) C + s tr(C)/d I`, by a given s or by that of Ledoit and Wolf, which minimises the
expected squared error. Directions in which a class does not vary have no density; their variance is raised to a floor,
and how many there were is part of the answer.

References: Hastie, Tibshirani and Friedman, The Elements of Statistical Learning, section 4.3; Ledoit and Wolf, A
well-conditioned estimator for large-dimensional covariance matrices, Journal of Multivariate Analysis 88, 2004.
"""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, check_choice

ClassCovariances = Literal["shared", "per-class", "diagonal"]
KINDS: tuple[ClassCovariances, ...] = ("shared", "per-class", "diagonal")

Rows = Float[np.ndarray, "rows features"]


class GaussianClasses(NamedTuple):
    """What was found; `sets` is 1 where all classes share a covariance, else the number of classes."""

    counts: Float[np.ndarray, " classes"]
    """Examples of each class, by their weights."""
    means: Float[np.ndarray, "classes features"]
    covariances: Float[np.ndarray, "sets features *features"]
    """Matrices, or variances alone."""
    shrinkage: Float[np.ndarray, " sets"]
    raised: Int[np.ndarray, " sets"]
    """Directions whose variance was raised to the floor."""
    floor: float
    """The least variance in any direction."""


def fit_gaussian_classes(
    x: Rows,
    y: Int[np.ndarray, " rows"],
    classes: int,
    *,
    covariance: str = "shared",
    shrinkage: float | Literal["auto"] = 0.0,
    regularisation: float = 1e-6,
    added: float = 0.0,
    weights: Float[np.ndarray, " rows"] | None = None,
) -> GaussianClasses:
    """Means and covariances of classes, from rows and the number of each row's class.

    `shrinkage` "auto" is that of Ledoit and Wolf; variances alone are not shrunk by it. `regularisation` is the floor
    as a share of the mean variance of a feature over all rows. `added` is a variance that noise adds to every entry.

    >>> rows = np.array([[0.0, 0.0], [2.0, 0.0], [5.0, 1.0], [7.0, 1.0]])
    >>> found = fit_gaussian_classes(rows, np.array([0, 0, 1, 1]), 2)
    >>> found.means.tolist(), found.raised.tolist()  # the second feature never varies within a class
    ([[1.0, 0.0], [6.0, 1.0]], [1])
    """
    check_choice("fit_gaussian_classes", "covariance", covariance, KINDS)
    x = np.asarray(x, np.float64)
    each = np.ones(len(x)) if weights is None else np.asarray(weights, np.float64)
    members = np.zeros((len(x), classes))
    members[np.arange(len(x)), y] = each
    counts = members.sum(axis=0)
    if not (counts > 0).all():
        raise ArgumentError(
            f"fit_gaussian_classes: class {int(np.flatnonzero(counts <= 0)[0])} has no examples",
            remedy="leave the class out, or give examples of it",
        )
    means = members.T @ x / counts[:, None]
    apart = x - means[y]
    middle = np.average(x, axis=0, weights=each)
    variance = float(np.average((x - middle) ** 2, axis=0, weights=each).mean()) + added
    floor = regularisation * (variance if variance > 0 else 1.0)
    parts = (
        [(apart, each)] if covariance == "shared" else [(apart[y == k], each[y == k]) for k in range(classes)]
    )
    one = _variances if covariance == "diagonal" else _matrix
    found = [one(rows, share, shrinkage, added, floor) for rows, share in parts]
    matrices, shares, raised = zip(*found, strict=True)
    return GaussianClasses(counts, means, np.stack(matrices), np.array(shares), np.array(raised), floor)


def _variances(
    rows: Rows, weights: np.ndarray, shrinkage: float | Literal["auto"], added: float, floor: float
) -> tuple[np.ndarray, float, int]:
    share = 0.0 if shrinkage == "auto" else shrinkage
    found = np.average(rows**2, axis=0, weights=weights)
    found = (1 - share) * found + share * found.mean() + added
    return np.maximum(found, floor), share, int((found < floor).sum())


def _matrix(
    rows: Rows, weights: np.ndarray, shrinkage: float | Literal["auto"], added: float, floor: float
) -> tuple[np.ndarray, float, int]:
    found = _covariance(rows, weights)
    share = _ledoit_wolf(rows, weights, found) if shrinkage == "auto" else shrinkage
    features = len(found)
    found = (1 - share) * found + (share * np.trace(found) / features + added) * np.eye(features)
    if _above(found, floor):
        return found, share, 0
    values, vectors = np.linalg.eigh(found)
    low = int((values < floor).sum())
    if low:
        found = (vectors * np.maximum(values, floor)) @ vectors.T
        found = (found + found.T) / 2
    return found, share, low


def _above(matrix: Float[np.ndarray, "features features"], floor: float) -> bool:
    """Whether all eigenvalues are above the floor: a factorisation tells, at a hundredth of the time they take.

    >>> _above(np.diag([2.0, 1.0]), 0.5), _above(np.diag([2.0, 0.1]), 0.5)
    (True, False)
    """
    try:
        np.linalg.cholesky(matrix - floor * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


def ledoit_wolf(apart: Rows, weights: Float[np.ndarray, " rows"] | None = None) -> float:
    """The shrinkage of Ledoit and Wolf for rows from which their mean was taken away.

    >>> rows = np.random.default_rng(0).normal(size=(2000, 3)) * [1.0, 2.0, 3.0]
    >>> ledoit_wolf(rows - rows.mean(axis=0)) < 0.01 < ledoit_wolf(rows[:10] - rows[:10].mean(axis=0))
    True
    """
    each = np.ones(len(apart)) if weights is None else weights
    return _ledoit_wolf(apart, each, _covariance(apart, each))


def _covariance(apart: Rows, weights: Float[np.ndarray, " rows"]) -> Float[np.ndarray, "features features"]:
    return (weights[:, None] * apart).T @ apart / weights.sum()


def _ledoit_wolf(
    apart: Rows, each: Float[np.ndarray, " rows"], covariance: Float[np.ndarray, "features features"]
) -> float:
    total, features = each.sum(), apart.shape[1]
    squared = apart**2
    length = float((covariance**2).sum())
    middle = float(np.trace(covariance)) / features
    away = length - features * middle**2
    fourth = float(each @ squared.sum(axis=1) ** 2) / total
    noise = min((fourth - length) / total, away)
    return float(noise / away) if noise > 0 and away > 0 else 0.0


__all__ = ["KINDS", "ClassCovariances", "GaussianClasses", "fit_gaussian_classes", "ledoit_wolf"]
