"""Spoofs by the noise they leave: an image is split into what is live and what was added (Jourabloo et al., 2018)."""

import math
from collections.abc import Sequence
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.pictures import Images, Picture
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    Config,
    HasLogits,
    HasPictures,
    HasSpoofScore,
    Metrics,
    as_prediction,
    weighted_mean,
)
from chainrule.networks.conv_autoencoder import ConvResidual
from chainrule.networks.pictures import verification
from chainrule.networks.unet import group_norm
from chainrule.nn import Conv, GroupNorm, Linear, global_average_pool, upsample
from chainrule.nn.losses import cross_entropy

_MOST = 500
_SHOWN = 4
_GAIN = 4.0
"""What noise is multiplied by for the classifier, and to be seen."""


@final
class SpoofDetectorConfig(Config):
    """Settings of the spoof detector."""

    live: str = Field("live", description="name of the class of live images; all other classes are spoofs")
    width: int = Field(16, ge=1, description="channels at full resolution; twice as many at half of it")
    margin: float = Field(
        0.1, gt=0, le=1, description="mean amplitude that the noise of a spoof is to have at least, of 1"
    )
    noise_weight: float = Field(
        10.0, ge=0, description="price of noise on live images, and of a lack of it on spoofs"
    )
    recomposition_weight: float = Field(
        10.0, ge=0, description="price of what live part and noise do not add up to"
    )


class SplitImage(NamedTuple):
    """The two parts of images; together they are to be the images."""

    live: Float[Array, "batch height width channels"]
    noise: Float[Array, "batch height width channels"]


@final
class Splitter(eqx.Module):
    """Two resolutions with a skip between them, and two images for each that comes in."""

    entry: Conv
    first: ConvResidual
    down: Conv
    deep: ConvResidual
    join: Conv
    last: ConvResidual
    norm: GroupNorm
    exit: Conv

    def __init__(self, channels: int, width: int, key: Key) -> None:
        keys = jax.random.split(key, 7)
        self.entry = Conv(2, channels, width, 3, padding=1, key=keys[0])
        self.first = ConvResidual(width, keys[1])
        self.down = Conv(2, width, 2 * width, 3, stride=2, padding=1, key=keys[2])
        self.deep = ConvResidual(2 * width, keys[3])
        self.join = Conv(2, 3 * width, width, 3, padding=1, gain=math.sqrt(2), key=keys[4])
        self.last = ConvResidual(width, keys[5])
        self.norm = group_norm(width)
        self.exit = Conv(2, width, 2 * channels, 3, padding=1, gain=0.1, key=keys[6])

    def __call__(self, x: Float[Array, "batch height width channels"]) -> SplitImage:
        """Live part and noise; the live part begins as the image itself."""
        near = self.first(self.entry(2 * x - 1))
        far = upsample(self.deep(self.down(near)), 2)[:, : x.shape[1], : x.shape[2]]
        h = self.last(self.join(jnp.concatenate([near, far], axis=-1)))
        out = self.exit(self.norm(h, activation="silu"))
        change, noise = jnp.split(out, 2, axis=-1)
        return SplitImage(x + change, noise)


