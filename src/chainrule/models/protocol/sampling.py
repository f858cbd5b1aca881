"""Drawing new examples."""

import abc
from typing import Any

from chainrule.core.types import Array, Key
from chainrule.models.protocol.model import Model


class CanSample(Model):
    """Draws new examples."""

    @abc.abstractmethod
    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` new examples, in model units. `condition` is the option for class-conditional models."""


class HasRequest(CanSample):
    """Draws examples after pictures that can be shown beside them."""

    @abc.abstractmethod
    def request(self, n: int, **options: Any) -> Array | None:
        """The picture in [0, 1] that each of `n` examples is to follow under these options of `sample`, if any."""


__all__ = ["CanSample", "HasRequest"]
