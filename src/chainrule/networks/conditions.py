"""Encoders of conditions: a class, numbers, tokens, a text or an image, as a summary vector and tokens.

A condition is one array with a leading batch axis, whatever its kind, and every kind has a number that says nothing:
the one after the last class, the end mark of a text, and for numbers one that is not a number. Guidance, dropout of
conditions and batching therefore treat all kinds alike. An encoder turns the array into tokens that a network may
attend to, and one vector that sums them up.
"""

import abc
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.networks.patches import cut
from chainrule.networks.token_encoder import EncodedTokens, TokenEncoder
from chainrule.nn import Embedding, Linear


class EncodedCondition(NamedTuple):
    """A condition as a network sees it; examples without one have learned vectors of their own."""

    summary: Float[Array, "batch width"]
    tokens: Float[Array, "batch tokens width"]
    seen: Bool[Array, "batch tokens"]
    """False for padding; of every example at least one token is seen."""
    image: Float[Array, "batch height width channels"] | None = None
    """Of an image, its values and a channel that says whether it is there."""


class ConditionEncoder(eqx.Module):
    """Encodes one kind of condition, with arrays of its own."""

    shape: eqx.AbstractVar[tuple[int, ...]]
    """Shape of the condition of one example."""

    @property
    @abc.abstractmethod
    def none(self) -> int | float:
        """The number that a condition is filled with to say nothing."""

    @abc.abstractmethod
    def __call__(self, given: Array) -> EncodedCondition:
        """The condition of each example, encoded."""

    def null(self, count: int) -> Array:
        """The conditions of examples without one."""
        return jnp.full((count, *self.shape), self.none)

    def dropped(self, given: Array, share: float, key: Key) -> Array:
        """The conditions of a batch with a share of them, chosen at random, replaced by none."""
        gone = jax.random.bernoulli(key, share, (len(given),))
        return jnp.where(_beside(gone, given), self.null(len(given)), given)


MakeConditionEncoder: TypeAlias = Callable[[int, Key], ConditionEncoder]
"""From the width of its vectors and a key to an encoder of conditions."""


@final
class ClassEncoder(ConditionEncoder):
    """One of some classes, by its number: a learned vector for each, and one for none in particular."""

    names: Float[Array, "classes_and_none width"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, classes: int, width: int, key: Key) -> None:
        self.names = jax.random.normal(key, (classes + 1, width))
        self.shape = ()

    @property
    def none(self) -> int:
        """The number after the last class."""
        return len(self.names) - 1

    def __call__(self, given: Int[Array, " batch"]) -> EncodedCondition:
        found = self.names[given]
        return EncodedCondition(found, found[:, None], jnp.ones((len(given), 1), bool))


@final
class VectorEncoder(ConditionEncoder):
    """Some numbers, by two dense layers; a learned vector where there are none."""

    layers: tuple[Linear, Linear]
    null_embedding: Float[Array, " width"]
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, ...], width: int, key: Key) -> None:
        one, two, three = jax.random.split(key, 3)
        self.layers = (
            Linear(math.prod(shape), width, key=one, gain=math.sqrt(2)),
            Linear(width, width, key=two),
        )
        self.null_embedding = jax.random.normal(three, (width,))
        self.shape = shape

    @property
    def none(self) -> float:
        """Not a number."""
        return math.nan

    def __call__(self, given: Float[Array, "batch ..."]) -> EncodedCondition:
        rows = given.reshape(len(given), -1)
        there = jnp.isfinite(rows).all(axis=1)
        first, second = self.layers
        said = second(jax.nn.silu(first(jnp.where(there[:, None], rows, 0))))
        found = jnp.where(there[:, None], said, self.null_embedding.astype(said.dtype)[None])
        return EncodedCondition(found, found[:, None], jnp.ones((len(given), 1), bool))


@final
class TokenSequenceEncoder(ConditionEncoder):
    """Vectors that an encoder has made of something; those that are not numbers are padding.

    >>> encoder = TokenSequenceEncoder((5, 3), 8, jax.random.key(0))
    >>> given = masked(jnp.ones((2, 5, 3)), jnp.arange(5)[None] < jnp.array([[2], [0]]))
    >>> encoder(given).seen.astype(int).tolist()  # a token of its own comes first
    [[1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0]]
    """

    inward: Linear
    body: TokenEncoder
    shape: tuple[int, int] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, int], width: int, key: Key) -> None:
        one, two = jax.random.split(key)
        self.inward = Linear(shape[1], width, key=one)
        self.body = TokenEncoder(shape[0], width, two)
        self.shape = shape

    @property
    def none(self) -> float:
        """Not a number."""
        return math.nan

    def __call__(self, given: Float[Array, "batch tokens features"]) -> EncodedCondition:
        there = jnp.isfinite(given).all(axis=2)
        return _encoded(self.body(self.inward(jnp.where(there[:, :, None], given, 0)), there))


