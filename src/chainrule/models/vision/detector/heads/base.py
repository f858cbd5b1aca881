"""The interface of heads."""

import abc
from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Bool

from chainrule.core.types import Array, Float
from chainrule.models.protocol import Metrics

Maps = Sequence[Float[Array, "batch _ _ channels"]]
"""Feature maps of a pyramid, from fine to coarse."""
Outputs = Float[Array, "batch cells outputs"]
Objects = Float[Array, "batch objects 5"]
"""(x0, y0, x1, y1, class); a class of -1 fills up."""


class CellHead(eqx.Module):
    """From feature maps to boxes, and to the loss of these."""

    @abc.abstractmethod
    def __call__(self, maps: Maps) -> Outputs:
        """What the network says at each cell."""

    @abc.abstractmethod
    def losses(self, outputs: Outputs, y: Objects) -> tuple[Float[Array, " batch"], Metrics]:
        """The loss of each image, and means worth watching."""

    @abc.abstractmethod
    def boxes(
        self, outputs: Outputs
    ) -> tuple[Float[Array, "batch candidates 4"], Float[Array, "batch candidates classes"]]:
        """Boxes in pixels, and the score of each class for each."""


def there(y: Objects) -> Bool[Array, "batch objects"]:
    """Which rows are objects."""
    return y[..., 4] >= 0


__all__ = ["CellHead", "Maps", "Objects", "Outputs", "there"]
