"""Information of values with noise: bounds from the distances between all pairs.

A value to which Gaussian noise is added is a draw from a mixture with a component for each example. The entropy of
such a mixture lies between two sums over pairs of components, with the Bhattacharyya distance and with the Kullback-
Leibler divergence between them. So what a noisy value tells of the example, or of its label, lies between two numbers
that cost no more than all distances.

Reference: Kolchinsky and Tracey, Estimating mixture entropy with pairwise distances, Entropy 19, 2017.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError
from chainrule.information.estimates.result import MutualInformationEstimate
from chainrule.information.estimates.samples import NotSuited, Variable, sentences

LOWER = 8.0
"""What squared distances are divided by, beside the variance of the noise, for the Bhattacharyya distance.

That of the Kullback-Leibler divergence, 2, is a quarter of it: its term is the fourth power."""
_BLOCK = 2**22
"""Distances in memory at once."""
_CEILING = 0.98
"""Share of the largest possible value above which the noise is too small to tell anything."""


class NoisyBounds(NamedTuple):
    """Bounds of the information a noisy value has about which of the examples it is of, in nats."""

    lower: float
    upper: float


def noisy_bounds(
    rows: Float[np.ndarray, "n features"], noise: float, weights: Float[np.ndarray, " n"] | None = None
) -> NoisyBounds:
    """Of the examples with these values when noise of this deviation is added to every entry.

    `weights` are the probabilities of the examples; none: each is as likely.

    >>> apart = noisy_bounds(np.array([[0.0], [100.0]]), 1.0)
    >>> [round(float(bound / np.log(2)), 6) for bound in apart]
    [1.0, 1.0]
    """
    # Distances are found by a product, in which large offsets would drown small differences.
    centred = (rows - rows.mean(axis=0)[None]) / noise
    squares = np.square(centred).sum(axis=1)
    likely = np.full(len(rows), 1 / len(rows)) if weights is None else weights
    size = max(1, _BLOCK // len(rows))
    sums = np.zeros(2)
    for first in range(0, len(rows), size):
        some = slice(first, first + size)
        apart = squares[some, None] + squares[None, :] - 2 * centred[some] @ centred.T
        # Every example is near itself, so that no sum vanishes.
        near = np.exp(np.minimum(-apart, 0.0) / LOWER)
        sums[0] -= likely[some] @ np.log(near @ likely)
        sums[1] -= likely[some] @ np.log(np.square(np.square(near)) @ likely)
    return NoisyBounds(*(float(max(bound, 0.0)) for bound in sums))


def noise_added(
    where: str, x: Variable, y: Variable, rng: np.random.Generator, *, noise: float = 0.1
) -> MutualInformationEstimate:
    """What y with noise (x, where y has labels) says about the label of the other, or about which example it is of."""
    del rng
    if not 0 < noise < np.inf:
        raise ArgumentError(
            f"{where}(noise={noise}): noise is the deviation of what is added and must be positive and finite"
        )
    if x.is_discrete and y.is_discrete:
        raise NotSuited(
            f'{where}(method="noise"): noise is added to numbers, and both are labels',
            remedy='method="binning" counts pairs of labels',
        )
    values, labels = (x.rows, y.labels) if y.is_discrete else (y.rows, x.labels)
    whole = noisy_bounds(values, noise)
    inner = NoisyBounds(0.0, 0.0) if labels is None else within_labels(values, labels, noise)
    about = "which example it is of" if labels is None else "the label"
    ceiling = np.log(len(values))
    return MutualInformationEstimate(
        "noise",
        whole.upper - inner.upper,
        (max(whole.lower - inner.upper, 0.0), whole.upper - inner.lower),
        "nats",
        "estimate",
        "certain for these examples as all there is",
        sentences(
            [
                f"It is what values with noise of deviation {noise:g} say about {about}, and changes with the noise.",
                f"It is as much as {len(values):,} examples can be told apart: the noise is too small to say anything."
                if labels is None and whole.upper > _CEILING * ceiling
                else "",
            ]
        ),
        len(values),
        None,
        {"lower": whole.lower, "upper": whole.upper},
    )


def within_labels(
    values: Float[np.ndarray, "n features"], labels: Int[np.ndarray, " n"], noise: float
) -> NoisyBounds:
    """The same given the label, on average."""
    found = np.zeros(2)
    for label in np.unique(labels):
        same = values[labels == label]
        found += len(same) / len(values) * np.array(noisy_bounds(same, noise))
    return NoisyBounds(float(found[0]), float(found[1]))


__all__ = ["LOWER", "NoisyBounds", "noise_added", "noisy_bounds", "within_labels"]
