"""Additive explanations: one number per feature, which together with a base value make up the output.

`base + values.sum() = output` is the promise of every additive explanation (Lundberg and Lee, 2017, arXiv:1705.07874);
how far it is missed is part of the result, so that no picture can hide it. The same record carries Shapley values and
gradient attributions, of one input or of many, and says by which method and with what meaning of "absent" it was made.
"""

import io
import json
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.formatting import number
from chainrule.train.files import read_own, write_atomic, write_json

TOLERANCE = 1e-4
"""A residual above this share of the range of outputs is too large to trust the explanation."""
_FORMAT = 1
_ARRAYS = ("values", "base", "outputs", "errors", "x", "membership")
_LARGEST = 4 << 30
"""Bytes of the largest file of arrays that is read."""


@final
@dataclass(frozen=True)
class Explanation:
    """What each feature adds to one output, for one input or for a batch of them.

    Without a batch axis `base` has no axes; with one, the leading axis of every array is that of the inputs.

    >>> found = Explanation(
    ...     np.array([[1.0, 2.0]]), np.array([0.5]), np.array([3.5]), np.zeros((1, 2)), ("age", "height"), "exact"
    ... )
    >>> found[0].values, found.residual, found.is_additive
    (array([1., 2.]), array([0.]), True)
    """

    values: Float[np.ndarray, "..."]
    """One number per feature or group: (features,) or (batch, features); or in the shape of the inputs."""
    base: Float[np.ndarray, "..."]
    """The output with every feature absent: () or (batch,)."""
    outputs: Float[np.ndarray, "..."]
    """The output with every feature present: () or (batch,)."""
    x: np.ndarray
    """The explained inputs in raw units."""
    names: tuple[str, ...]
    """What each value belongs to: features, or groups of them; empty where values are those of pixels."""
    method: str
    """How it was computed, in words."""
    errors: Float[np.ndarray, "..."] | None = None
    """Standard errors of the values; none where nothing was sampled."""
    output: str = "output"
    """The explained output."""
    kind: str = ""
    """What "absent" means: the value function."""
    background: str = ""
    """Fingerprint of the background rows; empty where there are none."""
    evaluations: int = 0
    """How many inputs the function was evaluated at."""
    slopes: bool = False
    """Whether values are slopes at the input, which are not meant to add up; `base` is then the output itself."""
    membership: np.ndarray | None = None
    """Which name each entry of an input belongs to (-1: none), for one input or for all alike: groups, superpixels."""

    def __post_init__(self) -> None:
        rows = self.base.shape
        shapes = [("outputs", self.outputs.shape, rows), ("values", self.values.shape[: len(rows)], rows)]
        if self.errors is not None:
            shapes.append(("errors", self.errors.shape, self.values.shape))
        wrong = [
            f"{name} has shape {found}, expected {wanted}"
            for name, found, wanted in shapes
            if found != wanted
        ]
        if len(rows) > 1:
            wrong.append(f"base has shape {rows}, expected one number for each input")
        if self.names and len(self.names) != int(np.prod(self.values.shape[len(rows) :])):
            wrong.append(
                f"there are {len(self.names)} names for values of shape {self.values.shape[len(rows) :]}"
            )
        if wrong:
            raise ArgumentError(f"Explanation: {'; '.join(wrong)}")

    @property
    def is_batch(self) -> bool:
        """Whether there is a batch axis."""
        return self.base.ndim == 1

    @property
    def residual(self) -> Float[np.ndarray, "..."]:
        """What is missing: output - base - sum of the values, for each input."""
        return np.asarray(self.outputs - self.base - self.sum())

    @property
    def output_range(self) -> float:
        """From the lowest to the highest of all outputs and base values; their size where all are equal."""
        every = np.append(self.outputs, self.base)
        return float(np.ptp(every)) or float(np.abs(every).max(initial=0.0)) or 1.0

    @property
    def is_additive(self) -> bool:
        """Whether base and values add up to every output, to `TOLERANCE` of the range of outputs."""
        return not self.slopes and bool(
            np.abs(self.residual).max(initial=0.0) <= TOLERANCE * self.output_range
        )

    def check(self) -> Self:
        """The explanation itself, or an error where it does not add up to the output."""
        if self.slopes:
            raise ArgumentError(
                f"Explanation: {self.method} gives slopes, which do not add up to the output",
                remedy="use a method that is complete: integrated_gradients, shapley",
            )
        if not self.is_additive:
            worst = float(np.abs(self.residual).max())
            raise ArgumentError(
                f"Explanation: base and values miss the output by {number(worst)}, "
                f"{number(100 * worst / self.output_range)} % of its range",
                remedy="use more evaluations or nodes, or a method that adds up by construction: method='exact'",
            )
        return self

    def sum(self) -> Float[np.ndarray, "..."]:
        """The sum of the values, for each input."""
        return np.asarray(self.values.sum(axis=tuple(range(self.base.ndim, self.values.ndim))))

    def mean_absolute(self) -> Float[np.ndarray, "..."]:
        """The mean size of the values over all inputs: a global importance of each feature."""
        return np.asarray(np.abs(self.values).mean(axis=0) if self.is_batch else np.abs(self.values))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The values, where an array is asked for."""
        return np.array(self.values, dtype, copy=copy)

    def __len__(self) -> int:
        if not self.is_batch:
            raise TypeError("this explanation is of one input and has no length")
        return len(self.base)

    def __getitem__(self, rows: Any) -> "Explanation":
        """The explanation of some inputs: a number takes the batch axis away, a slice or a list keeps it."""
        if not self.is_batch:
            raise ArgumentError("Explanation: it is of one input already and has no rows to choose from")
        for_each = self.membership is not None and self.membership.ndim == self.x.ndim
        chosen: dict[str, Any] = {
            name: np.asarray(getattr(self, name)[rows]) for name in ("values", "base", "outputs", "x")
        }
        chosen["errors"] = None if self.errors is None else np.asarray(self.errors[rows])
        if self.membership is not None and for_each:
            chosen["membership"] = self.membership[rows]
        return replace(self, **chosen)

    def as_batch(self) -> "Explanation":
        """The same explanation with a batch axis, of length 1 where there was none."""
        if self.is_batch:
            return self
        errors = None if self.errors is None else self.errors[None]
        return replace(
            self,
            values=self.values[None],
            base=self.base[None],
            outputs=self.outputs[None],
            x=self.x[None],
            errors=errors,
        )

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write `PATH.npz` (the arrays) and `PATH.json` (all the rest); gives both paths."""
        stem = Path(path)
        arrays, words = stem.with_name(stem.name + ".npz"), stem.with_name(stem.name + ".json")
        packed = io.BytesIO()
        held = {name: getattr(self, name) for name in _ARRAYS if getattr(self, name) is not None}
        np.savez(packed, allow_pickle=False, **held)
        rest = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _ARRAYS}
        write_atomic(arrays, packed.getvalue())
        write_json(words, {"format": _FORMAT, **rest, "names": list(self.names)})
        return arrays, words

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote."""
        stem = Path(path)
        words, arrays = stem.with_name(stem.name + ".json"), stem.with_name(stem.name + ".npz")
        try:
            rest = json.loads(read_own(words))
            with np.load(io.BytesIO(read_own(arrays, _LARGEST)), allow_pickle=False) as file:
                held = {name: file[name] for name in _ARRAYS if name in file}
            if rest.pop("format") != _FORMAT:
                raise ValueError("another format")
            return cls(**held, **{**rest, "names": tuple(rest["names"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{stem}: no explanation can be read from {words.name} and {arrays.name}: {error}",
                remedy="give the path that Explanation.save was given, without an ending",
            ) from None

    def to_shap(self) -> Any:
        """The same as an `Explanation` of the package shap, for its plots."""
        try:
            import shap  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            raise CapabilityError(
                "to_shap needs the package shap, which is not installed",
                remedy="install it: pip install shap",
            ) from None
        return shap.Explanation(
            values=self.values,
            base_values=self.base,
            data=self.x if np.shape(self.x) == self.values.shape else None,  # groups have no one value
            feature_names=list(self.names) or None,
            output_names=self.output,
        )

    def __str__(self) -> str:
        which = f"{len(self)} inputs" if self.is_batch else "one input"
        said = [
            f"{which}, {int(np.prod(self.values.shape[self.base.ndim :]))} values of {self.output}",
            self.method,
        ]
        said += [self.kind] if self.kind else []
        said += [f"{self.evaluations:,} evaluations"] if self.evaluations else []
        worst = float(np.abs(self.residual).max(initial=0.0))
        missed = f"residual {number(worst)}{'' if self.is_additive else ', too large'}"
        said.append("slopes, which do not add up" if self.slopes else missed)
        return " · ".join(said)


__all__ = ["TOLERANCE", "Explanation"]
