"""Loaded data: three splits under one schema, and the way back to the original units."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data.scaling import Scaling, to_original
from chainrule.data.schema import Schema
from chainrule.data.splits import Split


@final
@dataclass(frozen=True)
class Data:
    """Loaded data: three splits of one source under one schema."""

    name: str
    schema: Schema
    train: Split
    val: Split
    test: Split
    scaling: Scaling
    target_scaling: Scaling | None
    hash: str
    """SHA-256 of the raw contents and the schema: two data objects with the same hash hold the same numbers."""
    source: Mapping[str, Any]
    """What `load` was called with, fully resolved, so that a run can be repeated."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Files or rows left out, each with its reason."""
    notes: tuple[tuple[str, int], ...] = ()
    """What is odd about the data and used all the same: each kind of remark and how often it was made."""

    def split(self, name: str) -> Split:
        """A split by its name."""
        splits = {"train": self.train, "val": self.val, "test": self.test}
        if name not in splits:
            raise ArgumentError(f'split={name!r}: split must be "train", "val" or "test"')
        return splits[name]

    def inverse(self, x: Any) -> np.ndarray:
        """Examples in model units back in the original units; data with levels are rounded to them and clipped."""
        return to_original(self.schema, self.scaling, x)

    def bits_per_dim(self, log_prob: Any) -> Any:
        """Log densities in model units (nats per example) as bits per dimension of the original data.

        For data with levels the density is that of the uniformly dequantised values, whose negative logarithm bounds
        the discrete code length from above.
        """
        dimensions = self.schema.dimensions
        return -(np.asarray(log_prob) + self.scaling.log_volume(dimensions)) / (dimensions * np.log(2.0))

    def describe(self) -> str:
        """One line for people: kind, size, classes, split."""
        splits = (self.train, self.val, self.test)
        text = self.schema.kind == "text" and self.schema.target == "none"
        sizes = [len(split.arrays["symbols"]) if text else len(split) for split in splits]
        total = max(sum(sizes), 1)
        shares = " / ".join(
            f"{n} {100 * s / total:.0f} %" for n, s in zip(("train", "val", "test"), sizes, strict=True)
        )
        if self.schema.kind == "text" and self.schema.target == "text":
            symbols = f"{len(self.schema.symbols):,} to {len(self.schema.target_symbols):,} symbols"
            return f"{total:,} pairs of texts, {symbols}, {shares}"
        shape = "×".join(str(n) for n in self.schema.shape)
        what = {
            "image": f"{total:,} images of {shape}",
            "text": f"{total:,} {self._unit if text else 'texts'}, {len(self.schema.symbols):,} symbols",
            "table": f"{total:,} rows of {shape} columns",
            "points": f"{total:,} points in {shape} dimensions",
            "sequence": f"{total:,} sequences of {shape}",
        }[self.schema.kind]
        word = "labels" if self.schema.target == "labels" else "classes"
        classes = f", {len(self.schema.classes)} {word}" if self.schema.classes else ""
        if self.schema.target == "text":
            classes = f" with captions, {len(self.schema.target_symbols):,} symbols"
        return f"{what}{classes}, {shares}"

    @property
    def _unit(self) -> str:
        return "tokens" if self.schema.tokenizer else "characters"

    def renamed(self, name: str) -> "Data":
        """The same data under another name."""
        return replace(self, name=name)


__all__ = ["Data"]
