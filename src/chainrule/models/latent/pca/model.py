"""Principal component analysis as a model: encode, decode, and what is lost."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import equinox as eqx
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
from chainrule.probability.linear import principal_components
from chainrule.probability.linear.principal_components import Method


@final
class PCAConfig(Config):
    """Settings of PCA."""

    latent: int = Field(16, ge=1, description="axes that are kept, at most as many as entries or examples")
    whiten: bool = Field(False, description="codes of variance one along every axis")
    method: Method = Field(
        "auto",
        description="eigenvectors of the covariance, singular vectors of the data, or a randomised search for a few "
        "axes of wide data; auto: by size",
    )


@final
class PCA(HasOwnTraining, CanEncode, CanDecode, HasScores, HasPictures):
    """Codes are coordinates along the axes of largest variance."""

    mean: Float[Array, " features"]
    axes: Float[Array, "latent features"]
    variances: Float[Array, " latent"]
    done: Bool[Array, ""]
    config: PCAConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: PCAConfig, schema: Schema, key: Key) -> None:
        del key  # the data decide everything
        entries = schema.dimensions
        if config.latent > entries:
            raise ArgumentError(
                f"latent={config.latent}: examples have {entries} entries",
                remedy=f"use latent={entries} or less",
            )
        self.mean = jnp.zeros(entries)
        self.axes = jnp.eye(config.latent, entries)
        self.variances = jnp.ones(config.latent)
        self.done = jnp.zeros((), bool)
        self.config, self.schema = config, schema

    def loss_unit(self) -> str:
        """That of what is left."""
        return "squared error per example"

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Mean squared error of an example: the sum over its entries."""
        del key
        x = self._rows(batch.x)
        back = ((x - self.mean[None]) @ self.axes.T) @ self.axes + self.mean[None]
        return jnp.square(x - back).sum(axis=1).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["PCA", Metrics]:
        """The closed form."""
        before, _ = self.loss(Batch(jnp.asarray(examples.x)), key)
        x = np.asarray(examples.x, np.float64).reshape(len(examples.x), -1)
        found = principal_components(x, self.config.latent, method=self.config.method)
        if self.config.whiten:
            found.transform(x[:1], whiten=True)  # refuses an axis without variance
        arrays = (found.mean, found.axes, found.variances)
        new = eqx.tree_at(
            lambda m: (m.mean, m.axes, m.variances, m.done),
            self,
            (*(jnp.asarray(a, jnp.float32) for a in arrays), jnp.ones((), bool)),
        )
        return new, {"loss": before, "explained": found.explained.sum()}

    @property
    def converged(self) -> bool:
        """After one iteration."""
        return bool(self.done)

    def encode(self, x: Array) -> Float[Array, "batch latent"]:
        """Coordinates along the axes."""
        codes = (self._rows(x) - self.mean[None]) @ self.axes.T
        return codes / self._scales()[None]

    def decode(self, z: Array) -> Array:
        """The point with these coordinates."""
        rows = (z * self._scales()[None]) @ self.axes + self.mean[None]
        return rows.reshape(len(z), *self.schema.shape)

    def scores(self, batch: Batch, key: Key) -> dict[str, Scored]:
        """Squared error of an entry, and the share of the variance around the training mean that is lost."""
        del key
        x = self._rows(batch.x)
        lost = jnp.square(self._rows(self.decode(self.encode(batch.x))) - x)
        return {"squared_error": Scored(lost.mean(axis=1), "per entry")}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Scree, axes, what is rebuilt, codes."""
        del key
        train = np.asarray(data.train.x, np.float64).reshape(len(data.train), -1)
        whole = principal_components(train)
        x = components.shown(data)
        few = x[: components.COLUMNS]
        return [
            components.scree(whole.variances, self.config.latent),
            *components.axes(self.schema, np.asarray(self.axes)),
            *components.rebuilt(self.schema, few, np.asarray(self.decode(self.encode(jnp.asarray(few))))),
            *components.codes(data, np.asarray(self.encode(jnp.asarray(x)))),
        ]

    def _rows(self, x: Array) -> Float[Array, "batch features"]:
        return x.reshape(len(x), -1)

    def _scales(self) -> Float[Array, " latent"]:
        return jnp.sqrt(self.variances) if self.config.whiten else jnp.ones_like(self.variances)


def checked(config: PCAConfig, data: Data) -> Mapping[str, Any]:
    """Nothing is chosen; more axes than the training examples have are refused."""
    x = np.asarray(data.train.x, np.float64).reshape(len(data.train), -1)
    most = min(x.shape)
    if config.latent > most:
        raise ArgumentError(
            f"latent={config.latent}: {len(x)} training examples of {x.shape[1]} entries have {most} axes",
            remedy=f"use latent={most} or less",
        )
    if config.whiten:
        varying = principal_components(x).rank
        if config.latent > varying:
            raise ArgumentError(
                f"whiten=true with latent={config.latent}: training examples vary along {varying} axes, and no other "
                "variance can be made one",
                remedy=f"use latent={varying} or less, or whiten=false",
            )
    return {}


__all__ = ["PCA", "PCAConfig", "checked"]
