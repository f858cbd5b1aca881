"""Things in images: where they are, and what they might be."""

import abc

import equinox as eqx
import numpy as np
from jaxtyping import Float

from chainrule.core.types import Array
from chainrule.data.schema import Schema
from chainrule.models.protocol.prediction import CanPredict
from chainrule.nn.segmentation import Potentials


class CanLocate(CanPredict):
    """Says where in an image things are: its targets, boxes or masks, move with the images of training."""

    schema: eqx.AbstractVar[Schema]


class CanRefine(CanLocate):
    """Gives each pixel a class, and can let neighbours of one colour agree (`nn.segmentation.crf`)."""

    refine: eqx.AbstractVar[bool]
    """Whether predictions are refined."""

    @property
    @abc.abstractmethod
    def potentials(self) -> Potentials:
        """What a pair of pixels of different classes costs."""


def refining(model: CanRefine, refine: bool = True) -> CanRefine:
    """The model with its predictions refined, or as its network gives them."""
    changed: CanRefine = eqx.tree_at(lambda one: one.refine, model, refine)
    return changed


class HasProposals(CanLocate):
    """Looks first for regions that may hold something, whatever that is, and at each of them afterwards."""

    @abc.abstractmethod
    def anchors(self) -> Float[np.ndarray, "anchors 4"]:
        """The boxes, if any, that regions are coded relative to, in pixels; those of a cell stand together."""

    @abc.abstractmethod
    def anchors_of_a_cell(self) -> int:
        """How many of them belong to one cell."""

    @abc.abstractmethod
    def proposals(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch proposals 5"]:
        """(x0, y0, x1, y1, score) of regions, the highest scores first; of a filler the score is 0."""


__all__ = ["CanLocate", "CanRefine", "HasProposals", "refining"]
