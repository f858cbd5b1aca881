"""A few examples of two classes as points of unit length with targets -1 and 1, for networks that learn numbers."""

from typing import NamedTuple

import numpy as np

from chainrule import data
from chainrule.core.errors import ArgumentError


class TwoClasses(NamedTuple):
    """Points of unit length and their targets."""

    x: np.ndarray
    y: np.ndarray
    x_new: np.ndarray
    y_new: np.ndarray


def two_classes(source: str, classes: tuple[str, str], points: int, new: int, seed: int) -> TwoClasses:
    """Training and new examples of two classes of some data, as many of one as of the other."""
    found = data.load(source)
    known = [str(name) for name in found.schema.classes]
    for name in classes:
        if name not in known:
            raise ArgumentError(
                f"classes={','.join(classes)}: {source} has no class {name!r}",
                remedy=f"choose two of {', '.join(known)}"
                if known
                else "choose data with classes, such as digits",
            )
    if classes[0] == classes[1]:
        raise ArgumentError(f"classes={','.join(classes)}: two different ones are needed")
    numbers = tuple(known.index(name) for name in classes)
    noise = np.random.default_rng(seed)
    x, y = _drawn(found.train, numbers, points, noise)
    x_new, y_new = _drawn(found.examples("test"), numbers, new, noise)
    return TwoClasses(x, y, x_new, y_new)


def _drawn(
    split: data.Split, numbers: tuple[int, ...], count: int, noise: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    labels = np.asarray(split.batch(np.arange(len(split))).y)
    rows, signs = [], []
    for number, sign in zip(numbers, (-1.0, 1.0), strict=True):
        wanted = count // 2 if sign < 0 else count - count // 2
        where = np.flatnonzero(labels == number)
        if len(where) < wanted:
            raise ArgumentError(
                f"points: {wanted} examples of a class are wanted, and there are {len(where)}"
            )
        rows.append(noise.choice(where, wanted, replace=False))
        signs.append(np.full(wanted, sign))
    batch = split.batch(np.concatenate(rows))
    flat = np.asarray(batch.x, np.float64).reshape(len(batch.x), -1)
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    return (flat / np.maximum(lengths, 1e-12)).astype(np.float32), np.concatenate(signs)


__all__ = ["TwoClasses", "two_classes"]
