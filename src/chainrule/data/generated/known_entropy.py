"""The entropy of points whose distribution is known: no density that is fitted to them can cost less on average.

Most are a shape with normal noise, whose density is the mean of normal densities along the shape. The mean of its
negative logarithm is taken over places on the shape, and by a quadrature over the noise around each.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import logsumexp

from chainrule.data.generated.toys import TOYS, Points, Toy, alternating

_FINE, _LEAST = 15.0, 0.01
"""Points along each curve that the density is a mean of, times the noise; with less noise than this, too many."""
_PLACES, _ORDER = 100, 8
"""Places along each curve, and points across the noise each way, that the mean is taken over."""


def entropy_of(source: Mapping[str, Any]) -> float | None:
    """The entropy, in nats, of data that were loaded by this call (`Data.source`); none where it is not known.

    >>> round(entropy_of({"name_or_path": "moons", "noise": 0.05}), 3), entropy_of({"name_or_path": "digits"})
    (0.289, None)
    """
    name = str(source.get("name_or_path"))
    toy = TOYS.get(name)
    if toy is None:
        return None
    if toy.area is not None:
        return math.log(toy.area)
    noise = float(source["noise"])
    return _noisy(name, noise) if toy.shape is not None and noise >= _LEAST else None


@functools.cache
def _noisy(name: str, noise: float) -> float:
    """The entropy of a shape with normal noise."""
    # Hardly wider apart than the noise, even at the outer end of a spiral: nothing is seen between them.
    every, some = _points(TOYS[name], math.ceil(_FINE / noise)), _points(TOYS[name], _PLACES)
    at, shares = np.polynomial.hermite_e.hermegauss(_ORDER)
    around = noise * np.stack(np.meshgrid(at, at), axis=-1).reshape(-1, 2)
    weights = np.outer(shares, shares).ravel() / (2 * np.pi)
    each = []
    for position in some:
        apart = np.square((position + around)[:, None] - every[None]).sum(axis=-1)
        logs = logsumexp(-apart / (2 * noise**2), axis=1) - math.log(2 * np.pi * noise**2 * len(every))
        each.append(-weights @ logs)
    return float(np.mean(each))


def _points(toy: Toy, count: int) -> Points:
    """Evenly spaced points of a shape, so many on each of its curves; of corners and centres, each once."""
    assert toy.shape is not None
    classes = max(1, len(toy.classes))
    along = np.repeat((np.arange(count) + 0.5) / count, classes)
    points = toy.shape(alternating(count * classes, classes), along)
    distinct = np.unique(points, axis=0)
    return distinct if len(distinct) < count else points


__all__ = ["entropy_of"]
