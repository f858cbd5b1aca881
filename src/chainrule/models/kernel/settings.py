"""Settings that machines on kernels share: how wide the kernel is, and how many training examples are kept.

A machine on a kernel keeps training examples: they are part of the model and of its files. How many is part of its
settings, because the arrays of a model have shapes that settings tell; `auto` is filled in from the data.
"""

from typing import Annotated, Any, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field
from scipy.spatial.distance import pdist

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.dataset import Data
from chainrule.models.protocol import Config

Scale = Annotated[
    Annotated[float, Field(gt=0)] | Literal["auto"],
    Field(
        description="length over which the kernel falls, in model units; auto: the median distance of training "
        "examples"
    ),
]
Degree = Annotated[int, Field(ge=1, le=20, description="kernel=polynomial: its degree")]
Period = Annotated[
    Annotated[float, Field(gt=0)] | Literal["auto"],
    Field(
        description="kernel=periodic: after which length functions repeat, in model units; auto: that of the strongest "
        "wave of values over one column, else the median distance of training examples"
    ),
]
Order = Annotated[
    Literal[0, 1, 2],
    Field(
        description="kernel=arc-cosine: 0, as of hidden layers of steps; 1, rectifiers; 2, squared rectifiers"
    ),
]
Kept = Annotated[
    Annotated[int, Field(ge=1)] | Literal["auto"],
    Field(description="training examples that the model keeps, drawn at random where there are more"),
]

SHOWN = 1000
"""Examples whose distances are compared for the median."""


def rows(x: Any) -> Float[np.ndarray, "batch features"]:
    """Examples of any shape as rows of double precision."""
    exact = np.asarray(x, np.float64)
    return exact.reshape(len(exact), -1)


def median_distance(data: Data, seed: int = 0) -> float:
    """The median distance of different training examples, of a thousand at most."""
    x = rows(data.train.x)
    if len(x) > SHOWN:
        x = x[np.random.default_rng(seed).choice(len(x), SHOWN, replace=False)]
    apart = pdist(x)  # NumPy alone, because models are also outlined while a program is traced
    apart = apart[apart > 0]
    if not len(apart):
        raise ArgumentError(
            f"{data.name}: all training examples are the same, so no kernel tells them apart",
            remedy="chainrule data show says how they were read",
        )
    return float(np.median(apart))


def counted(data: Data) -> int:
    """How many training examples there are; those of weight zero are none."""
    weights = data.train.arrays.get("weight")
    return len(data.train) if weights is None else int((np.asarray(weights) > 0).sum())


def kept(points: int | Literal["auto"], data: Data, most: int) -> int:
    """How many training examples are kept: all, but no more than `most` unless told; more than there are is refused."""
    there = counted(data)
    if points == "auto":
        return min(there, most)
    if points > there:
        raise ArgumentError(
            f"points={points}: {data.name} has {there} training examples",
            remedy=f"use points={there} or less",
        )
    return points


def refuse_unread(config: Config, name: str, read: bool, why: str) -> None:
    """Refuse a setting other than the usual one where nothing would read it."""
    given = getattr(config, name)
    if not read and given != type(config).model_fields[name].default:
        raise ArgumentError(f"{name}={given}: {why}", remedy=f"leave {name} out")


def refuse_weights(name: str, data: Data) -> None:
    """Refuse weights of examples where a model has no use for them."""
    if "weight" in data.train.arrays:
        raise CapabilityError(
            f"{name}: examples count equally, and these have weights", remedy="leave data.weight out"
        )


__all__ = [
    "Degree",
    "Kept",
    "Order",
    "Period",
    "Scale",
    "counted",
    "kept",
    "median_distance",
    "refuse_unread",
    "refuse_weights",
    "rows",
]
