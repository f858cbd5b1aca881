"""The domain-adversarial network (Ganin et al., 2016): features that tell the class and do not tell the domain.

Features of both domains go to a discriminator that tells the domains apart, through a layer that turns its gradient
round: one plain minimisation trains the discriminator to tell them apart and the features to keep it from doing so.
Classes are learned from the first domain alone, or with the few examples of the other whose classes are given. Two
distances of features in closed form may take the place of the game.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Self, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data import kinds
from chainrule.data.batches import Batch, Domains
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels.alignment import coral_alignment
from chainrule.kernels.functions import RBF
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.mean_embedding import FACTORS, squared_mmd
from chainrule.models.protocol import (
    Alarm,
    CanAdapt,
    Config,
    HasAnnealedLoss,
    HasDiagnostics,
    HasFilm,
    HasLogits,
    HasParts,
    HasPictures,
    Metrics,
    Part,
    as_prediction,
    output_count,
    supervised_loss,
)
from chainrule.models.supervised.dann import pictures
from chainrule.nn import Conv, Linear, max_pool
from chainrule.nn.gradient_reversal import gradient_reversal
from chainrule.nn.losses import binary_cross_entropy, cross_entropy

Widths: TypeAlias = tuple[int, ...]
_KERNEL = 5
_STEEP = 10.0
"""How fast the strength of the alignment rises over a run."""
_GAIN = 2**0.5


@final
class DANNConfig(Config):
    """Settings of the domain-adversarial network."""

    align: Literal["adversarial", "mmd", "coral", "none"] = Field(
        "adversarial",
        description="what brings the domains together: a discriminator of domains, the maximum mean discrepancy or "
        "covariances of features; none: the first domain alone, to compare with",
    )
    aligned: int = Field(
        2,
        ge=1,
        description="with align=mmd or coral: at most so many hidden layers are aligned, counted from the last",
    )
    strength: float = Field(1.0, ge=0, le=1e6, description="weight of the alignment at the end of the run")
    ramp: bool = Field(
        True,
        description="raise the weight from 0 as 2 / (1 + exp(-10 p)) - 1 after a share p of the steps; else constant",
    )
    conditional: bool = Field(
        False,
        description="show the discriminator products of features and class probabilities, not features alone",
    )
    updates: Literal["reversal", "alternating"] = Field(
        "reversal",
        description="one minimisation through reversed gradients, or discriminator and network in turn",
    )
    channels: Widths = Field(
        (), description="images: channels of the 5×5 convolutions, each halving the image"
    )
    layers: Widths = Field((32, 32), description="units of the dense layers that end in the features")
    classifier: Widths = Field((), description="hidden units between features and classes")
    discriminator: Widths = Field((32,), description="hidden units between features and domain")


@final
class AdaptedNetwork(eqx.Module):
    """Features, and classes from them."""

    convolutions: tuple[Conv, ...]
    dense: tuple[Linear, ...]
    classifier: tuple[Linear, ...]

    def __init__(self, config: DANNConfig, schema: Schema, key: Key) -> None:
        key_conv, key_dense, key_classifier = jax.random.split(key, 3)
        size = schema.dimensions
        self.convolutions = ()
        if config.channels:
            if not kinds.of(schema).spatial or min(schema.shape[:2]) >> len(config.channels) < 1:
                raise ArgumentError(
                    f"dann(channels={list(config.channels)}): examples of {'×'.join(map(str, schema.shape))} cannot be "
                    f"halved {len(config.channels)} times",
                    remedy="use fewer, or dense layers alone: channels=none",
                )
            sides = [schema.shape[2], *config.channels]
            keys = jax.random.split(key_conv, len(config.channels))
            self.convolutions = tuple(
                Conv(2, n, m, _KERNEL, initializer="he", gain=_GAIN, key=k)
                for n, m, k in zip(sides[:-1], sides[1:], keys, strict=True)
            )
            height, width = (side >> len(config.channels) for side in schema.shape[:2])
            size = height * width * config.channels[-1]
        self.dense = _layers([size, *config.layers], key_dense)
        last = config.layers[-1] if config.layers else size
        self.classifier = _layers([last, *config.classifier, output_count(schema)], key_classifier)

    def hidden(self, x: Array) -> list[Float[Array, "batch width"]]:
        """What is read by the first dense layer, and what every hidden one gives; features at `position`."""
        for convolution in self.convolutions:
            x = max_pool(jax.nn.relu(convolution(x)), 2)
        found = [x.reshape(len(x), -1)]
        for layer in (*self.dense, *self.classifier[:-1]):
            found.append(jax.nn.relu(layer(found[-1])))
        return found

    @property
    def position(self) -> int:
        """The position of the features among the hidden values."""
        return len(self.dense)

    def logits(self, hidden: Sequence[Array]) -> Float[Array, "batch outputs"]:
        """Logits of the classes, from the hidden values."""
        return self.classifier[-1](hidden[-1])


@final
class DANN(HasLogits, CanAdapt, HasAnnealedLoss, HasParts, HasDiagnostics, HasFilm, HasPictures):
    """`min over G, C, max over D` of `mean l_C(C(G(x))) - strength (mean_s l_D + mean_t l_D)`, as one minimisation.

    G are the features, C the classes, D the discriminator of domains, which is trained at full strength. Without
    examples of another domain it is an ordinary classifier.
    """

    network: AdaptedNetwork
    discriminator: tuple[Linear, ...]
    window: Float[Array, "2 axes"]
    """Lowest and highest corner of the plane that is drawn along the way; points only."""
    config: DANNConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: DANNConfig, schema: Schema, key: Key) -> None:
        key_network, key_discriminator = jax.random.split(key)
        self.network = AdaptedNetwork(config, schema, key_network)
        features = self.network.classifier[0].weight.shape[0]
        seen = features * output_count(schema) if config.conditional else features
        self.discriminator = _layers([seen, *config.discriminator, 1], key_discriminator)
        self.window = jnp.zeros((2, 2))
        self.config = config
        self.schema = schema

    def loss_unit(self) -> str:
        """Cross-entropies of classes, in nats."""
        return "nats"

    def loss_resolution(self) -> float:
        """Every difference may be chance: examples of the first domain do not tell which step suits the other best."""
        return float("inf") if self.config.align != "none" else 0.0

    # ------------------------------------------------------------------ training

    def loss_at(self, batch: Batch, key: Key, progress: Scalar | float) -> tuple[Scalar, Metrics]:
        """Cross-entropy of the classes and, beside examples of another domain, what tells the domains apart."""
        del key
        if batch.domains is None:
            out = self.network.logits(self.network.hidden(batch.x))
            return supervised_loss(self.schema, out, batch.y, weights=batch.weights)
        label, apart, metrics = self._terms(batch, batch.domains, self.strength(progress))
        return label + apart, metrics

    def strength(self, progress: Scalar | float) -> Scalar:
        """The weight of the alignment when this share of the run's steps is done.

        `2 / (1 + exp(-10 p)) - 1` is `tanh(5 p)`.
        """
        rise = jnp.tanh(_STEEP / 2 * jnp.asarray(progress)) if self.config.ramp else jnp.ones(())
        return self.config.strength * rise

    def _terms(self, batch: Batch, domains: Domains, strength: Scalar) -> tuple[Scalar, Scalar, Metrics]:
        """The loss of the classes, the term that is added to it, and numbers worth watching."""
        count = len(batch.x)
        hidden = self.network.hidden(jnp.concatenate([batch.x, domains.x]))
        out = self.network.logits(hidden)
        label = _label_loss(out, batch, domains)
        metrics = {"accuracy": (out[:count].argmax(axis=-1) == domains.y).mean(), "label_loss": label}
        if self.config.align == "none":
            return label, jnp.zeros(()), metrics
        if self.config.align in ("mmd", "coral"):
            distance = mmd if self.config.align == "mmd" else coral_alignment
            aligned = hidden[1:][-self.config.aligned :] or hidden[-1:]  # the first is what enters them
            apart = sum((distance(h[:count], h[count:]) for h in aligned), start=jnp.zeros(()))
            return label, strength * apart, {**metrics, "distance": apart, "strength": strength}
        shown = self._shown(hidden[self.network.position], out)
        apart, seen = self._domain_loss(gradient_reversal(shown, strength), count)
        return label, apart, {**metrics, **seen, "strength": strength}

    def _shown(
        self, features: Float[Array, "batch width"], out: Float[Array, "batch outputs"]
    ) -> Float[Array, "batch inputs"]:
        """What the discriminator sees; class probabilities are given to it, never changed by it."""
        if not self.config.conditional:
            return features
        probability = jax.lax.stop_gradient(jax.nn.softmax(out))
        return (features[:, :, None] * probability[:, None, :]).reshape(len(features), -1)

    def _domain_loss(self, shown: Float[Array, "batch inputs"], count: int) -> tuple[Scalar, Metrics]:
        """Cross-entropies of the domain, means over the first `count` examples and over the rest, and who is right."""
        for layer in self.discriminator[:-1]:
            shown = jax.nn.relu(layer(shown))
        logits = self.discriminator[-1](shown)[:, 0]
        other = (jnp.arange(len(logits)) >= count).astype(logits.dtype)
        each = binary_cross_entropy(logits, other)
        loss = each[:count].mean() + each[count:].mean()
        return loss, {"domain_loss": loss, "domain_accuracy": ((logits > 0) == (other > 0)).mean()}

    def parts(self) -> Sequence[Part["DANN"]]:
        """One that minimises through reversed gradients, or the discriminator and then the network."""

        def held(model: "DANN") -> Sequence[Tree]:
            return (model.window,)

        def whole(
            model: "DANN", batch: Batch, key: Key, progress: Scalar | float = 1.0
        ) -> tuple[Scalar, Metrics, "DANN"]:
            return *model.loss_at(batch, key, progress), model

        def telling(model: "DANN", batch: Batch, key: Key) -> tuple[Scalar, Metrics, "DANN"]:
            del key
            still = jax.lax.stop_gradient(model.network)
            return *model._played(still, batch)[1:], model

        def hiding(
            model: "DANN", batch: Batch, key: Key, progress: Scalar | float = 1.0
        ) -> tuple[Scalar, Metrics, "DANN"]:
            del key
            strength = model.strength(progress)
            label, apart, seen = model._played(model.network, batch)
            return label - strength * apart, {**seen, "label_loss": label, "strength": strength}, model

        if self.config.updates == "reversal" or self.config.align != "adversarial":
            return [Part("model", lambda model: model, whole, state=held, loss_at=whole)]
        return [
            Part("discriminator", lambda model: model.discriminator, telling, counted=False),
            Part("network", lambda model: model.network, hiding, state=held, loss_at=hiding),
        ]

    def _played(self, network: AdaptedNetwork, batch: Batch) -> tuple[Scalar, Scalar, Metrics]:
        """Losses of classes and of domains with another network in the position of its own, nothing reversed."""
        if batch.domains is None:
            raise ArgumentError(
                "dann(updates='alternating'): there is no other domain to play against",
                remedy="give one: target=DATA, or fit(..., target=data)",
            )
        hidden = network.hidden(jnp.concatenate([batch.x, batch.domains.x]))
        out = network.logits(hidden)
        shown = self._shown(hidden[network.position], out)
        return _label_loss(out, batch, batch.domains), *self._domain_loss(shown, len(batch.x))

    # ------------------------------------------------------------------ at work

    def features(self, x: Array) -> Float[Array, "batch width"]:
        """What is made alike in both domains."""
        return self.network.hidden(x)[self.network.position]

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """Logits of the classes, for examples of either domain."""
        return self.network.logits(self.network.hidden(x))

    def predict(self, x: Array) -> Array:
        """Class probabilities."""
        return as_prediction(self.schema, self.logits(x))

    # ------------------------------------------------------------------ what it shows

    def started(self, data: Data) -> Self:
        """The model with the part of the plane in view that both domains lie in."""
        if not kinds.of(self.schema).is_plane(self.schema):
            return self
        return eqx.tree_at(lambda model: model.window, self, jnp.asarray(pictures.window(data)))

    def snapshot(self, key: Key) -> Array:
        """Class probabilities over the plane; nothing for data of other kinds."""
        del key
        if not kinds.of(self.schema).is_plane(self.schema):
            return jnp.zeros((0,))
        points = pictures.grid(np.asarray(self.window)).reshape(-1, *self.schema.shape)
        return _over(self, jnp.asarray(points))

    def film(
        self, steps: Int[np.ndarray, " moments"], snapshots: np.ndarray, data: Data
    ) -> Sequence[Picture]:
        """The regions of the classes along the way."""
        if not snapshots.size:
            return []
        return pictures.film(steps, snapshots, np.asarray(self.window), data)

    def alarms(self, history: Mapping[str, np.ndarray]) -> Sequence[Alarm]:
        """The discriminator still tells the domains apart."""
        return pictures.alarms(history)

    def curves(self, history: Mapping[str, np.ndarray]) -> Sequence[Picture]:
        """Accuracy of the discriminator with the line of chance, weight of the alignment, loss of the classes."""
        return pictures.curves(history)

    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Features of both domains in the plane, and answers in the one and the other domain side by side."""
        del key
        return pictures.beside(self, data)


