"""Label shift: classes that are more or less frequent in the target, told from predictions alone.

Where a class looks the same in both domains and only its share differs, what a classifier answers on the target is its
confusion on the source, mixed by the shares of the target. Inverting the confusion matrix gives these shares without a
label of the target, and with them weights of source examples and corrected probabilities. Aligning features cannot do
this: it hurts where shares differ.

References: Lipton, Wang and Smola, Detecting and correcting for label shift with black box predictors, 2018,
arXiv:1802.03916; Saerens, Latinne and Decaestecker, Adjusting the outputs of a classifier to new a priori
probabilities, 2002.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.dataset import Data
from chainrule.data.splits import Rows

Shares = Float[np.ndarray, " classes"]
_DRAWS = 200
"""Resamples that standard errors are taken over."""
_WORST = 1e4
"""Condition of a confusion matrix from which on its inverse says nothing."""


@final
@dataclass(frozen=True)
class LabelShift:
    """Shares of classes in both domains."""

    source: Shares
    target: Shares
    """Estimated; not negative, and one in sum."""
    errors: Shares
    """Standard errors of the shares of the target, over resampled examples of both domains."""
    condition: float
    """Of the confusion matrix: by how much chance in the answers is enlarged at most."""

    @property
    def weights(self) -> Shares:
        """What an example of each class counts for: its share in the target over that in the source."""
        return np.asarray(self.target / self.source)

    def corrected(self, probabilities: Any) -> Float[np.ndarray, "rows classes"]:
        """Class probabilities of target examples, as they are where classes have the shares of the target."""
        p = _answers("corrected", "probabilities", probabilities, len(self.source)) * self.weights[None]
        total = p.sum(axis=1, keepdims=True)
        # An answer that allows only for classes the target is found to lack says nothing: shares alone are left.
        return np.asarray(np.where(total > 0, p / np.where(total > 0, total, 1.0), self.target[None]))

    def applied(self, data: Data) -> Data:
        """The source with these weights on its training examples, by their classes."""
        if not isinstance(data.train, Rows) or len(data.schema.classes) != len(self.source):
            raise DataError(
                f"{data.name}: rows of {len(self.source)} classes take these weights",
                remedy="apply them to the source they were found with",
            )
        weight = self.weights[np.asarray(data.train.y)].astype(np.float32)
        return replace(data, train=replace(data.train, arrays={**data.train.arrays, "weight": weight}))


def label_shift(predicted: Any, y: Any, target_predicted: Any, *, seed: int = 0) -> LabelShift:
    """The shares of classes in the target, from answers of one classifier for held-out examples of both domains.

    `predicted` are its probabilities (rows, classes) for source examples of the classes `y`, `target_predicted` those
    for the target. Examples that it learned from will not do: it is surer of them than of others.

    >>> answers, y = np.eye(2)[[0, 0, 0, 1, 1, 1]] * 0.8 + 0.1, np.array([0, 0, 0, 1, 1, 1])
    >>> label_shift(answers, y, np.concatenate([answers, answers[:3]])).target.round(3).tolist()
    [0.667, 0.333]
    """
    p = _answers("label_shift", "predicted", predicted)
    q = _answers("label_shift", "target_predicted", target_predicted, p.shape[1])
    classes = np.asarray(y)
    if classes.shape != (len(p),) or classes.dtype.kind not in "iu":
        raise ArgumentError(
            f"label_shift: y has shape {classes.shape} and type {classes.dtype} for {len(p)} predictions",
            remedy="give one class number for each prediction",
        )
    check_class_numbers("label_shift", "y", classes, p.shape[1])
    counts = np.bincount(classes, minlength=p.shape[1])
    if (counts == 0).any():
        raise ArgumentError(
            f"label_shift: no source example is of class {int(counts.argmin())}",
            remedy="give examples of every class",
        )
    confusion = _confusion(p, classes)
    condition = float(np.linalg.cond(confusion))
    if not condition < _WORST:
        raise ArgumentError(
            f"label_shift: the answers hardly tell the classes apart (condition {condition:.2g})",
            remedy="use a better classifier, or fewer classes",
        )
    random = np.random.default_rng(seed)
    resampled = [
        _solved(_confusion(p[own], classes[own]), q[random.integers(len(q), size=len(q))])
        for own in (_redrawn(classes, random) for _ in range(_DRAWS))
    ]
    return LabelShift(counts / len(p), _solved(confusion, q), np.std(resampled, axis=0, ddof=1), condition)


def _answers(
    where: str, name: str, given: Any, classes: int | None = None
) -> Float[np.ndarray, "rows classes"]:
    p = np.asarray(given, np.float64)
    wanted = "two or more" if classes is None else classes
    if p.ndim != 2 or not len(p) or p.shape[1] < 2 or (classes is not None and p.shape[1] != classes):
        raise ArgumentError(
            f"{where}: {name} has shape {p.shape}",
            remedy=f"give probabilities (rows, classes) of {wanted} classes",
        )
    if not (p >= 0).all() or np.abs(p.sum(axis=1) - 1).max() > 1e-3:
        raise ArgumentError(
            f"{where}: rows of {name} are no probabilities",
            remedy="give those of model.predict, or one-hot rows for classes alone",
        )
    return p


def _confusion(
    p: Float[np.ndarray, "rows classes"], y: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, "classes classes"]:
    """Column j: the mean answer for examples of class j."""
    return np.stack([p[y == label].mean(axis=0) for label in range(p.shape[1])], axis=1)


def _solved(confusion: Float[np.ndarray, "classes classes"], q: Float[np.ndarray, "rows classes"]) -> Shares:
    shares = np.maximum(np.linalg.lstsq(confusion, q.mean(axis=0), rcond=None)[0], 0.0)
    return np.asarray(shares / shares.sum())


def _redrawn(y: Int[np.ndarray, " rows"], random: np.random.Generator) -> Int[np.ndarray, " rows"]:
    """Rows drawn anew within every class, so that none is lost."""
    groups = [np.flatnonzero(y == label) for label in np.unique(y)]
    return np.concatenate([random.choice(own, size=len(own)) for own in groups])


__all__ = ["LabelShift", "label_shift"]
