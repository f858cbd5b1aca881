"""Values of the players of a game, as every method returns them."""

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

Values: TypeAlias = Float[np.ndarray, "*batch players"]


class GameValues(NamedTuple):
    """Values of all players, and how far they may be off."""

    values: Values
    errors: Values | None
    """Standard errors; none where all coalitions were evaluated."""
    method: str
    """How they were found, in words."""


def settled(values: Values, errors: Values, tol: float) -> bool:
    """Whether no standard error is above `tol` times the range of the values of its game."""
    spread = np.maximum(values.max(axis=-1), 0.0) - np.minimum(values.min(axis=-1), 0.0)
    return bool((errors.max(axis=-1) <= tol * spread).all())


__all__ = ["GameValues", "Values", "settled"]