def mmd(x: Float[Array, "batch width"], y: Float[Array, "others width"]) -> Scalar:
    """The squared maximum mean discrepancy under a mean of RBF kernels of several widths.

    They are multiples of the root mean squared distance, which needs no pair of rows: a median would have to sort all
    distances in every step.
    """
    both = jax.lax.stop_gradient(jnp.concatenate([x, y]))
    scale = jnp.sqrt(2 * both.var(axis=0).sum() + 1e-12)
    kernel: Kernel = RBF(FACTORS[0] * scale)
    for factor in FACTORS[1:]:
        kernel = kernel + RBF(factor * scale)
    return squared_mmd(x, y, kernel) / len(FACTORS)


@eqx.filter_jit
def _over(model: DANN, points: Array) -> Array:
    return model.predict(points)


def _layers(widths: Sequence[int], key: Key) -> tuple[Linear, ...]:
    keys = jax.random.split(key, max(len(widths) - 1, 1))
    return tuple(
        Linear(n, m, initializer="he", gain=_GAIN, key=k)
        for n, m, k in zip(widths[:-1], widths[1:], keys, strict=False)
    )


def _label_loss(out: Float[Array, "both outputs"], batch: Batch, domains: Domains) -> Scalar:
    """Mean cross-entropy over all examples whose class is given, of both domains."""
    count = len(batch.x)
    own = cross_entropy(out[:count], domains.y)
    if batch.weights is not None:
        own = batch.weights.astype(own.dtype) * own
    given = domains.known >= 0
    other = cross_entropy(out[count:], jnp.where(given, domains.known, 0))
    return (own.sum() + jnp.where(given, other, 0).sum()) / (count + given.sum())


__all__ = ["DANN", "DANNConfig", "mmd"]
