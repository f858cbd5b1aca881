"""Support vector classifiers: the widest margin between every two classes, with C or with nu, and probabilities.

A border between two classes is `sum_i b_i k(x_i, x) + intercept = 0`, and few b_i are not zero. Examples closer to the
border than the margin cost C each for every unit; with nu in place of C, nu is the largest share of examples inside of
the margin and the least share of support vectors. Several classes are told apart in pairs, which vote.

References: Cortes and Vapnik, Support-vector networks, 1995; Schölkopf, Smola, Williamson and Bartlett, New support
vector algorithms, 2000; Chang and Lin, LIBSVM: a library for support vector machines, 2011.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.formatting import short_number
from chainrule.core.types import Key
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.support_vectors.basis import Basis, basis, check_basis, sums_at
from chainrule.kernels.support_vectors.calibration import coupled, pairs_of, sigmoid_of, votes
from chainrule.kernels.support_vectors.inputs import (
    checked_share,
    checked_weights,
    learnt_from,
    positive_number,
    spent,
)
from chainrule.kernels.support_vectors.labels import ClassWeights, coded, weighted
from chainrule.kernels.support_vectors.optimum import DualOptimum, Limits, filled
from chainrule.kernels.support_vectors.problem import posed

FOLDS = 5
"""Parts of the examples that are left out in turn to fit probabilities."""


@final
@dataclass(frozen=True)
class FittedClassifier:
    """What a support vector classifier learnt."""

    kernel: Kernel
    classes: np.ndarray
    support: Int[np.ndarray, " support"]
    """The support vectors, by number of training row."""
    points: Float[np.ndarray, "support features"]
    coefficients: Float[np.ndarray, "support pairs"]
    """Of every support vector in every pair of classes; positive ones are of the second class of the pair."""
    intercepts: Float[np.ndarray, " pairs"]
    sigmoids: Float[np.ndarray, "pairs 2"] | None
    """Slope and offset of the probability of the second class, where probabilities were asked for."""
    optima: tuple[DualOptimum, ...]
    """How well the problem of each pair was solved."""
    rows: int
    """How many examples it was learnt from."""

    def decision(
        self, x: Any = None, *, gram: Any = None
    ) -> Float[np.ndarray, "new pairs"] | Float[np.ndarray, " new"]:
        """Decision values: positive ones speak for the second class of a pair; one number where there is one pair.

        Where points are not at hand, here and below, `gram` holds their kernels with all training points, one row each.
        """
        values = self._values(x, gram)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, x: Any = None, *, gram: Any = None) -> np.ndarray:
        """The class with the most votes of pairs; the first of those with as many."""
        return self.classes[votes(self._values(x, gram), len(self.classes)).argmax(axis=1)]

    def probabilities(self, x: Any = None, *, gram: Any = None) -> Float[np.ndarray, "new classes"]:
        """Probabilities of the classes; the likeliest need not be the one with the most votes."""
        if self.sigmoids is None:
            raise CapabilityError(
                "probabilities: this machine was fitted without them",
                remedy="fit it with SupportVectorClassifier(probabilities=True)",
            )
        z = self._values(x, gram) * self.sigmoids[None, :, 0] + self.sigmoids[None, :, 1]
        with jax.enable_x64(True):
            return np.asarray(coupled(jnp.asarray(np.exp(-np.logaddexp(0, z))), len(self.classes)))

    def _values(self, x: Any, gram: Any = None) -> Float[np.ndarray, "new pairs"]:
        return sums_at(self, self.coefficients, x, gram) + self.intercepts[None, :]


@final
@dataclass(frozen=True)
class SupportVectorClassifier:
    """A classifier with the widest margin.

    With `approximate`, features stand for the kernel, `count` of them: time then grows with the number of rows.

    >>> from chainrule.kernels import Linear
    >>> machine = SupportVectorClassifier(Linear(), C=10.0)
    >>> machine = machine.fit([[0.0], [1.0], [3.0], [4.0]], ["low", "low", "high", "high"])
    >>> machine.predict([[0.5], [3.5]]).tolist(), machine.support.tolist()
    (['low', 'high'], [1, 2])
    """

    kernel: Kernel | None = None
    """RBF with `gamma = 1 / (D var(x))` unless given."""
    C: float = 1.0
    """The price of a unit inside of the margin."""
    nu: float | None = None
    """In place of C: the largest share of examples inside of the margin."""
    class_weights: ClassWeights = None
    """Factors of C for classes, `{class: factor}`, or `balanced`: by the inverse of their counts."""
    probabilities: bool = False
    """Whether probabilities are fitted, which takes five more fits."""
    tolerance: float = 1e-3
    """Of the duality gap, as a share of the objective, and of violations of the margin."""
    memory: int = 2**28
    """Bytes for rows of the Gram matrix."""
    steps: int = 10_000
    seed: int = 0
    """Which examples are left out together for probabilities."""
    approximate: str = "none"
    """Features in place of the kernel: `rff`, random Fourier features, or `nystrom`, landmarks."""
    count: int = 1024
    """How many features."""
    key: Key | None = None
    """Of features that are drawn."""

    def __post_init__(self) -> None:
        where = "SupportVectorClassifier"
        positive_number(where, "C", self.C, "it is the price of an example on the wrong side")
        if self.nu is not None:
            checked_share(where, self.nu)
            if self.C != 1.0:
                raise ArgumentError(
                    f"{where}(C={self.C}, nu={self.nu}): one of the two decides", remedy="give one"
                )
        check_basis(where, self.approximate, self.count)
        self._limits()

    def _limits(self) -> Limits:
        return Limits(self.tolerance, self.memory, self.steps)

    def fit(self, x: Any, y: Any, weights: Any = None) -> FittedClassifier:
        """Learn from rows and their classes; rows may have weights."""
        rows, kernel = learnt_from("fit", x, self.kernel)
        classes, numbers = coded("fit", y, len(rows))
        each = checked_weights("fit", weights, len(rows)) * weighted(
            "fit", self.class_weights, classes, numbers
        )
        if self.nu is not None:
            check_nu(self.nu, classes, numbers, each)
        ground = basis(kernel, rows, self.approximate, self.count, self.key)
        solved = self._pairs(ground, numbers, each)
        sigmoids = self._sigmoids(ground, classes, numbers, each) if self.probabilities else None
        return _fitted(ground, classes, solved, sigmoids)

    def _pairs(
        self, ground: Basis, numbers: np.ndarray, weights: np.ndarray, rows: np.ndarray | None = None
    ) -> "list[_Pair]":
        """The machine of every pair of classes, of some rows or of all."""
        kept = np.ones(len(numbers), bool) if rows is None else rows
        counts = np.bincount(numbers)
        pairs = pairs_of(len(counts))
        largest = filled(int(counts[pairs].sum(axis=1).max()))
        found = []
        for first, second in pairs:
            own = np.flatnonzero(((numbers == first) | (numbers == second)) & kept)
            size = filled(int(counts[[first, second]].sum()), largest)
            sign = np.where(numbers[own] == second, 1.0, -1.0)
            found.append(_pair(self, ground, own, sign, weights[own], size))
        return found

    def _sigmoids(
        self, ground: Basis, classes: np.ndarray, numbers: np.ndarray, weights: np.ndarray
    ) -> Float[np.ndarray, "pairs 2"]:
        """A sigmoid for every pair, from decision values of examples that were left out."""
        fold = folds_of(classes, numbers, self.seed)
        pairs = pairs_of(len(classes))
        values = np.zeros((len(numbers), len(pairs)))
        for part in range(fold.max() + 1):
            out = fold == part
            solved = self._pairs(ground, numbers, weights, ~out)
            values[out] = _fitted(ground, classes, solved, None)._values(ground.x[out])
        found = []
        for number, (first, second) in enumerate(pairs):
            own = (numbers == first) | (numbers == second)
            found.append(sigmoid_of(values[own, number], numbers[own] == second, weights[own]))
        return np.stack(found)


def check_nu(
    nu: float, classes: np.ndarray, numbers: Int[np.ndarray, " rows"], weights: Float[np.ndarray, " rows"]
) -> None:
    """Refuse a nu that no coefficients satisfy: each class of a pair carries half of the sum."""
    totals = np.bincount(numbers, weights)
    for first, second in pairs_of(len(classes)):
        most = 2 * min(totals[first], totals[second]) / (totals[first] + totals[second])
        if nu > most:
            few = classes[first if totals[first] < totals[second] else second].item()
            raise ArgumentError(
                f"nu={nu}: class {few!r} is too rare; nu can be {short_number(most)} at most",
                remedy="lower nu, or use C instead; class_weights=balanced weighs rare classes up",
            )


def folds_of(classes: np.ndarray, numbers: Int[np.ndarray, " rows"], seed: int) -> Int[np.ndarray, " rows"]:
    """The part to which each row belongs; every part has its share of every class."""
    counts = np.bincount(numbers)
    if counts.min() < 2:
        raise DataError(
            f"fit(probabilities=True): class {classes[counts.argmin()].item()!r} has one example; two are needed",
            remedy="leave the class out, or fit without probabilities",
        )
    folds = min(FOLDS, int(counts.min()))
    order = np.random.default_rng(seed).permutation(len(numbers))
    by_class = order[np.argsort(numbers[order], kind="stable")]
    position = np.arange(len(numbers)) - np.concatenate([[0], np.cumsum(counts)[:-1]])[numbers[by_class]]
    fold = np.empty(len(numbers), int)
    fold[by_class] = position % folds
    return fold


@final
@dataclass(frozen=True)
class _Pair:
    """The machine of one pair of classes."""

    rows: Int[np.ndarray, " rows"]
    coefficients: Float[np.ndarray, " rows"]
    intercept: float
    optimum: DualOptimum


def _pair(
    machine: SupportVectorClassifier,
    ground: Basis,
    own: np.ndarray,
    sign: Float[np.ndarray, " rows"],
    weights: np.ndarray,
    size: int,
) -> _Pair:
    limits = machine._limits()
    if machine.nu is None:
        bound = machine.C * weights
        problem = posed(-sign, np.minimum(sign * bound, 0), np.maximum(sign * bound, 0))
        found = ground.optimum(problem, np.zeros(len(own)), limits, own=own, size=size)
        return _Pair(own, found.coefficients, -float(found.thresholds[0]), found)
    half = 0.5 * machine.nu * weights.sum()
    start = np.zeros(len(own))
    for side in (1.0, -1.0):
        start[sign == side] = side * spent(weights[sign == side], half)
    bounds = np.minimum(sign * weights, 0), np.maximum(sign * weights, 0)
    problem = posed(np.zeros(len(own)), *bounds, group=np.where(sign > 0, 0, 1))
    found = ground.optimum(problem, start, limits, own=own, groups=2, size=size)
    margin = 0.5 * float(found.thresholds[0] - found.thresholds[1])
    if margin <= 0:
        raise DataError(
            f"fit(nu={machine.nu}): the classes leave no margin with so large a nu",
            remedy="lower nu, or use C instead",
        )
    scaled = replace(found, coefficients=found.coefficients / margin, thresholds=found.thresholds / margin)
    return _Pair(own, scaled.coefficients, -0.5 * float(scaled.thresholds.sum()), scaled)


def _fitted(
    ground: Basis, classes: np.ndarray, pairs: list[_Pair], sigmoids: np.ndarray | None
) -> FittedClassifier:
    every = np.zeros((len(ground.x), len(pairs)))
    for number, pair in enumerate(pairs):
        every[pair.rows, number] = pair.coefficients
    support = np.flatnonzero(every.any(axis=1))
    return FittedClassifier(
        ground.kernel,
        classes,
        support,
        ground.x[support],
        every[support],
        np.array([pair.intercept for pair in pairs]),
        sigmoids,
        tuple(pair.optimum for pair in pairs),
        len(ground.x),
    )


__all__ = ["FOLDS", "FittedClassifier", "SupportVectorClassifier", "check_nu", "folds_of"]
