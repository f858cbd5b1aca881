"""What explicit features of a kernel are: a map of points to vectors whose inner products come close to the kernel."""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Scalar

Rows = Float[Array | np.ndarray, "batch size"]
"""Points, one a row."""
Features = Float[Array | np.ndarray, "batch features"]
"""What stands for them."""


class KernelFeatures(eqx.Module):
    """A map from points to features; a linear model on them stands for a machine on the kernel."""

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """How many features a point has."""

    @abc.abstractmethod
    def __call__(self, x: Rows) -> Features:
        """The features of every row."""


@final
class LinearFeatures(KernelFeatures):
    """The coordinates themselves and the root of the offset: features of a linear kernel, exactly."""

    offset: Scalar
    size: int = eqx.field(static=True)

    @property
    def count(self) -> int:
        return self.size + 1

    def __call__(self, x: Rows) -> Features:
        return jnp.concatenate([x, jnp.broadcast_to(jnp.sqrt(self.offset), (len(x), 1))], axis=1)


@final
class ConstantFeatures(KernelFeatures):
    """One feature, the same for every point."""

    value: Scalar

    @property
    def count(self) -> int:
        return 1

    def __call__(self, x: Rows) -> Features:
        return jnp.broadcast_to(jnp.sqrt(self.value), (len(x), 1))


@final
class ScaledFeatures(KernelFeatures):
    """Features times the root of a constant: those of a kernel times the constant."""

    features: KernelFeatures
    value: Scalar

    @property
    def count(self) -> int:
        return self.features.count

    def __call__(self, x: Rows) -> Features:
        return jnp.sqrt(self.value) * jnp.asarray(self.features(x))


@final
class JoinedFeatures(KernelFeatures):
    """Features side by side: those of a sum of kernels."""

    first: KernelFeatures
    second: KernelFeatures

    @property
    def count(self) -> int:
        return self.first.count + self.second.count

    def __call__(self, x: Rows) -> Features:
        return jnp.concatenate([self.first(x), self.second(x)], axis=1)


__all__ = [
    "ConstantFeatures",
    "Features",
    "JoinedFeatures",
    "KernelFeatures",
    "LinearFeatures",
    "Rows",
    "ScaledFeatures",
]
