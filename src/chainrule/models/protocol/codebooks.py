"""Models whose codes are words of a codebook: every example is a grid of whole numbers."""

import abc

from chainrule.core.types import Array, Float, Int
from chainrule.models.protocol.encoding import CanDecode, CanEncode


class HasCodebook(CanEncode, CanDecode):
    """Stands for every example by a grid of numbers, each that of a vector in a codebook.

    What `encode` gives and `decode` takes are the vectors themselves, one after another.
    """

    @property
    @abc.abstractmethod
    def codebook(self) -> Float[Array, "codes size"]:
        """The vectors, one row for each code."""

    @property
    @abc.abstractmethod
    def code_shape(self) -> tuple[int, ...]:
        """The shape of an example's grid of codes: rows and columns, or how many there are."""

    @abc.abstractmethod
    def encode_indices(self, x: Array) -> Int[Array, "batch *grid"]:
        """The codes of each example, by their numbers."""

    @abc.abstractmethod
    def decode_indices(self, indices: Int[Array, "batch *grid"]) -> Array:
        """An example for each grid of codes, in model units."""


__all__ = ["HasCodebook"]
