"""Detection of spoofs: images of images among live ones."""

import abc

from chainrule.core.types import Array, Float
from chainrule.models.protocol.prediction import CanPredict


class HasSpoofScore(CanPredict):
    """Says of each example how much of it is no live image, by one number that a threshold decides on."""

    @property
    @abc.abstractmethod
    def live_class(self) -> int:
        """The number of the class of live examples; all others are spoofs."""

    @abc.abstractmethod
    def spoof_score(self, x: Array) -> Float[Array, " batch"]:
        """The higher, the less live."""


__all__ = ["HasSpoofScore"]
