"""Directions of identities: images of one person or thing get vectors of one direction, also if it is new."""

import math
from collections.abc import Sequence
from typing import Any, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.targets.identity import UNKNOWN, angles_of, numbers_of
from chainrule.models.protocol import CanEncode, Config, HasPictures, HasState, Metrics, weighted_mean
from chainrule.networks.conv_autoencoder import ConvEncoder
from chainrule.networks.pictures import verification
from chainrule.nn import Linear
from chainrule.nn.losses import cross_entropy
from chainrule.nn.margins import angular_margin, batch_triplets, partner_surprisal, unit

_FRONTAL = 15.0
"""Degrees up to which a head counts as seen from the front."""
_FEW = 1000
"""Identities below which the published scale and margin are too hard."""
_KEPT = 0.9
"""Share of the old mean of frontal vectors that stays when a batch brings new ones."""


@final
class IdentifierConfig(Config):
    """Settings of the identifier."""

    objective: Literal["angular", "softmax", "triplet"] = Field(
        "angular",
        description="what pulls identities apart: directions of identities with an additive angular margin; a plain "
        "classifier of vectors of one length; triplets of a batch, which has to hold several images of an identity",
    )
    scale: float = Field(
        64.0,
        gt=0,
        le=1000,
        description="what cosines are multiplied by; angular: 16 by default below 1,000 identities",
    )
    margin: float = Field(
        0.5,
        ge=0,
        lt=3,
        description="angular: radians, 0.2 by default below 1,000 identities; triplet: of squared distances, 0.2 by "
        "default",
    )
    features: int = Field(64, ge=2, description="entries of a vector")
    width: int = Field(
        16, ge=1, description="channels of the first resolution; each further one has twice as many"
    )
    stages: int = Field(3, ge=1, le=8, description="resolutions; each halves the image of the one before")
    pose: bool = Field(
        False,
        description="turn vectors of heads seen from the side into those from the front, by how far they are turned; "
        "needs data that say so, and is on where they do",
    )
    hidden: int = Field(64, ge=1, description="pose: units of the layer between")
    pose_weight: float = Field(
        1.0, ge=0, description="pose: price of a turned vector that is not the frontal one"
    )


@final
class Pose(eqx.Module):
    """`f + gamma(yaw) R(f)`: nothing is added to a frontal vector, all of R to one from the side (Cao et al., 2018)."""

    layers: tuple[Linear, Linear]
    yaw: Linear

    def __init__(self, features: int, hidden: int, key: Key) -> None:
        keys = jax.random.split(key, 3)
        self.layers = (
            Linear(features, hidden, key=keys[0], gain=math.sqrt(2)),
            Linear(hidden, features, key=keys[1]),
        )
        self.yaw = Linear(features, 1, key=keys[2])

    def turned(self, f: Float[Array, "batch features"]) -> Float[Array, " batch"]:
        """The share of 90 degrees by which each is turned, as the vector itself says."""
        return jax.nn.sigmoid(self.yaw(f))[:, 0]

    def frontal(
        self, f: Float[Array, "batch features"], gamma: Float[Array, " batch"]
    ) -> Float[Array, "batch features"]:
        """Vectors as if seen from the front."""
        return f + gamma[:, None] * self.layers[1](jax.nn.relu(self.layers[0](f)))


