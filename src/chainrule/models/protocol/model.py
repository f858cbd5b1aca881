"""The root of the protocol: arrays with a differentiable loss."""

import abc
from collections.abc import Mapping

import equinox as eqx

from chainrule.core.types import Array, Key, Scalar
from chainrule.data.batches import Batch

Metrics = Mapping[str, Array]


class Model(eqx.Module):
    """Something that can be trained: arrays and a loss."""

    @abc.abstractmethod
    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean loss over the batch, and named scalars (means over the batch) worth watching."""

    def loss_unit(self) -> str:
        """Default: empty, a number without one; otherwise what the loss is measured in."""
        return ""

    def loss_resolution(self) -> float:
        """Default: every difference counts; otherwise one of validation losses that may well be chance.

        Among checkpoints whose losses differ by less, the latest is the best.
        """
        return 0.0

    @property
    def least_batch(self) -> int:
        """Default: one example is enough for a step; otherwise how many a batch needs, where sets are compared."""
        return 1


__all__ = ["Metrics", "Model"]
