"""Measures of a space of codes: whether a class can be read from it, how evenly it is filled, how far from its prior.

All work on codes that are there already, in double precision; nothing is trained by gradients.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree
from scipy.stats import norm

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import CanDecode, CanEncode, Model
from chainrule.probability.classification import fit_gaussian_classes
from chainrule.probability.divergences import mmd

Codes = Float[np.ndarray, "rows size"]
Labels = Int[np.ndarray, " rows"]

_COMPARED = 1000
"""Codes that are compared with all others at most."""


class CodeSpread(NamedTuple):
    """How codes lie, beside a standard normal distribution of as many entries."""

    mean_length: float
    """Of the mean of all codes; 0 for the standard normal."""
    variances: Float[np.ndarray, " size"]
    """Of the covariance of the codes, largest first; all 1 for the standard normal."""
    anisotropy: float
    """The largest of them over the smallest that is not zero."""
    discrepancy: float
    """Maximum mean discrepancy from draws of the standard normal, 0 to 1.41."""
    discrepancy_floor: float
    """The same of two samples of the standard normal of this size: what no distribution goes below."""


def spread(codes: Codes, seed: int = 0) -> CodeSpread:
    """Mean, covariance and discrepancy of codes beside a standard normal distribution.

    >>> found = spread(np.random.default_rng(0).normal(size=(500, 2)))
    >>> found.discrepancy < 0.1, found.anisotropy < 1.5
    (True, True)
    """
    draw = np.random.default_rng(seed)
    variances = np.sort(np.linalg.eigvalsh(np.cov(codes.T, bias=True).reshape(codes.shape[1], -1)))[::-1]
    positive = variances[variances > 1e-12 * max(variances[0], 1e-300)]
    few = codes[:_COMPARED]
    one, other = draw.normal(size=(2, *few.shape))
    return CodeSpread(
        float(np.linalg.norm(codes.mean(axis=0))),
        variances,
        float(positive[0] / positive[-1]) if len(positive) else 1.0,
        float(mmd(few, one)),
        float(mmd(other, one)),
    )


def occupancy(plane: Float[np.ndarray, "rows 2"], side: int = 12) -> Float[np.ndarray, "side side"]:
    """The share of the codes in each cell of a plane that is cut into cells of equal probability under the prior.

    >>> occupancy(np.zeros((5, 2)), side=2).sum()
    np.float64(1.0)
    """
    cells = np.minimum((norm.cdf(plane) * side).astype(int), side - 1)
    counts = np.zeros((side, side))
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1.0)
    return counts / len(plane)


def empty_share(cells: Float[np.ndarray, "side side"], rows: int) -> tuple[float, float]:
    """The share of the cells without a code, and the one expected of as many codes from the prior."""
    return float((cells == 0).mean()), float((1 - 1 / cells.size) ** rows)


def neighbours(
    codes: Codes, among: Float[np.ndarray, "others size"], count: int
) -> Int[np.ndarray, "rows _"]:
    """The numbers of the nearest of other codes, nearest first.

    >>> neighbours(np.array([[0.1]]), np.array([[5.0], [0.0], [1.0]]), 2).tolist()
    [[1, 2]]
    """
    found = cKDTree(among).query(codes, k=min(count, len(among)))[1]
    return np.asarray(found).reshape(len(codes), -1)


def neighbour_error(codes: Codes, labels: Labels, count: int = 5) -> float:
    """How often the majority of a code's nearest others is of another class.

    >>> neighbour_error(np.array([[0.0], [1.0], [2.0], [8.0], [9.0]]), np.array([0, 0, 0, 1, 1]), 1)
    0.0
    """
    nearest = labels[neighbours(codes, codes, count + 1)[:, 1:]]
    votes = np.zeros((len(codes), int(labels.max()) + 1))
    np.add.at(votes, (np.arange(len(codes))[:, None], nearest), 1.0)
    return float((votes.argmax(axis=1) != labels).mean())


def silhouette(codes: Codes, labels: Labels) -> float:
    """Mean silhouette of the classes: 1 where they lie apart, 0 where they overlap (Rousseeuw, 1987).

    >>> round(silhouette(np.array([[0.0], [0.1], [9.0], [9.1]]), np.array([0, 0, 1, 1])), 2)
    0.99
    """
    few, own = codes[:_COMPARED], labels[:_COMPARED]
    apart = np.sqrt(np.square(few[:, None, :] - few[None, :, :]).sum(axis=2))
    classes, members = np.unique(own, return_inverse=True)
    one_hot = np.eye(len(classes))[members]
    sizes = one_hot.sum(axis=0)
    sums = apart @ one_hot
    at = np.arange(len(few)), members
    alone = sizes[members] < 2
    inside = sums[at] / np.maximum(sizes[members] - 1, 1)
    outside = sums / sizes[None, :]
    outside[at] = np.inf
    nearest = outside.min(axis=1)
    worth = np.where(alone, 0.0, (nearest - inside) / np.maximum(np.maximum(nearest, inside), 1e-300))
    return float(worth.mean()) if len(classes) > 1 else 0.0


def attribute_vector(
    codes: Codes, has: Bool[np.ndarray, " rows"], lacks: Bool[np.ndarray, " rows"] | None = None
) -> Float[np.ndarray, " size"]:
    """The mean code of examples that have an attribute, less that of those that lack it: all others unless told.

    >>> attribute_vector(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 3.0]]), np.array([False, True, True])).tolist()
    [3.0, 1.0]
    """
    without = ~has if lacks is None else lacks
    if not has.any() or not without.any():
        raise ArgumentError(
            f"attribute_vector: {int(has.sum())} examples have the attribute, {int(without.sum())} lack it",
            remedy="give some of both",
        )
    found: Float[np.ndarray, " size"] = codes[has].mean(axis=0) - codes[without].mean(axis=0)
    return found


def has_vector_codes(model: Model, schema: Schema) -> bool:
    """Whether a model gives every example a vector of numbers and makes examples of such vectors."""
    if not (isinstance(model, CanEncode) and isinstance(model, CanDecode)) or kinds.of(schema).has_tokens:
        return False
    codes = eqx.filter_eval_shape(model.encode, jnp.zeros((2, *schema.shape)))
    return codes.ndim == 2 and jnp.issubdtype(codes.dtype, jnp.floating)


def linear_probe(
    train: Float[np.ndarray, "others size"],
    train_labels: Int[np.ndarray, " others"],
    codes: Codes,
    labels: Labels,
) -> tuple[float, float]:
    """Accuracy with which linear discriminants of training codes read the class of others, and its standard error."""
    present = np.unique(train_labels)
    number = np.searchsorted(present, train_labels)
    found = fit_gaussian_classes(train, number, len(present), covariance="shared", regularisation=1e-6)
    directions = np.linalg.solve(found.covariances[0], found.means.T)
    offset = np.log(found.counts / found.counts.sum()) - 0.5 * (found.means.T * directions).sum(axis=0)
    said = present[(codes @ directions + offset[None]).argmax(axis=1)]
    right = said == labels
    return float(right.mean()), float(np.sqrt(right.mean() * (1 - right.mean()) / len(right)))


__all__ = [
    "CodeSpread",
    "attribute_vector",
    "empty_share",
    "has_vector_codes",
    "linear_probe",
    "neighbour_error",
    "neighbours",
    "occupancy",
    "silhouette",
    "spread",
]
