"""Samples of each class beside real examples of that class, for models that are asked for classes.

As a whole samples may look right while one class is drawn badly or always the same: within classes it shows. Each
number stands beside that of as many held-out examples of the class, both against all training examples of it: few
samples cannot be near to all of them, and held-out ones say how near they could be.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from chainrule.probability.samples import fidelity
from chainrule.train.generation.features import Examples
from chainrule.train.generation.measures import NEIGHBOURS
from chainrule.train.generation.real_examples import RealExamples


class ClassNumbers(NamedTuple):
    """One number of every class, of samples and of held-out examples; not a number where there are too few."""

    accuracy: Sequence[float]
    """Share that the judge takes for the class."""
    precision: Sequence[float]
    coverage: Sequence[float]


def numbers_of_classes(
    known: RealExamples, samples: Examples, asked: Int[np.ndarray, " samples"]
) -> tuple[ClassNumbers, ClassNumbers]:
    """Of samples by the class they were asked for, and of held-out examples by their own."""
    assert known.train_y is not None, "ask of data with classes"
    assert known.held_out_y is not None, "what is held out has classes where training has"
    sets = ((samples, asked), (known.held_out, known.held_out_y))
    right = [known.judge.probabilities(x).argmax(axis=1) == y for x, y in sets]
    seen = [known.features(x) for x, _ in sets]
    rows: list[list[list[float]]] = [[], []]
    for c in range(known.classes):
        real = known.train_features[known.train_y == c]
        own = [features[y == c] for features, (_, y) in zip(seen, sets, strict=True)]
        count = min(map(len, own))
        for row, features, ok, (_, y) in zip(rows, own, right, sets, strict=True):
            share = float(ok[y == c].mean()) if (y == c).any() else float("nan")
            if min(count, len(real)) <= NEIGHBOURS:
                row.append([share, float("nan"), float("nan")])
                continue
            found = fidelity(real, features[:count], NEIGHBOURS)
            row.append([share, found.precision, found.coverage])
    one, other = (ClassNumbers(*map(list, zip(*row, strict=True))) for row in rows)
    return one, other


__all__ = ["ClassNumbers", "numbers_of_classes"]
