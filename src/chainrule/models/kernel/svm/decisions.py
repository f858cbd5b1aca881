"""What every support vector machine does as a model: decision values, one run of the solver, pictures.

Decision values are `sum_i b_i k(x_i, x) + intercept` of the training examples that are kept, or `w · psi(x) +
intercept` of features in place of the kernel, for which no example is kept.
"""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Kernel
from chainrule.kernels.features import KernelFeatures
from chainrule.kernels.support_vectors.basis import feature_weights
from chainrule.kernels.wide import Wide
from chainrule.models.kernel import feature_maps, keeping
from chainrule.models.kernel.approximating import USUAL
from chainrule.models.kernel.settings import rows
from chainrule.models.kernel.svm import pictures
from chainrule.models.kernel.svm.settings import MOST, SVMConfig, kernel_from
from chainrule.models.protocol import HasOwnTraining, HasPictures, Metrics


class Room(NamedTuple):
    """Arrays of a model that is not trained yet: of kept examples, or of features."""

    points: Float[Array, "points features"] | None
    coefficients: Float[Array, "points outputs"] | None
    features: KernelFeatures | None
    weights: Wide | None


def room_for(config: SVMConfig, schema: Schema, outputs: int, key: Key) -> Room:
    """Room for what settings ask for."""
    if config.approximate == "none":
        points = keeping.room(config.points)
        return Room(jnp.zeros((points, schema.dimensions)), jnp.zeros((points, outputs)), None, None)
    count = count_of(config)
    features = feature_maps.blank(config.approximate, kernel_from(config), schema.dimensions, count, key)
    return Room(None, None, features, Wide.of(np.zeros((features.count, outputs)), jnp.float32))


def count_of(config: SVMConfig) -> int:
    """How many features there are."""
    return USUAL if config.features == "auto" else config.features


class SupportVectors(HasOwnTraining, HasPictures):
    """Decision values by kept examples or by features."""

    points: eqx.AbstractVar[Float[Array, "points features"] | None]
    coefficients: eqx.AbstractVar[Float[Array, "points outputs"] | None]
    features: eqx.AbstractVar[KernelFeatures | None]
    weights: eqx.AbstractVar[Wide | None]
    intercepts: eqx.AbstractVar[Float[Array, " outputs"]]
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[SVMConfig]
    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def learnt(self, x: np.ndarray, examples: Batch, key: Key) -> tuple[Self, dict[str, float]]:
        """The model fitted to these rows, and numbers worth watching: support vectors, the gap."""

    @abc.abstractmethod
    def room(self, values: np.ndarray, batch: Batch) -> Float[np.ndarray, " rows"]:
        """How far examples of these decision values are on their side of margin, tube or region; below zero: not."""

    @property
    @abc.abstractmethod
    def room_name(self) -> str:
        """What that is, in a few words."""

    def decision(self, x: Array) -> Float[Array, "batch outputs"]:
        """Decision values in model units."""
        flat = x.reshape(len(x), -1)
        if self.features is not None and self.weights is not None:
            found = feature_maps.weighted(self.features, self.weights, flat)
        else:
            assert self.points is not None
            assert self.coefficients is not None
            tile = kernel_from(self.config).tile(flat, self.points)
            found = tile.astype(self.coefficients.dtype) @ self.coefficients
        return found + jnp.broadcast_to(self.intercepts, found.shape)

    def holding(
        self,
        kernel: Kernel,
        x: Float[np.ndarray, "rows features"],
        coefficients: Float[np.ndarray, "rows outputs"],
    ) -> Self:
        """With what was learnt from these rows, whose coefficients are zero where they are no support vectors."""
        linear = feature_weights(kernel, x, coefficients)
        if linear is not None:
            found = feature_maps.held(linear[0]), Wide.of(linear[1], jnp.float32)
            return eqx.tree_at(lambda m: (m.features, m.weights), self, found)
        assert self.points is not None
        filled = (keeping.filled(part, len(self.points)) for part in (x, coefficients))
        arrays = tuple(jnp.asarray(part, jnp.float32) for part in filled)
        return eqx.tree_at(lambda m: (m.points, m.coefficients), self, arrays)

    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """The whole fit, from all examples or from as many as are kept."""
        part = keeping.part(examples, key, len(examples.x) if self.points is None else len(self.points))
        fitted, numbers = self.learnt(rows(part.x), part, key)
        new = eqx.tree_at(lambda m: m.done, fitted, jnp.ones((), bool))
        some = keeping.spread(len(part.x), MOST)
        loss, metrics = _judged(new, jax.tree.map(lambda a: jnp.asarray(a[some]), part), key)
        return new, {"loss": loss, **metrics, **{name: jnp.asarray(value) for name, value in numbers.items()}}

    @property
    def converged(self) -> bool:
        """After the fit."""
        return bool(self.done)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Support vectors by class, margins in the plane, decision values, examples that violate most."""
        del key
        return pictures.all_of(self, data)


@eqx.filter_jit
def _judged(model: SupportVectors, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


def of_all_rows(
    rows: int, support: np.ndarray, coefficients: np.ndarray
) -> Float[np.ndarray, "rows outputs"]:
    """Coefficients of all rows: zero of those that are no support vectors.

    >>> of_all_rows(3, np.array([1]), np.array([[2.0]])).tolist()
    [[0.0], [2.0], [0.0]]
    """
    found = np.zeros((rows, coefficients.shape[1]))
    found[support] = coefficients
    return found


__all__ = ["Room", "SupportVectors", "count_of", "of_all_rows", "room_for"]
