"""Training, validation and test examples: raw arrays, and the rule that cuts examples out of them.

Arrays are kept compact (bytes of an image file, token numbers of a text, standardised numbers of a table) in memory or
in a memory map; `Split.gather` turns a set of example numbers into a scaled `Batch`, with NumPy on the host or inside a
compiled step, so small data can live on the device in their compact form.
"""

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import numpy as np

from chainrule.data.batches import Batch
from chainrule.data.scaling import Scaling


class Change(NamedTuple):
    """What training does to examples whenever it sees them."""

    what: str
    remedy: str
    """How to train without it."""


class Split(abc.ABC):
    """One part of the data (training, validation or test): raw arrays and the rule that cuts examples out of them."""

    arrays: Mapping[str, np.ndarray]
    streams: int = 0
    """How many examples of a batch go on, each at its position, from those of the batch before; 0: any order does."""

    @property
    def mapped(self) -> bool:
        """Default: the arrays are small enough for memory, or read in pieces by the system."""
        return False

    @abc.abstractmethod
    def __len__(self) -> int:
        """Number of examples."""

    def __repr__(self) -> str:
        """How many examples, and the types and shapes of the raw arrays, whose numbers would fill the screen.

        >>> Rows({"x": np.zeros((3, 2), np.float32), "y": np.arange(3)})
        Rows(3 examples, x float32 (3, 2), y int64 (3,))
        """
        arrays = [f"{name} {array.dtype} {array.shape}" for name, array in self.arrays.items()]
        count = f"{len(self):,} example{'' if len(self) == 1 else 's'}"
        return f"{type(self).__name__}({', '.join([count, *arrays])})"

    @abc.abstractmethod
    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """The scaled examples with these numbers, from `self.arrays` or from a copy of it on a device."""

    @property
    def changes(self) -> bool:
        """Default: an example is the same whenever training sees it."""
        return False

    @property
    def change(self) -> Change:
        """Default: none is made; otherwise what training does to examples, and how to do without."""
        return Change("", "")

    def fresh(self, arrays: Mapping[str, Any], index: Any, key: Any) -> Batch:
        """Default: the examples with these numbers as they always are; or as training sees them this once."""
        del key
        return self.gather(arrays, index)

    @property
    def apart(self) -> "Split":
        """Default: the split itself; of examples that overlap, only so many that none is seen twice.

        It is what an algorithm needs that looks at all examples at once.
        """
        return self

    def batch(self, index: Any) -> Batch:
        """The scaled examples with these numbers, on the host."""
        return self.gather(self.arrays, np.asarray(index))

    @property
    def x(self) -> Any:
        """All examples, scaled."""
        return self.batch(np.arange(len(self))).x

    @property
    def y(self) -> Any:
        """Default: all targets, or `None`; an error where they are withheld."""
        return self.batch(np.arange(len(self))).y

    @property
    def nbytes(self) -> int:
        """Bytes of the raw arrays."""
        return sum(int(a.nbytes) for a in self.arrays.values())


@final
@dataclass(frozen=True, repr=False)
class Rows(Split):
    """Examples along the first axis of `arrays["x"]`, targets and weights (if any) along those of "y" and "weight"."""

    arrays: Mapping[str, np.ndarray]
    scaling: Scaling = field(default_factory=Scaling)
    target_scaling: Scaling | None = None
    """Given for numeric targets; class numbers are not scaled."""

    def __len__(self) -> int:
        return len(self.arrays["x"])

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Rows by number."""
        y = arrays["y"][index] if "y" in arrays else None
        if y is not None and self.target_scaling is not None:
            y = self.target_scaling.apply(y)
        weights = arrays["weight"][index] if "weight" in arrays else None
        return Batch(self.scaling.apply(arrays["x"][index]), y, weights)


@final
@dataclass(frozen=True, repr=False)
class Coins(Split):
    """Rows of zeros and ones that are thrown anew whenever training sees them; everybody else sees one throw.

    `arrays["grey"]` holds what the probability of a one is proportional to, and `scaling` makes it one.
    """

    arrays: Mapping[str, np.ndarray]
    scaling: Scaling

    def __len__(self) -> int:
        return len(self.arrays["x"])

    @property
    def changes(self) -> bool:
        """Always."""
        return True

    @property
    def change(self) -> Change:
        """Coins."""
        return Change("data.binarize=dynamic throws coins", "use data.binarize=stochastic")

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Rows by number, as they were thrown once."""
        return Rows(self.arrays).gather(arrays, index)

    def fresh(self, arrays: Mapping[str, Any], index: Any, key: Any) -> Batch:
        """Rows by number, thrown with this key."""
        import jax  # inside a compiled step it is there; to read data it is not needed

        share = self.scaling.apply(arrays["grey"][index])
        return self.gather(arrays, index)._replace(x=jax.random.bernoulli(key, share).astype(share.dtype))


@final
@dataclass(frozen=True, repr=False)
class Selected(Split):
    """Rows of an array too large to copy: all splits share `arrays["x"]`, `arrays["rows"]` says which are ours."""

    arrays: Mapping[str, np.ndarray]
    scaling: Scaling = field(default_factory=Scaling)

    def __len__(self) -> int:
        return len(self.arrays["rows"])

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Rows by number."""
        return Batch(self.scaling.apply(arrays["x"][arrays["rows"][index]]).astype(np.float32))


@final
@dataclass(frozen=True, repr=False)
class Subset(Split):
    """A few examples of another split, by number."""

    split: Split
    numbers: np.ndarray

    @classmethod
    def drawn(cls, split: Split, count: int) -> "Subset":
        """This many examples drawn at random, the same ones every time, in their order."""
        return cls(split, np.sort(np.random.default_rng(0).choice(len(split), count, replace=False)))

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]  # those of the whole
        """The raw arrays of the whole split."""
        return self.split.arrays

    @property
    def mapped(self) -> bool:
        """As the whole split."""
        return self.split.mapped

    def __len__(self) -> int:
        return len(self.numbers)

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Examples by their position among the few."""
        return self.split.gather(arrays, self.numbers[index])

    @property
    def changes(self) -> bool:
        """As in the whole split."""
        return self.split.changes

    @property
    def change(self) -> Change:
        """As in the whole split."""
        return self.split.change

    def fresh(self, arrays: Mapping[str, Any], index: Any, key: Any) -> Batch:
        """As in the whole split."""
        return self.split.fresh(arrays, self.numbers[index], key)


__all__ = ["Change", "Coins", "Rows", "Selected", "Split", "Subset"]
