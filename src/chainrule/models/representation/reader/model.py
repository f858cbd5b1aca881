"""A transformer for classification and regression of texts and images.

The transformer in the middle is a body that may have been trained on something else. With it frozen, a new head on
texts is a linear probe of what it has learnt; a new way in and a new head on images is reprogramming (Lu et al., 2022):
patches of an image stand where tokens of a text stood, and only the two ends learn.
"""

from collections.abc import Sequence
from typing import Any, Literal, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp
import pydantic
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int, Key, Scalar, Tree
from chainrule.data import kinds, targets, tokenizers
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanEncode,
    Config,
    Criterion,
    HasOutputs,
    Metrics,
    Model,
    as_prediction,
    output_count,
    supervised_loss,
)
from chainrule.models.representation.reader import body as bodies
from chainrule.networks import patches
from chainrule.networks.transformer import TokenTransformer
from chainrule.nn import Linear
from chainrule.nn.attention import Padding

_BEGIN, _END = "[CLS]", "[SEP]"


@final
class ReaderConfig(Config):
    """Settings of the reader."""

    body: dict[str, Any] = Field(
        default_factory=lambda: {"name": "bert"},
        description="the transformer in the middle: body.name=bert or gpt, and its settings, e.g. body.layers=2",
    )
    pooling: Literal["mean", "last", "cls"] = Field(
        "mean",
        description="the vector of an example: mean over its positions, that of the last, or that of one of its own",
    )
    patch: int = Field(2, ge=1, description="images: side of the squares that stand for tokens")

    @pydantic.field_validator("body")
    @classmethod
    def _whole(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Every setting of the body, checked by the model it is."""
        settings = dict(body)
        name = settings.pop("name", "bert")
        if name not in bodies.KINDS:
            raise ValueError(f"body.name must be {' or '.join(bodies.KINDS)}")
        try:
            return {"name": name, **bodies.configured(name, settings).model_dump()}
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"body.{first['loc'][0]}: {first['msg']}") from None


@final
class Reader(HasOutputs, CanEncode):
    """A way in (tokens or patches), a body, a pooled vector, and a linear head."""

    body: TokenTransformer
    patches: Linear | None
    summary: Float[Array, " width"] | None
    """What stands after the last position, where that is what is read out."""
    head: Linear
    config: ReaderConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: ReaderConfig, schema: Schema, key: Key) -> None:
        for_body, for_patches, for_summary, for_head = jax.random.split(key, 4)
        settings = dict(config.body)
        own = bodies.configured(settings.pop("name"), settings)
        width = own.width
        text = kinds.of(schema).has_tokens
        self.summary = None
        if config.pooling == "cls" and not (text and _BEGIN in schema.tokens):
            self.summary = 0.02 * jax.random.normal(for_summary, (width,))
        if text:
            length = schema.shape[0] + (_BEGIN in schema.tokens)
        else:
            patches.check_patch(schema.shape, config.patch)
            length = patches.patch_count(schema.shape, config.patch)
        length += self.summary is not None and not text
        tokens = schema.tokens if text else None
        self.body = bodies.built(config.body["name"], own, tokens, length, for_body)
        entries = 0 if text else config.patch**2 * schema.shape[2]
        self.patches = None if text else Linear(entries, width, initializer="lecun", key=for_patches)
        self.head = Linear(width, output_count(schema), initializer="lecun", key=for_head)
        self.config = config
        self.schema = schema

    def outputs(self, x: Array, key: Key) -> tuple[Float[Array, "batch outputs"], Self]:
        """Logits or values, and the model as it is: nothing in it is moved by rule."""
        return self.head(self._vectors(x, key)), self

    def judge(
        self, out: Float[Array, "batch outputs"], batch: Batch, criterion: Criterion | None = None
    ) -> tuple[Scalar, Metrics]:
        """Mean cross-entropy with accuracy, or mean squared error, as the target is."""
        return supervised_loss(self.schema, out, batch.y, weights=batch.weights, criterion=criterion)

    def loss_unit(self) -> str:
        """That of the usual loss of the target."""
        return targets.of(self.schema).loss_unit

    def state(self) -> Sequence[Tree]:
        """Nothing."""
        return ()

    def logits(self, x: Array) -> Float[Array, "batch outputs"]:
        """The outputs of the head, without dropout."""
        return self.head(self.encode(x))

    def predict(self, x: Array) -> Array:
        """Class probabilities, the probability of each label, or values in model units."""
        return as_prediction(self.schema, self.logits(x))

    def encode(self, x: Array) -> Float[Array, "batch width"]:
        """The vector of each example, of what the body makes of its positions, pooled as the settings say."""
        return self._vectors(x, None)

    def _vectors(self, x: Array, key: Key | None) -> Float[Array, "batch width"]:
        vectors, valid = self._image(x) if self.patches is not None else self._text(x)
        mask = Padding(valid) if self.patches is None else None
        features = self.body.read(vectors, mask=mask, key=key)
        if self.config.pooling == "mean":
            kept = valid[:, :, None].astype(features.dtype)
            return (features * kept).sum(axis=1) / jnp.maximum(kept.sum(axis=1), 1)
        if self.config.pooling == "cls" and self.summary is None:
            return features[:, 0]
        last = jnp.maximum(valid.sum(axis=1) - 1, 0)
        return jnp.take_along_axis(features, last[:, None, None], axis=1)[:, 0]

    def _text(
        self, x: Int[Array, "batch time"]
    ) -> tuple[Float[Array, "batch positions width"], Bool[Array, "batch positions"]]:
        """The vectors of tokens and which of them count, with the marks around them that the vocabulary has."""
        end, vocab = len(self.schema.tokens), tokenizers.of(self.schema).vocab
        length = (x < end).sum(axis=1)
        if _BEGIN in vocab and _END in vocab:
            first = jnp.full((len(x), 1), vocab[_BEGIN], x.dtype)
            x, length = jnp.concatenate([first, x], axis=1), length + 2
            x = jnp.where(jnp.arange(x.shape[1])[None, :] == length[:, None] - 1, vocab[_END], x)
        at = jnp.arange(x.shape[1])[None, :]
        vectors = self.body.vectors(jnp.where(at < length[:, None], x, 0))
        if self.summary is not None:
            # Every row ends in at least one end mark, so there is always a position for it.
            own = self.summary.astype(vectors.dtype)[None, None, :]
            vectors, length = jnp.where((at == length[:, None])[:, :, None], own, vectors), length + 1
        return vectors, at < length[:, None]

    def _image(
        self, x: Float[Array, "batch rows columns channels"]
    ) -> tuple[Float[Array, "batch positions width"], Bool[Array, "batch positions"]]:
        """The vectors of patches, row by row, all of which count."""
        assert self.patches is not None
        vectors = self.patches(patches.cut(x, self.config.patch))
        if self.summary is not None:
            own = self.summary.astype(vectors.dtype)[None, None, :]
            own = jnp.broadcast_to(own, (len(x), 1, vectors.shape[2]))
            vectors = jnp.concatenate([vectors, own], axis=1)
        return vectors, jnp.ones(vectors.shape[:2], bool)


def adopts(source: Model, known_as: str) -> dict[str, Any]:
    """The settings of a reader whose body is a trained model."""
    if not isinstance(source, TokenTransformer):
        what = f"{known_as} of images" if known_as in bodies.KINDS else known_as
        raise CapabilityError(
            f"reader cannot begin with a {what}: its body is a {' or a '.join(bodies.KINDS)} of texts",
            remedy="begin with a run of one of these",
        )
    settings = source.config.model_dump()  # type: ignore[attr-defined]  # every registered model has them
    return {"body": {**settings, "name": known_as, "context": source.context}}


__all__ = ["Reader", "ReaderConfig", "adopts"]
