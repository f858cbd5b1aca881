"""Labels as numbers of classes, and the weights of classes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import ArgumentError, DataError

ClassWeights = Mapping[Any, float] | str | None
"""A weight for each class, `balanced`, or none."""


def coded(where: str, y: Any, rows: int) -> tuple[np.ndarray, Int[np.ndarray, " rows"]]:
    """The classes in order, and the number of the class of each row.

    >>> coded("fit", ["b", "a", "b"], 3)[1].tolist()
    [1, 0, 1]
    >>> coded("fit", [0.0, 0.5, 1.0], 3)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: fit(y): the label of row 1 is 0.5; labels are whole numbers or words
           for values to be predicted: SupportVectorRegressor
    """
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise ArgumentError(
            f"{where}(y): labels of shape {labels.shape} for {rows} points; each point needs one"
        )
    if np.issubdtype(labels.dtype, np.floating):
        odd = np.flatnonzero(~np.isfinite(labels) | (labels != np.round(labels)))
        if len(odd):
            raise ArgumentError(
                f"{where}(y): the label of row {odd[0]} is {labels[odd[0]]:g}; labels are whole numbers or words",
                remedy="for values to be predicted: SupportVectorRegressor",
            )
        labels = labels.astype(np.int64)
    elif not (np.issubdtype(labels.dtype, np.integer) or labels.dtype.kind in "bUS"):
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        if len(kinds) != 1 or kinds[0] not in ("str", "int", "bool"):
            raise ArgumentError(
                f"{where}(y): labels of type {', '.join(kinds)}; they are whole numbers or words, all of one kind",
                remedy="convert them: [str(label) for label in y]",
            )
        labels = np.array(labels.tolist())
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        name = repr(classes[0].item()) if len(classes) else "none"
        raise DataError(
            f"{where}(y): all {rows} labels are of one class ({name}); a border needs two",
            remedy="for what is unusual among examples of one class: OneClassSupportVectors",
        )
    return classes, numbers.reshape(-1)


def weighted(
    where: str, given: ClassWeights, classes: np.ndarray, numbers: Int[np.ndarray, " rows"]
) -> Float[np.ndarray, " rows"]:
    """The weight of the class of each row; `balanced` weighs classes by the inverse of their counts."""
    if given is None:
        return np.ones(len(numbers))
    if isinstance(given, str):
        if given != "balanced":
            raise ArgumentError(
                f'{where}(class_weights={given!r}): it must be "balanced", or {{class: weight}}'
            )
        counts = np.bincount(numbers)
        each = len(numbers) / (len(classes) * counts)
        return np.asarray(each[numbers])
    names = classes.tolist()
    for name, value in given.items():
        if name not in names:
            raise ArgumentError(
                f"{where}(class_weights): there is no class {name!r}",
                remedy=f"classes are {', '.join(map(repr, names[:10]))}",
            )
        if not 0 < value < np.inf:
            raise ArgumentError(
                f"{where}(class_weights): that of {name!r} is {value}; weights must be positive"
            )
    return np.array([float(given.get(name, 1.0)) for name in names])[numbers]


__all__ = ["ClassWeights", "coded", "weighted"]
