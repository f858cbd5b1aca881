"""What kernels of sequences share: similarities of lists of texts, divided by lengths if wanted."""

import abc
from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Float
from chainrule.kernels.functions import Precomputed

Texts: TypeAlias = Any
"""A list, or an array, of texts; `encoding.py` checks it."""


class SequenceKernel(eqx.Module):
    """A similarity of sequences of letters.

    Machines on kernels take `precomputed(sequences)`, whose points are the numbers of the sequences:

    >>> from chainrule.kernels.sequences import Spectrum
    >>> from chainrule.kernels.trick import nearest_mean
    >>> sequences = ["GATTACA", "GATTACC", "CCGGCC", "CCGGCG", "TTACAG"]
    >>> kernel = Spectrum(2, normalized=True).precomputed(sequences)
    >>> nearest_mean(kernel, [4], [0, 1, 2, 3], [0, 0, 1, 1]).tolist()
    [0]
    """

    normalized: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def products(self, x: Texts, y: Texts | None) -> Float[np.ndarray, "rows columns"]:
        """Inner products of features, before any division; of x with itself without y."""

    @abc.abstractmethod
    def squares(self, x: Texts) -> Float[np.ndarray, " rows"]:
        """Squared lengths of features."""

    def gram(self, x: Texts, y: Texts | None = None) -> Float[np.ndarray, "rows columns"]:
        """The similarity of every sequence of x with every one of y, or of x."""
        found = self.products(x, y)
        if not self.normalized:
            return found
        first = np.diagonal(found) if y is None else self.squares(x)
        second = first if y is None else self.squares(y)
        return found / np.sqrt(first[:, None] * second[None, :])

    def __call__(self, a: str, b: str) -> float:
        """The similarity of two sequences."""
        return float(self.gram([a], [b])[0, 0])

    def precomputed(self, sequences: Texts) -> Precomputed:
        """A kernel for machines: a point is the number of a sequence in this list."""
        return Precomputed(self.gram(sequences))


class Saving(NamedTuple):
    """Numbers that a kernel of sequences does without."""

    features: int
    """Letters to the power k."""
    dense: int
    """Entries of the table of features."""
    entries: int
    """Entries of the Gram matrix."""
    distinct: int
    """Of these, different ones: the matrix is symmetric."""


def saving(letters: int, k: int, sequences: int) -> Saving:
    """How many numbers the table of all k-mers would hold, and how many the Gram matrix holds.

    >>> saving(letters=20, k=4, sequences=100)
    Saving(features=160000, dense=16000000, entries=10000, distinct=5050)
    """
    if min(letters, k, sequences) < 1:
        raise ArgumentError(
            f"saving(letters={letters}, k={k}, sequences={sequences}): each must be at least 1"
        )
    features = letters**k
    return Saving(features, features * sequences, sequences**2, sequences * (sequences + 1) // 2)


__all__ = ["Saving", "SequenceKernel", "Texts", "saving"]
