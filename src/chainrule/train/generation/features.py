"""Features in which samples are compared with real examples, and the hash that says which ones they are.

Vectors are compared as they are. Images are compared by what a small classifier of the training examples sees just
before it answers, or, without classes, by what a network of random convolutions sees, always the same one: random
features of images tell distributions apart, too (Naeem et al., 2020). Distances in different features have nothing to
do with each other, hence the hash. None of them is Inception's, and no distance here is the one called FID.
"""

import abc
import hashlib
from collections.abc import Callable
from typing import ClassVar, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped

from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.nn import Conv
from chainrule.train.generation.reference_classifier import ReferenceClassifier

_BATCH = 256
_WIDTHS = (32, 64, 64)
"""Channels of the random convolutions; the first keeps the size of the image, each other one halves it."""
_QUIET = 0.1
"""Features vary by this share of what is usual in their layer, or are taken to."""

Examples: TypeAlias = Float[np.ndarray, "_some entries"]
"""Rows of numbers in model units."""


class SampleFeatures(abc.ABC):
    """From examples as rows to the features they are compared in."""

    words: ClassVar[str]
    """What the features are, as the end of "features: ..."."""
    hash: str
    """Of everything the features depend on: equal for equal features."""
    size: int

    @abc.abstractmethod
    def __call__(self, x: Examples) -> Float[np.ndarray, "some features"]:
        """The features of examples."""


@final
class DataThemselves(SampleFeatures):
    """Examples as they are, in model units."""

    words: ClassVar[str] = "the data themselves"

    def __init__(self, train: Examples) -> None:
        self.size = train.shape[1]
        # Nothing is learnt from them, but scores on other data are not to be taken for scores on these.
        self.hash = digest(self.words, train.mean(axis=0), train.std(axis=0))

    def __call__(self, x: Examples) -> Float[np.ndarray, "some features"]:
        """The examples."""
        return np.asarray(x, np.float64)


@final
class ClassifierFeatures(SampleFeatures):
    """What a classifier of the training examples sees before it answers."""

    words: ClassVar[str] = "what a classifier of the training examples sees"

    def __init__(self, judge: ReferenceClassifier) -> None:
        self.judge, self.size = judge, judge.seen.shape[1]
        self.hash = digest(self.words, *jax.tree.leaves(eqx.filter(judge, eqx.is_array)))

    def __call__(self, x: Examples) -> Float[np.ndarray, "some features"]:
        """Each with mean zero and unit variance over the training examples."""
        return self.judge.features(x)


@final
class RandomConvolutions(SampleFeatures):
    """Means over the image of what rectified random convolutions see, scaled by the training examples."""

    words: ClassVar[str] = "what random convolutions see"

    def __init__(self, train: Examples, shape: tuple[int, ...]) -> None:
        self._shape, self.size = shape, sum(_WIDTHS)
        rng = np.random.default_rng(0)
        inputs, layers = shape[-1], []
        for number, width in enumerate(_WIDTHS):
            layer = Conv(2, inputs, width, 3, stride=min(number + 1, 2), key=jax.random.key(0))
            weight = rng.normal(0, np.sqrt(2 / (9 * inputs)), layer.weight.shape).astype(np.float32)
            layers.append(eqx.tree_at(lambda one: one.weight, layer, jnp.asarray(weight)))
            inputs = width
        self._layers = tuple(layers)
        seen = self._seen(train)
        self._mean, self._scale = seen.mean(axis=0), _scales(seen)
        weights = [layer.weight for layer in layers]
        scaled = f"{self.words}, varying by {_QUIET:g} of their layer at least"
        self.hash = digest(scaled, *weights, train.mean(axis=0), train.std(axis=0))

    def __call__(self, x: Examples) -> Float[np.ndarray, "some features"]:
        """Each with mean zero and unit variance over the training examples."""
        return (self._seen(x) - self._mean[None]) / self._scale[None]

    def _seen(self, x: Examples) -> np.ndarray:
        images = np.asarray(x, np.float32).reshape(-1, *self._shape)
        found = []
        for first in range(0, len(images), _BATCH):
            some = images[first : first + _BATCH]
            filled = np.concatenate([some, np.zeros((_BATCH - len(some), *self._shape), np.float32)])
            found.append(np.asarray(_pooled(self._layers, jnp.asarray(filled)), np.float64)[: len(some)])
        return np.concatenate(found)


def _scales(seen: Float[np.ndarray, "examples features"]) -> Float[np.ndarray, " features"]:
    """The deviation of each feature, and no less than a share of what is usual in its layer.

    A feature that hardly any training image excites would otherwise stand for whatever does excite it, a thousandfold.
    """
    layers = np.split(seen.std(axis=0), np.cumsum(_WIDTHS)[:-1])
    least = [np.maximum(_QUIET * np.sqrt(np.square(own).mean()), 1e-6) for own in layers]
    return np.concatenate([np.maximum(own, floor) for own, floor in zip(layers, least, strict=True)])


@eqx.filter_jit
def _pooled(
    layers: tuple[Conv, ...], x: Float[Array, "batch height width channels"]
) -> Float[Array, "batch all"]:
    found = []
    for layer in layers:
        x = jax.nn.relu(layer(x))
        found.append(x.mean(axis=(1, 2)))
    return jnp.concatenate(found, axis=1)


def sample_features(
    train: Examples, schema: Schema, judge: Callable[[], ReferenceClassifier] | None
) -> SampleFeatures:
    """The features that suit examples of a schema; `judge` trains a classifier of their classes, if they have any."""
    if not kinds.of(schema).spatial:
        return DataThemselves(train)
    return RandomConvolutions(train, schema.shape) if judge is None else ClassifierFeatures(judge())


def digest(words: str, *arrays: Shaped[Array | np.ndarray, "..."]) -> str:
    """The first twelve letters of a hash of words and numbers.

    >>> digest("a", np.zeros(2)) == digest("a", np.zeros(2)), digest("a", np.zeros(2)) == digest("a", np.ones(2))
    (True, False)
    """
    found = hashlib.sha256(words.encode())
    for array in arrays:
        little = np.ascontiguousarray(array, np.asarray(array).dtype.newbyteorder("<"))
        found.update(f"{little.dtype.str} {little.shape}".encode() + little.tobytes())
    return found.hexdigest()[:12]


__all__ = [
    "ClassifierFeatures",
    "DataThemselves",
    "Examples",
    "RandomConvolutions",
    "SampleFeatures",
    "digest",
    "sample_features",
]
