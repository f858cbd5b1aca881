"""Masked images: patches that are hidden, and what fills them."""

import abc

from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key
from chainrule.models.protocol.model import Model

_Images = Float[Array, "batch height width channels"]
_Gaps = Bool[Array, "batch patches"]


class CanFill(Model):
    """Fills hidden patches of images from those that are seen."""

    @property
    @abc.abstractmethod
    def hidden_share(self) -> float:
        """The share of patches that training hides."""

    @abc.abstractmethod
    def random_gaps(self, key: Key, n: int, share: float) -> _Gaps:
        """Patches to hide at random, the same share in each of `n` images, at least one."""

    @abc.abstractmethod
    def gap_pixels(self, gaps: _Gaps) -> Bool[Array, "batch height width"]:
        """Which pixels are hidden."""

    @abc.abstractmethod
    def expected(self, x: _Images, gaps: _Gaps) -> _Images:
        """Images whose gaps hold the mean of every pixel, given all that is not hidden."""

    @abc.abstractmethod
    def fill(self, x: _Images, gaps: _Gaps, key: Key, *, temperature: float = 1.0) -> _Images:
        """Images whose gaps are drawn, one after another."""


__all__ = ["CanFill"]
