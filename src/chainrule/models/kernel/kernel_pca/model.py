"""Kernel PCA as a model: codes along curved axes, and examples of codes by pre-images."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import RBF, Kernel
from chainrule.kernels.pre_images import descend, learnt
from chainrule.kernels.principal_components import KernelPCA, KernelProjection
from chainrule.models.kernel import gram_pictures, keeping
from chainrule.models.kernel.settings import (
    Degree,
    Kept,
    KernelName,
    Scale,
    kept,
    kernel_of,
    median_distance,
    refuse_weights,
    rows,
)
from chainrule.models.protocol import (
    CanDecode,
    CanEncode,
    Config,
    HasOwnTraining,
    HasPictures,
    HasScores,
    Metrics,
    Scored,
)
from chainrule.networks.pictures import components

MOST = 2000
"""Training examples that are kept unless told otherwise."""
_SHOWN = 50
"""Variances in the picture of them, or twice as many as are kept."""


@final
class KernelPCAConfig(Config):
    """Settings of kernel PCA."""

    latent: int = Field(16, ge=1, description="axes that are kept, fewer than kept examples")
    kernel: KernelName = "rbf"
    scale: Scale = "auto"
    degree: Degree = 3
    decoder: Literal["ridge", "gradient"] = Field(
        "ridge",
        description="examples of codes: by a regression from codes to training examples, or by descent to the example "
        "whose features come closest",
    )
    decoding_steps: int = Field(100, ge=1, le=100_000, description="decoder=gradient: steps of descent")
    points: Kept = "auto"


def kernel_from(config: KernelPCAConfig) -> Kernel:
    """The kernel that settings describe."""
    return kernel_of(config.kernel, 1.0 if config.scale == "auto" else config.scale, config.degree)


def measured(config: KernelPCAConfig, data: Data) -> Mapping[str, Any]:
    """The scale and the number of kept examples; more axes than these have are refused."""
    refuse_weights("kernel-pca", data)
    points = kept(config.points, data, MOST)
    # Features less their mean have no more axes than examples, and those of inner products few of their own.
    size = data.schema.dimensions
    of_kernel = {"linear": size, "polynomial": math.comb(size + config.degree, config.degree) - 1}
    axes = min(points - 1, of_kernel.get(config.kernel, points))
    if config.latent > axes:
        raise ArgumentError(
            f"latent={config.latent}: the features of {points} examples vary along {axes} axes",
            remedy=f"use latent={axes} or less" if axes else "use more training examples",
        )
    scale = median_distance(data) if config.scale == "auto" else config.scale
    return {"points": points, "scale": float(f"{scale:.6g}")}


@final
class KernelPCAModel(HasOwnTraining, CanEncode, CanDecode, HasScores, HasPictures):
    """Codes are coordinates along the axes of largest variance in the space of features."""

    points: Float[Array, "points features"]
    axes: Float[Array, "points latent"]
    means: Float[Array, " points"]
    """Mean kernel of every kept example with all of them."""
    codes: Float[Array, "points latent"]
    back: Float[Array, "points features"]
    """Weights of the regression from codes to examples."""
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
        """From flattened examples to codes."""
        return KernelProjection(kernel_from(self.config), self.points, self.axes, self.means)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared distance of features from the axes that are kept."""
        del key
        x = self._rows(batch.x)
        kernel = kernel_from(self.config)
        near = kernel.tile(x, self.points).astype(self.axes.dtype)
        square = kernel.diagonal(x) - 2 * near.mean(axis=1) + self.means.mean()
        codes = (near - self.means[None, :]) @ self.axes
        return (square - jnp.square(codes).sum(axis=1)).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["KernelPCAModel", Metrics]:
        """The closed form, and the regression back from codes to examples."""
        part = keeping.part(examples, key, len(self.points))
        x = rows(part.x)
        found = KernelPCA(kernel_from(self.config), self.config.latent).fit(x)
        assert isinstance(found.projection, KernelProjection)
        way_back = learnt(x, found.codes)
        arrays = (
            x,
            found.projection.axes,
            found.projection.means,
            found.codes,
            way_back.fitted.coefficients,
            way_back.mean,
            np.log(way_back.scale),
        )
        new = eqx.tree_at(
            lambda m: (m.points, m.axes, m.means, m.codes, m.back, m.middle, m.log_code_scale, m.done),
            self,
            (*(jnp.asarray(a, jnp.float32) for a in arrays), jnp.ones((), bool)),
        )
        loss, _ = _judged(new, jax.tree.map(jnp.asarray, part), key)
        return new, {"loss": loss, "explained": jnp.asarray(found.explained[: self.config.latent].sum())}

    @property
    def converged(self) -> bool:
        """After the closed form."""
        return bool(self.done)

    def encode(self, x: Array) -> Float[Array, "batch latent"]:
        """Coordinates along the axes."""
        return self.projection(self._rows(x))

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
        lost = jnp.square(self._rows(self.decode(self.encode(batch.x))) - self._rows(batch.x))
        return {"squared_error": Scored(lost.mean(axis=1), "per entry")}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Variances, codes, what is rebuilt, the Gram matrix."""
        del key
        kernel = kernel_from(self.config)
        variances = KernelPCA(kernel, 1).fit(np.asarray(self.points)).variances
        x = components.shown(data)
        few = x[: components.COLUMNS]
        seen = variances[: max(2 * self.config.latent, _SHOWN)]
        seen = seen[seen > 1e-12 * seen[0]]
        lost = "mean squared distance of features from the axes that are kept"
        return [
            components.scree(seen, self.config.latent, of="features", lost=lost),
            *components.codes(data, np.asarray(self.encode(jnp.asarray(x)))),
            *components.rebuilt(self.schema, few, np.asarray(self.decode(self.encode(jnp.asarray(few))))),
            gram_pictures.similarities(gram_pictures.exactly(kernel), data),
        ]

    def _rows(self, x: Array) -> Float[Array, "batch features"]:
        return x.reshape(len(x), -1)


@eqx.filter_jit
def _judged(model: KernelPCAModel, examples: Batch, key: Key) -> Any:
    return model.loss(examples, key)


__all__ = ["KernelPCAConfig", "KernelPCAModel", "kernel_from", "measured"]
