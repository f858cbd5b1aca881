"""The affine map between the original units of some data and those a model sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.schema import Schema


@final
@dataclass(frozen=True)
class Scaling:
    """The map from raw values to what a model sees, `x = (raw - shift) * factor`, and its inverse.

    `shift` and `factor` are single numbers or arrays of one example's shape. Densities change by
    `log p(raw) = log p(x) + log_volume`.

    >>> pixels = Scaling(shift=0.0, factor=1 / 255)
    >>> pixels.apply(np.array([[0, 255]], dtype=np.uint8)).tolist()
    [[0.0, 1.0]]
    >>> pixels.inverse(np.array([[0.0, 1.0]])).tolist()
    [[0.0, 255.0]]
    """

    shift: float | np.ndarray = 0.0
    factor: float | np.ndarray = 1.0

    def apply(self, raw: Any) -> Any:
        """Raw values (NumPy or JAX, leading batch axis) to model units, in the default floating type."""
        return (raw - self._like(self.shift, raw)) * self._like(self.factor, raw)

    def inverse(self, x: Any) -> Any:
        """Model units back to raw values (not rounded)."""
        return x / self._like(self.factor, x) + self._like(self.shift, x)

    def log_volume(self, dimensions: int) -> float:
        """Logarithm of the volume element |dx/draw| of one example with that many entries."""
        logs = np.log(np.abs(np.asarray(self.factor, dtype=np.float64)))
        return float(logs.sum() if logs.ndim else logs * dimensions)

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a run folder."""
        return {"shift": np.asarray(self.shift).tolist(), "factor": np.asarray(self.factor).tolist()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Scaling":
        """The scaling written by `to_json`."""
        parts = {
            k: np.asarray(v, dtype=np.float64) if isinstance(v, list) else float(v) for k, v in values.items()
        }
        return cls(**parts)

    @staticmethod
    def _like(value: float | np.ndarray, reference: Any) -> Any:
        # float32 keeps integer images from being promoted to float64 on the host; a float64 input stays float64.
        dtype = np.float64 if reference.dtype == np.float64 else np.float32
        array = np.asarray(value, dtype=dtype)
        return array.reshape((1,) * (reference.ndim - array.ndim) + array.shape)


def to_original(schema: Schema, scaling: Scaling, x: Any) -> np.ndarray:
    """Examples in model units back in the original units; data with levels are rounded to them and clipped."""
    raw = np.asarray(scaling.inverse(np.asarray(x)))
    return np.clip(np.rint(raw), 0, schema.levels - 1) if schema.levels else raw


def scaled_target(schema: Schema, scaling: Scaling, argument: str, given: Any) -> np.ndarray:
    """Numbers that stand for a target, one or several, in model units; those of another shape are refused.

    >>> schema = Schema("points", (2,), "value", (3,))
    >>> scaled_target(schema, Scaling(0.0, 2.0), "condition", [1, 2, 3]).tolist()
    [2.0, 4.0, 6.0]
    """
    values, shape = np.asarray(given), schema.target_shape
    grey = shape[:-1] if shape[-1:] == (1,) else shape  # an image of one channel may come without its axis
    numbers = values.dtype.kind in "biuf"
    if not numbers or all(values.shape[values.ndim - len(one) :] != one for one in (shape, grey)):
        raise ArgumentError(
            f"{argument}: {'numbers' if numbers else values.dtype.name} of shape {values.shape}; the model was "
            f"trained on numbers of shape {shape}",
            remedy="give that many numbers, for one example or for each",
        )
    return np.asarray(scaling.apply(values.astype(np.float64)))


__all__ = ["Scaling", "scaled_target", "to_original"]
