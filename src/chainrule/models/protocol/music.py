"""Music event by event: how unexpected each event is, and how a piece goes on."""

import abc
from typing import Any

from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol.sampling import CanSample


class CanCompose(CanSample):
    """Reads and writes music one event after the other."""

    @abc.abstractmethod
    def event_nats(
        self, x: Int[Array, "batch events"], condition: Int[Array, " batch"] | None = None
    ) -> Float[Array, "batch events"]:
        """Minus the log-probability of each event given those before it, in nats; perhaps of a class."""

    @abc.abstractmethod
    def continued(
        self, key: Key, x: Int[Array, "batch events"], length: int, **options: Any
    ) -> Int[Array, "batch length"]:
        """The next `length` events after each excerpt; the options are those of `sample` that say how to draw."""


__all__ = ["CanCompose"]
