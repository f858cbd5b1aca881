"""Invertible models that can be audited."""

import abc
from typing import Any

from chainrule.core.types import Array, Key
from chainrule.models.protocol.model import Model
from chainrule.networks.flows.findings import Audit


class HasAudit(Model):
    """Maps examples to codes of the same size and back, and can show that it does so rightly."""

    @abc.abstractmethod
    def audit(self, x: Array, key: Key, condition: Any = None) -> Audit:
        """Inverse, change of volume and total probability at these examples, in model units."""

    @property
    def passes(self) -> tuple[int, int] | None:
        """Default: not known; otherwise how many passes of its network wait for each other, of density and draw."""
        return None


__all__ = ["HasAudit"]
