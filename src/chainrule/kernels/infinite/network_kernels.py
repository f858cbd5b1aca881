"""The kernels of infinitely wide networks as `Kernel` objects: for Gaussian processes and all machines on kernels.

Weights' standard deviations are arrays of the network, so evidence may be maximised in them like in any scale.
"""

import math
from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.kernels.infinite.network import InfiniteNetwork
from chainrule.kernels.kernel import Kernel, Points


def _shaped(x: Array, shape: tuple[int, ...] | None) -> Array:
    if shape is None:
        return x
    if x.shape[1] != math.prod(shape):
        raise ArgumentError(f"kernel: points of {x.shape[1]} numbers do not have the shape {shape}")
    return x.reshape(len(x), *shape)


@final
class NNGP(Kernel):
    """The covariance of a random network of infinite width; `shape` is that of one input, where it is no vector.

    >>> from chainrule.kernels.infinite import Dense
    >>> float(NNGP(Dense(0))([1.0, 2.0], [3.0, 4.0]))
    11.0
    """

    network: InfiniteNetwork
    shape: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        rows, columns = _shaped(x, self.shape), _shaped(y, self.shape)
        apart = jnp.zeros((len(x), len(y)), bool)
        return self.network.tile(rows, columns, apart, ntk=False, standard=None).nngp

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        return self.network.variance(_shaped(x, self.shape))


@final
class NTK(Kernel):
    """The tangent kernel of a network of infinite width; `shape` is that of one input, where it is no vector.

    >>> from chainrule.kernels.infinite import Dense
    >>> round(float(NTK(Dense(3))([0.6, 0.8], [0.6, 0.8])), 5)
    4.0
    """

    network: InfiniteNetwork
    shape: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def tile(self, x: Points, y: Float[Array, "columns features"]) -> Float[Array, "rows columns"]:
        rows, columns = _shaped(x, self.shape), _shaped(y, self.shape)
        apart = jnp.zeros((len(x), len(y)), bool)
        found = self.network.tile(rows, columns, apart, ntk=True, standard=None).ntk
        assert found is not None  # it was asked for
        return found

    def diagonal(self, x: Points) -> Float[Array, " rows"]:
        def own(row: Array) -> Array:
            return self.tile(row[None], row[None])[0, 0]

        return eqx.filter_vmap(own)(x)


__all__ = ["NNGP", "NTK"]
