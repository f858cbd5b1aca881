"""Splits whose targets are kept back: the examples are there, the targets are not, and asking for them is an error.

Labels of a target domain that are only there to judge by must not leak into training or the choice of a model. Here
they are taken out of the arrays that batches are cut from, so that no mistake further up can use them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.division import NAMES
from chainrule.data.splits import Rows, Split, Subset


@final
@dataclass(frozen=True, repr=False)
class Withheld(Split):
    """The examples of another split without their targets."""

    split: Split

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]  # those of the whole
        """The raw arrays without the targets."""
        return {name: array for name, array in self.split.arrays.items() if name != "y"}

    @property
    def mapped(self) -> bool:
        """As the split itself."""
        return self.split.mapped

    def __len__(self) -> int:
        return len(self.split)

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Examples by number, without targets even where the arrays hold some."""
        return self.split.gather({name: array for name, array in arrays.items() if name != "y"}, index)

    @property
    def changes(self) -> bool:
        """As the split itself."""
        return self.split.changes

    def fresh(self, arrays: Mapping[str, Any], index: Any, key: Any) -> Batch:
        """As in the split itself, without targets."""
        return self.split.fresh({name: array for name, array in arrays.items() if name != "y"}, index, key)

    @property
    def y(self) -> Any:
        """An error: the targets are withheld."""
        raise withheld_error()


def withheld_error() -> CapabilityError:
    """The error for whoever asks for targets that are kept back."""
    return CapabilityError(
        "the targets of these examples are withheld: they are there to judge by, not to learn or choose from",
        remedy='judge predictions with DomainPair.evaluate, or learn from some: target_labels="few"',
    )


def withheld(data: Data) -> Data:
    """The same data without the targets of any split.

    >>> from chainrule.data import load
    >>> hidden = withheld(load("moons", n=50))
    >>> hidden.train.batch([0]).y is None, sorted(hidden.train.arrays)
    (True, ['x'])
    """
    train, val, test = (Withheld(_stripped(data.split(name))) for name in NAMES)
    return replace(data, train=train, val=val, test=test)


def _stripped(split: Split) -> Split:
    """The split with the targets gone from memory; of splits of other forms the wrapper alone keeps them back."""
    if isinstance(split, Subset):
        return Subset(_stripped(split.split), split.numbers)
    if not isinstance(split, Rows):
        return split
    return replace(split, arrays={name: array for name, array in split.arrays.items() if name != "y"})


__all__ = ["Withheld", "withheld", "withheld_error"]