@final
class SpoofDetector(HasSpoofScore, HasLogits, HasPictures):
    """`x = live + noise`: noise is none on live images, some on spoofs, and tells the class."""

    splitter: Splitter
    looks: tuple[Conv, Conv]
    head: Linear
    config: SpoofDetectorConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: SpoofDetectorConfig, schema: Schema, key: Key) -> None:
        if config.live not in schema.classes:
            raise ArgumentError(
                f"spoof-detector(live={config.live!r}): there is no such class{suggest(config.live, schema.classes)}",
                remedy=f"say which of them is live: live={schema.classes[0]}\nclasses: {', '.join(schema.classes[:8])}",
            )
        keys = jax.random.split(key, 4)
        channels, width = schema.shape[2], config.width
        self.splitter = Splitter(channels, width, keys[0])
        self.looks = (
            Conv(2, channels, width, 3, stride=2, padding=1, gain=math.sqrt(2), key=keys[1]),
            Conv(2, width, 2 * width, 3, stride=2, padding=1, gain=math.sqrt(2), key=keys[2]),
        )
        self.head = Linear(2 * width, len(schema.classes), key=keys[3])
        self.config, self.schema = config, schema

    def loss_unit(self) -> str:
        """Nats of the class, with what noise costs added to them."""
        return "nats, and prices of noise"

    @property
    def live_class(self) -> int:
        """That of the name in the settings."""
        return self.schema.classes.index(self.config.live)

    def split(self, x: Float[Array, "batch height width channels"]) -> SplitImage:
        """What is live in images, and what was added to it."""
        return self.splitter(x)

    def spoof_score(self, x: Float[Array, "batch height width channels"]) -> Float[Array, " batch"]:
        """The mean amplitude of the noise."""
        return _amplitude(self.split(x).noise)

    def logits(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch classes"]:
        """The class, as the noise alone tells it."""
        return self.head(self._seen(self.split(x).noise))

    def predict(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch classes"]:
        """Class probabilities."""
        return as_prediction(self.schema, self.logits(x))

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        """Cross-entropy of the class, noise where there should be none or too little, and what does not add up."""
        del key
        assert batch.y is not None, "classes are there"
        live, noise = self.split(batch.x)
        out = self.head(self._seen(noise))
        amplitude = _amplitude(noise)
        genuine = batch.y == self.live_class
        wrong = jnp.where(genuine, amplitude, jax.nn.relu(self.config.margin - amplitude))
        apart = _amplitude(batch.x - live - noise)
        parts = {
            "cross_entropy": weighted_mean(cross_entropy(out, batch.y), batch.weights),
            "noise": weighted_mean(wrong, batch.weights),
            "recomposition": weighted_mean(apart, batch.weights),
        }
        total = (
            parts["cross_entropy"]
            + self.config.noise_weight * parts["noise"]
            + self.config.recomposition_weight * parts["recomposition"]
        )
        return total, {**parts, "accuracy": (out.argmax(axis=-1) == batch.y).mean()}

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """The split of some held-out images, scores of live images and spoofs, both errors, and a map of the noise."""
        del key
        part, _ = data.held_out()
        x, y = part.batch(np.arange(min(len(part), _MOST)))[:2]
        live, noise, seen = (np.asarray(found, np.float64) for found in _examined(self, jnp.asarray(x)))
        x, y = np.asarray(x, np.float64), np.asarray(y)
        score, names = np.abs(noise).mean(axis=(1, 2, 3)), self.schema.classes
        found: list[Picture] = [_triptychs(x, live, noise, score, y, names)]
        genuine = y == self.live_class
        by_class = {name: score[y == k] for k, name in enumerate(names) if (y == k).any()}
        found.append(verification.histograms(by_class, "mean amplitude of the noise"))
        if genuine.any() and not genuine.all():
            found.append(
                verification.error_curve(
                    score[~genuine], score[genuine], "spoofs found", "live images taken for spoofs"
                )
            )
        return [*found, verification.embedding_map(seen, [names[k] for k in y.tolist()])]

    def _seen(self, noise: Float[Array, "batch height width channels"]) -> Float[Array, "batch features"]:
        h = _GAIN * noise
        for look in self.looks:
            h = jax.nn.silu(look(h))
        return global_average_pool(h)


def _amplitude(noise: Float[Array, "batch height width channels"]) -> Float[Array, " batch"]:
    return jnp.abs(noise.astype(jnp.promote_types(noise.dtype, jnp.float32))).mean(axis=(1, 2, 3))


@eqx.filter_jit
def _examined(model: SpoofDetector, x: Array) -> tuple[Array, Array, Array]:
    live, noise = model.split(x)
    return live, noise, model._seen(noise)


def _triptychs(
    x: np.ndarray, live: np.ndarray, noise: np.ndarray, score: np.ndarray, y: np.ndarray, names: Sequence[str]
) -> Images:
    """Images, their live part and their noise below each other, some of each class."""
    chosen = np.concatenate(
        [np.flatnonzero(y == k)[: max(1, 2 * _SHOWN // len(names))] for k in range(len(names))]
    )
    rows = np.concatenate([x[chosen], live[chosen], 0.5 + _GAIN / 2 * noise[chosen]])
    labels = [
        *(names[k] for k in y[chosen].tolist()),
        *("live part" for _ in chosen),
        *(f"noise {value:.3f}" for value in score[chosen]),
    ]
    caption = (
        f"Rows: held-out images; what is live in them; the noise, times {_GAIN / 2:g} around grey, with its mean "
        "amplitude."
    )
    return Images("split", "What was added", np.clip(rows, 0, 1), labels, len(chosen), caption, aligned=True)


__all__ = ["SplitImage", "Splitter", "SpoofDetector", "SpoofDetectorConfig"]
