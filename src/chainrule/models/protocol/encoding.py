"""Encoders, decoders and embeddings."""

import abc

from chainrule.core.types import Array, Float
from chainrule.models.protocol.model import Model


class CanEncode(Model):
    """Maps examples to codes."""

    @abc.abstractmethod
    def encode(self, x: Array) -> Array:
        """A code for each example."""

    @property
    def code_map(self) -> tuple[int, int, int] | None:
        """Default: a code is no map; otherwise the rows, columns and channels that its entries are, in this order."""
        return None


class HasJointSpace(CanEncode):
    """Maps examples and their targets to vectors of length one in the same space."""

    @abc.abstractmethod
    def encode_target(self, y: Array) -> Float[Array, "batch features"]:
        """The vector of each target; that of an example it belongs to is near."""


class CanDecode(Model):
    """Maps codes to examples."""

    @abc.abstractmethod
    def decode(self, z: Array) -> Array:
        """An example for each code, in model units."""


class HasEmbedding(Model):
    """Gives every token of its vocabulary a vector."""

    @abc.abstractmethod
    def embeddings(self) -> Float[Array, "tokens features"]:
        """One row for each token."""


__all__ = ["CanDecode", "CanEncode", "HasEmbedding", "HasJointSpace"]
