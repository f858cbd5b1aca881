"""Kernel PCA as a model: codes along curved axes, and examples of codes by pre-images."""

import abc
from collections.abc import Sequence
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import RBF
from chainrule.kernels.pre_images import LearntMap, Projection, descend, learnt
from chainrule.kernels.principal_components import FittedComponents, KernelPCA, KernelProjection
from chainrule.models.kernel import gram_pictures, keeping
from chainrule.models.kernel.kernel_pca.settings import KernelPCAConfig, kernel_from
from chainrule.models.kernel.settings import rows
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    HasOwnTraining,
    HasPictures,
    HasScores,
    Metrics,
    Scored,
)
from chainrule.networks.pictures import components

_SHOWN = 50
"""Variances in the picture of them, or twice as many as are kept."""


class CurvedComponents(HasOwnTraining, CanEncode, CanDecode, HasScores, HasPictures):
    """Codes are coordinates along the axes of largest variance in the space of features."""

    points: eqx.AbstractVar[Float[Array, "points features"]]
    """Examples that are kept: those whose codes say how to come back from codes to examples."""
    codes: eqx.AbstractVar[Float[Array, "points latent"]]
    back: eqx.AbstractVar[Float[Array, "points features"]]
    """Weights of the regression from codes to examples."""
    middle: eqx.AbstractVar[Float[Array, " features"]]
    log_code_scale: eqx.AbstractVar[Scalar]
    done: eqx.AbstractVar[Bool[Array, ""]]
    config: eqx.AbstractVar[KernelPCAConfig]
    schema: eqx.AbstractVar[Schema]

    @property
    @abc.abstractmethod
    def projection(self) -> Projection:
        """From flattened examples to codes."""

    @abc.abstractmethod
    def missed(self, x: Float[Array, "batch features"]) -> Float[Array, " batch"]:
        """Squared distance of the features of every example from the axes that are kept."""

    @abc.abstractmethod
    def holding(self, found: FittedComponents) -> Self:
        """The model with what was found."""

    @abc.abstractmethod
    def variances(self) -> Float[np.ndarray, " axes"]:
        """Along every axis there is, of the kept examples, largest first."""

    @property
    @abc.abstractmethod
    def learnt_from(self) -> int | None:
        """How many training examples it learns from at most; None: all of them."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared distance of features from the axes that are kept."""
        del key
        return self.missed(flat(batch.x)).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple[Self, Metrics]:
        """The closed form, and the regression back from codes to examples."""
        most = len(examples.x) if self.learnt_from is None else self.learnt_from
        part = keeping.part(examples, key, most)
        x, config = rows(part.x), self.config
        count = 2 if config.features == "auto" else config.features
        machine = KernelPCA(
            kernel_from(config), config.latent, approximate=config.approximate, count=count, key=key
        )
        found = machine.fit(x)
        some = keeping.spread(len(x), len(self.points))
        new = self.holding(found)._returning(x[some], found.codes[some], learnt(x[some], found.codes[some]))
        few: Any = jax.tree.map(lambda a: jnp.asarray(a[some]), part)
        loss, _ = _judged(new, few, key)
        return new, {"loss": loss, "explained": jnp.asarray(found.explained[: config.latent].sum())}

    def _returning(self, x: np.ndarray, codes: np.ndarray, way_back: LearntMap) -> Self:
        """With the way back from codes to examples."""
        arrays = (x, codes, way_back.fitted.coefficients, way_back.mean, np.log(way_back.scale))
        return eqx.tree_at(
            lambda m: (m.points, m.codes, m.back, m.middle, m.log_code_scale, m.done),
            self,
            (*(jnp.asarray(a, jnp.float32) for a in arrays), jnp.ones((), bool)),
        )

    @property
    def converged(self) -> bool:
        """After the closed form."""
        return bool(self.done)

    def encode(self, x: Array) -> Float[Array, "batch latent"]:
        """Coordinates along the axes."""
        return self.projection(flat(x))

    def decode(self, z: Array) -> Array:
        """Pre-images: examples whose features come close to these coordinates."""
        if self.config.decoder == "gradient":
            found = descend(self.projection, z, self.points, self.codes, self.config.decoding_steps)
        else:
            near = RBF(jnp.exp(self.log_code_scale)).tile(z, self.codes)
            found = near @ self.back + self.middle[None, :]
        return found.reshape(len(z), *self.schema.shape)

    def scores(self, batch: Batch, key: Key) -> dict[str, Scored]:
        """Squared error of an entry that is rebuilt from its code."""
        del key
        lost = jnp.square(flat(self.decode(self.encode(batch.x))) - flat(batch.x))
        return {"squared_error": Scored(lost.mean(axis=1), "per entry")}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Variances, codes, what is rebuilt, the Gram matrix."""
        del key
        x = components.shown(data)
        few = x[: components.COLUMNS]
        seen = self.variances()[: max(2 * self.config.latent, _SHOWN)]
        seen = seen[seen > 1e-12 * seen[0]]
        lost = "mean squared distance of features from the axes that are kept"
        return [
            components.scree(seen, self.config.latent, of="features", lost=lost),
            *components.codes(data, np.asarray(self.encode(jnp.asarray(x)))),
            *components.rebuilt(self.schema, few, np.asarray(self.decode(self.encode(jnp.asarray(few))))),
            gram_pictures.similarities(gram_pictures.exactly(kernel_from(self.config)), data),
        ]


@final
class KernelPCAModel(CurvedComponents):
    """Kernel PCA by the Gram matrix of the examples that are kept."""

    points: Float[Array, "points features"]
    axes: Float[Array, "points latent"]
    means: Float[Array, " points"]
    """Mean kernel of every kept example with all of them."""
    codes: Float[Array, "points latent"]
    back: Float[Array, "points features"]
    middle: Float[Array, " features"]
    log_code_scale: Scalar
    done: Bool[Array, ""]
    config: KernelPCAConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: KernelPCAConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        room, entries = keeping.room(config.points), schema.dimensions
        self.points = jnp.zeros((room, entries))
        self.axes = jnp.zeros((room, config.latent))
        self.means = jnp.broadcast_to(kernel_from(config).diagonal(jnp.zeros((1, entries))), (room,))
        self.codes = jnp.zeros((room, config.latent))
        self.back = jnp.zeros((room, entries))
        self.middle = jnp.zeros(entries)
        self.log_code_scale = jnp.zeros(())
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    @property
    def projection(self) -> KernelProjection:
        """By kernels with the kept examples."""
        return KernelProjection(kernel_from(self.config), self.points, self.axes, self.means)

    @property
    def learnt_from(self) -> int | None:
        """As many as are kept."""
        return len(self.points)

    def missed(self, x: Float[Array, "batch features"]) -> Float[Array, " batch"]:
        """The squared distance from the mean, less what is along the axes."""
        kernel = kernel_from(self.config)
        near = kernel.tile(x, self.points).astype(self.axes.dtype)
        square = kernel.diagonal(x) - 2 * near.mean(axis=1) + self.means.mean()
        codes = (near - self.means[None, :]) @ self.axes
        return square - jnp.square(codes).sum(axis=1)

    def holding(self, found: FittedComponents) -> "KernelPCAModel":
        """With the axes as weights of the kept examples."""
        assert isinstance(found.projection, KernelProjection)
        arrays = (found.projection.axes, found.projection.means)
        return eqx.tree_at(
            lambda m: (m.axes, m.means), self, tuple(jnp.asarray(a, jnp.float32) for a in arrays)
        )

    def variances(self) -> Float[np.ndarray, " axes"]:
        """By the Gram matrix once more."""
        return KernelPCA(kernel_from(self.config), 1).fit(np.asarray(self.points)).variances


def flat(x: Array) -> Float[Array, "batch features"]:
    """Examples of any shape as rows."""
    return x.reshape(len(x), -1)


@eqx.filter_jit
def _judged(model: CurvedComponents, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


__all__ = ["CurvedComponents", "KernelPCAModel", "flat"]
