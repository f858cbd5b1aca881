"""Things in images: where they are, and what they might be."""

import abc

import equinox as eqx
import numpy as np
from jaxtyping import Float

from chainrule.core.types import Array
from chainrule.data.schema import Schema
from chainrule.models.protocol.prediction import CanPredict


class CanLocate(CanPredict):
    """Says where in an image things are: its targets, boxes or masks, move with the images of training."""

    schema: eqx.AbstractVar[Schema]


class HasProposals(CanLocate):
    """Looks first for regions that may hold something, whatever that is, and at each of them afterwards."""

    @abc.abstractmethod
    def anchors(self) -> Float[np.ndarray, "anchors 4"]:
        """The boxes that regions are coded relative to, in pixels; those of a cell stand together."""

    @abc.abstractmethod
    def anchors_of_a_cell(self) -> int:
        """How many of them belong to one cell."""

    @abc.abstractmethod
    def proposals(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch proposals 5"]:
        """(x0, y0, x1, y1, score) of regions, the highest scores first; of a filler the score is 0."""


__all__ = ["CanLocate", "HasProposals"]
