"""Agreement of explanations: rank correlations between methods on the same inputs, and between repetitions of one.

Methods answer different questions, so that low agreement is no error of either; it says that "the" explanation depends
on the choice (Krishna et al., *The disagreement problem in explainable machine learning*, 2022, arXiv:2202.01602).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy.stats
from jaxtyping import Float

from chainrule.core.errors import ArgumentError


@final
@dataclass(frozen=True)
class Agreement:
    """Mean rank correlation of every pair of methods over the inputs."""

    names: tuple[str, ...]
    correlation: Float[np.ndarray, "methods methods"]


def agreement(explanations: Mapping[str, Any], *, signed: bool = False) -> Agreement:
    """How alike methods rank the features of the same inputs, by size, or with `signed` by value.

    >>> found = agreement({"one": [[1.0, -3.0, 2.0]], "other": [[0.1, 0.9, 0.5]]})
    >>> found.correlation.round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    arrays = {name: np.asarray(values, np.float64) for name, values in explanations.items()}
    shapes = {name: values.shape for name, values in arrays.items()}
    if len(set(shapes.values())) != 1:
        raise ArgumentError(
            f"agreement: values have shapes {', '.join(f'{n} {s}' for n, s in shapes.items())}",
            remedy="compare explanations of the same inputs and features",
        )
    stacked = np.stack([values.reshape(len(values), -1) for values in arrays.values()], axis=1)
    return Agreement(tuple(arrays), _correlations(stacked if signed else np.abs(stacked)).mean(axis=0))


def rank_agreement(values: Float[np.ndarray, "batch repeats features"]) -> Float[np.ndarray, " batch"]:
    """The mean rank correlation of each repetition with each other one, for every input.

    >>> rank_agreement(np.array([[[1.0, 2.0, 3.0], [1.0, 5.0, 9.0]]])).round(6).tolist()
    [1.0]
    """
    found = _correlations(values)
    count = found.shape[1]
    others = ~np.eye(count, dtype=bool)
    return found[:, others].mean(axis=1)


def _correlations(values: Float[np.ndarray, "batch methods features"]) -> Float[np.ndarray, "batch m m"]:
    """Spearman's correlation; what is the same everywhere is like another such and like no other."""
    ranks = scipy.stats.rankdata(values, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    size = np.sqrt(np.square(centred).sum(axis=-1))
    flat = size == 0
    products = np.einsum("bmi,bni->bmn", centred, centred) / np.where(flat, 1, size)[:, :, None]
    found = products / np.where(flat, 1, size)[:, None, :]
    return np.where(flat[:, :, None] & flat[:, None, :], 1.0, found)


__all__ = ["Agreement", "agreement", "rank_agreement"]