@final
class TextEncoder(ConditionEncoder):
    """Tokens of a vocabulary: a small encoder that is trained with the network. End marks are padding."""

    table: Embedding
    body: TokenEncoder
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, tokens: int, length: int, width: int, key: Key) -> None:
        one, two = jax.random.split(key)
        self.table = Embedding(tokens + 1, width, deviation=1.0, key=one)
        self.body = TokenEncoder(length, width, two)
        self.shape = (length,)

    @property
    def none(self) -> int:
        """The number after the last token."""
        return self.table.weight.shape[0] - 1

    def __call__(self, given: Int[Array, "batch length"]) -> EncodedCondition:
        return _encoded(self.body(self.table(given), given != self.none))


@final
class ImageEncoder(ConditionEncoder):
    """An image, by its patches."""

    patches: TokenSequenceEncoder
    patch: int = eqx.field(static=True)
    shape: tuple[int, int, int] = eqx.field(static=True)

    def __init__(self, shape: tuple[int, int, int], width: int, key: Key) -> None:
        height, broad, channels = shape
        self.patch = next(side for side in (4, 2, 1) if not (height % side or broad % side))
        count = height * broad // self.patch**2
        self.patches = TokenSequenceEncoder((count, self.patch**2 * channels), width, key)
        self.shape = shape

    @property
    def none(self) -> float:
        """Not a number."""
        return math.nan

    def __call__(self, given: Float[Array, "batch height width channels"]) -> EncodedCondition:
        there = jnp.isfinite(given).all(axis=(1, 2, 3), keepdims=True)
        flag = jnp.broadcast_to(there, (*given.shape[:3], 1)).astype(given.dtype)
        image = jnp.concatenate([jnp.where(there, given, 0), flag], axis=-1)
        return self.patches(cut(given, self.patch))._replace(image=image)


def _encoded(found: EncodedTokens) -> EncodedCondition:
    return EncodedCondition(found.summary, found.tokens, found.seen)


def masked(
    tokens: Float[Array, "batch tokens features"], mask: Bool[Array, "batch tokens"]
) -> Float[Array, "batch tokens features"]:
    """What an encoder returns, tokens and a mask, as one condition."""
    return jnp.where(mask[:, :, None], tokens, jnp.nan)


def _beside(flags: Bool[Array, " batch"], like: Any) -> Array:
    return flags.reshape(-1, *(1,) * (np.ndim(like) - 1))


def check_image_condition(encoder: ConditionEncoder | None, shape: tuple[int, ...]) -> None:
    """Raise unless an image that is to stand beside the input has its size."""
    if isinstance(encoder, ImageEncoder) and encoder.shape[:2] != shape[:2]:
        raise ArgumentError(
            f"inject=concatenate: pictures of shape {encoder.shape} beside pictures of shape {shape}",
            remedy="bring both to one height and width, or use inject=attention",
        )


def class_numbers(schema: Schema, condition: Any, n: int) -> Int[Array, " batch"]:
    """The class of each of `n` examples from one number or name, or one for each.

    >>> class_numbers(Schema("points", (2,), "class", classes=("a", "b")), "b", 2).tolist()
    [1, 1]
    """
    names = schema.classes
    given = np.asarray(condition)
    if given.dtype.kind == "U":
        for name in given.ravel():
            if name not in names:
                raise ArgumentError(f"unknown class {str(name)!r}{suggest(str(name), names)}")
        given = np.vectorize(names.index)(given)
    if given.dtype.kind not in "iu" or given.shape not in ((), (n,)):
        raise ArgumentError(f"condition: one class for all, or one for each of {n} examples")
    bad = given[(given < 0) | (given >= len(names))]
    if bad.size:
        raise ArgumentError(f"class {int(bad.ravel()[0])}: classes are numbered 0 to {len(names) - 1}")
    return jnp.broadcast_to(jnp.asarray(given, jnp.int32), (n,))


@cache  # one object for equal data: what is compiled with it serves them all
def condition_encoder(schema: Schema, conditional: bool = True) -> MakeConditionEncoder | None:
    """The encoder that suits the targets of some data: classes, labels and values, vectors, texts, images.

    >>> type(condition_encoder(Schema("table", (3,), "value"))(8, jax.random.key(0))).__name__
    'VectorEncoder'
    """
    if not conditional or not targets.of(schema).given:
        return None
    if targets.of(schema).one_class:
        return partial(ClassEncoder, len(schema.classes))
    if targets.of(schema).has_tokens:
        return partial(TextEncoder, len(schema.target_tokens), schema.target_shape[0])
    shape = schema.target_shape
    if len(shape) < 2:
        return partial(VectorEncoder, shape)
    if len(shape) == 2:
        return partial(TokenSequenceEncoder, (shape[0], shape[1]))
    if len(shape) > 3:
        raise ArgumentError(
            f"targets of shape {shape}: a condition is one number, a vector, a row of vectors or a picture",
            remedy="use conditional=false to leave them out",
        )
    return partial(ImageEncoder, (shape[0], shape[1], shape[2]))


__all__ = [
    "ClassEncoder",
    "ConditionEncoder",
    "EncodedCondition",
    "ImageEncoder",
    "MakeConditionEncoder",
    "TextEncoder",
    "TokenSequenceEncoder",
    "VectorEncoder",
    "check_image_condition",
    "class_numbers",
    "condition_encoder",
    "masked",
]