@final
class Identifier(CanEncode, HasState, HasPictures):
    """A convolutional encoder whose vectors are compared by their cosine."""

    encoder: ConvEncoder
    pose: Pose | None
    directions: Float[Array, "identities features"]
    """Of the identities of training."""
    fronts: Float[Array, "identities features"] | None
    """With a pose, running means of their frontal vectors; zero until there was one."""
    config: IdentifierConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: IdentifierConfig, schema: Schema, key: Key) -> None:
        if config.pose and not schema.target_shape:
            raise ArgumentError(
                "identifier(pose=true): these data do not say how far anything is turned",
                remedy="leave pose out, or give a list with a column of degrees: data.labels=FILE.csv "
                "data.target=WHO,DEGREES data.target_as=identity",
            )
        keys = jax.random.split(key, 3)
        channels = [config.width << stage for stage in range(config.stages)]
        self.encoder = ConvEncoder(schema.shape, config.features, channels=channels, key=keys[0])
        self.pose = Pose(config.features, config.hidden, keys[1]) if config.pose else None
        shape = len(schema.classes), config.features
        self.directions = jax.random.normal(keys[2], shape) / math.sqrt(config.features)
        self.fronts = jnp.zeros(shape) if config.pose else None
        self.config, self.schema = config, schema

    def encode(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch features"]:
        """A vector of length one for each image."""
        f = self.encoder(2 * x - 1)
        return unit(f if self.pose is None else self.pose.frontal(f, self.pose.turned(f)))

    def loss_and_state(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics, Self]:
        """The loss of the identities of training, or, for a batch without any of these, of the pairs in it."""
        del key
        assert batch.y is not None, "identities are there"
        who = numbers_of(batch.y)
        known = who < len(self.schema.classes)
        f = self.encoder(2 * batch.x - 1)
        v, extra, metrics, moved = self._frontal(f, batch.y, who, known)
        pairs = partner_surprisal(v, who)
        weights = known.astype(v.dtype) if batch.weights is None else known * batch.weights.astype(v.dtype)
        share = jnp.maximum(known.mean(dtype=v.dtype), 1e-6)
        own = self._of_known(v, who, known, weights / share)
        loss = jnp.where(known.any(), own + self.config.pose_weight * extra, pairs)
        return loss, {"pairs": pairs, "partner_found": _found(v, who), **metrics}, moved

    def state(self) -> Sequence[Tree]:
        """The running means of frontal vectors, where there are any."""
        return [] if self.fronts is None else [self.fronts]

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Who is near whom among held-out identities, how similar pairs are, and the pairs that are worst."""
        del key
        return verification.of_vectors(data, eqx.filter_jit(self.encode))

    def _of_known(
        self,
        v: Float[Array, "batch features"],
        who: Int[Array, " batch"],
        known: Bool[Array, " batch"],
        weights: Float[Array, " batch"],
    ) -> Scalar:
        settings = self.config
        if settings.objective == "triplet":
            return batch_triplets(v, who, margin=settings.margin)
        who = jnp.where(known, who, 0)  # the others have no weight
        if settings.objective == "softmax":
            return weighted_mean(cross_entropy(settings.scale * (v @ self.directions.T), who), weights)
        cosines = v @ unit(self.directions).T
        each = angular_margin(cosines, who, scale=settings.scale, margin=settings.margin)
        return weighted_mean(each, weights)

    def _frontal(
        self, f: Float[Array, "batch features"], y: Array, who: Int[Array, " batch"], known: Array
    ) -> tuple[Array, Scalar, dict[str, Array], Self]:
        """Vectors of length one, what the pose costs, numbers to watch, and the model with its means moved on."""
        if self.pose is None or self.fronts is None:
            return unit(f), jnp.zeros((), f.dtype), {}, self
        angle = jnp.abs(angles_of(y)).astype(jnp.float32)
        measured = angle < UNKNOWN
        true, guess = jnp.clip(angle / 90, 0, 1), self.pose.turned(f)
        v = unit(self.pose.frontal(f, jnp.where(measured, true, guess)))
        error = jnp.where(measured, jnp.square(guess - true), 0).mean()
        fronts = self.fronts[jnp.where(known, who, 0)]
        seen = known & measured & (jnp.abs(fronts).sum(axis=1) > 0)
        apart = jnp.where(seen, true * (1 - (v * unit(fronts)).sum(axis=1)), 0).mean()
        return (
            v,
            apart + error,
            {"pose": apart, "yaw_error": 90 * jnp.sqrt(error)},
            self._moved(v, who, known & (angle <= _FRONTAL)),
        )

    def _moved(self, v: Array, who: Int[Array, " batch"], frontal: Array) -> Self:
        assert self.fronts is not None, "there is a pose"
        hot = jax.nn.one_hot(jnp.where(frontal, who, -1), len(self.schema.classes), dtype=self.fronts.dtype)
        count = hot.sum(axis=0)[:, None]
        mean = hot.T @ jax.lax.stop_gradient(v).astype(hot.dtype) / jnp.maximum(count, 1)
        new = jnp.where(count > 0, _KEPT * self.fronts + (1 - _KEPT) * mean, self.fronts)
        return eqx.tree_at(lambda model: model.fronts, self, new)


def _found(v: Float[Array, "batch features"], who: Int[Array, " batch"]) -> Scalar:
    """How often the nearest other vector of the batch is of the same identity, of those that could be right."""
    itself = jnp.eye(len(v), dtype=bool)
    nearest = jnp.where(itself, -2.0, v @ v.T).argmax(axis=1)
    could = ((who[:, None] == who[None]) & ~itself).any(axis=1)
    return ((who[nearest] == who) & could).sum() / jnp.maximum(could.sum(), 1)


def suited(config: IdentifierConfig, schema: Schema, examples: int | None) -> dict[str, Any]:
    """The pose where the data tell it; for triplets the usual margin; for few identities an easier problem.

    The published scale and margin are for tens of thousands of identities: few leave hardly a gradient but margins.
    """
    del examples
    found: dict[str, Any] = {"pose": True} if schema.target_shape else {}
    few = config.objective == "angular" and len(schema.classes) < _FEW
    margin = {"margin": 0.2} if few or config.objective == "triplet" else {}
    return {**found, **margin, **({"scale": 16.0} if few else {})}


__all__ = ["Identifier", "IdentifierConfig", "Pose", "suited"]
