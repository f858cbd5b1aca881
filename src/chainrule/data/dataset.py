"""Loaded data: three splits under one schema, and the way back to the original units."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.data import kinds
from chainrule.data.division import NAMES
from chainrule.data.reading import TableReading
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
    reading: TableReading | None = None
    """Tables: how the columns were read, so that new rows can be read in the same way; no part of the hash."""
    other: "Data | None" = None
    """Another domain, in the units of this one: training sees its examples without their targets."""
    labels: int = 0
    """How many training examples of the other domain keep their targets."""
    label_map: Mapping[str, str] | None = None
    """What each class of the other domain is called here, where a map was given."""

    def __repr__(self) -> str:
        return f"Data({self.name!r}: {self.describe()})"

    def split(self, name: str) -> Split:
        """A split by its name."""
        splits = {"train": self.train, "val": self.val, "test": self.test}
        if name not in splits:
            raise ArgumentError(f'split={name!r}: split must be "train", "val" or "test"')
        return splits[name]

    def examples(self, name: str) -> Split:
        """A split by its name; an error if it has no examples."""
        split = self.split(name)
        if not len(split):
            raise ArgumentError(
                f"the {name} split of {self.name} has no examples",
                remedy="use another one (split=val), or divide the data anew: data.split=0.8,0.1,0.1",
            )
        return split

    def held_out(self) -> tuple[Split, list[str]]:
        """The test split, or validation where there is none (or training, where that is all); and which, in words."""
        words = {"test": "", "val": "validation", "train": "training"}
        name = next((name for name in ("test", "val") if len(self.split(name))), "train")
        said = (
            f"The examples are those of {words[name]}: {self.name} has no test split." if words[name] else ""
        )
        return self.split(name), [said] if said else []

    def inverse(self, x: Any) -> np.ndarray:
        """Examples in model units back in the original units; data with levels are rounded to them and clipped."""
        return to_original(self.schema, self.scaling, x)

    def nats(self, log_prob: Any) -> Any:
        """Log densities in model units (nats per example) as costs of the original data, in nats per example.

        For data with levels the density is that of the uniformly dequantised values, whose negative logarithm bounds
        the discrete code length from above.
        """
        return -(np.asarray(log_prob, np.float64) + self.scaling.log_volume(self.schema.dimensions))

    def bits_per_dim(self, log_prob: Any) -> Any:
        """The same in bits per dimension of the original data."""
        return self.nats(log_prob) / (self.schema.dimensions * np.log(2.0))

    def describe(self) -> str:
        """One line for people: kind, size, classes, split."""
        kind = kinds.of(self.schema)
        sizes = {name: kind.size(self.schema, self.split(name)) for name in NAMES}
        total = max(sum(sizes.values()), 1)
        shares = " / ".join(
            f"{name} {100 * size / total:.0f} %" if size else f"no {name}" for name, size in sizes.items()
        )
        read = self.reading.describe() if self.reading else ""
        few = f" ({self.labels} with targets)" if self.labels else ""
        beside = f"beside {len(self.other.train):,} of {self.other.name}{few}" if self.other else ""
        return ", ".join(filter(None, [kind.describe(self.schema, total), read, shares, beside]))

    def renamed(self, name: str) -> "Data":
        """The same data under another name."""
        return replace(self, name=name)


__all__ = ["Data"]
