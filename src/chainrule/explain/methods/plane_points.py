"""Points in the plane from data by their name, in the units of the data."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule import data as sources
from chainrule.core.errors import DataError


def plane_points(
    where: str, name: str, load: Mapping[str, Any], remedy: str
) -> Float[np.ndarray, "points 2"]:
    """The training points of data, as they are in the file: two tables have no scale in common that a model would see.

    >>> plane_points("point-flow", "moons", {"n": 50}, "data=moons").shape
    (40, 2)
    """
    loaded = sources.load(name, **load)
    if loaded.schema.shape != (2,):
        raise DataError(
            f"{where}: {name} has examples of shape {loaded.schema.shape}, not points in the plane",
            remedy=remedy,
        )
    return np.asarray(loaded.scaling.inverse(np.asarray(loaded.train.x)), np.float64)


__all__ = ["plane_points"]
