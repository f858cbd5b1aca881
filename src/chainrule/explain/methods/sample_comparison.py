"""Samples of a diffusion model beside real examples, as rows of numbers."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core import random
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.explain.methods.reference_classifier import ReferenceClassifier, trained
from chainrule.explain.methods.sample_distances import (
    DistanceEstimate,
    alikeness,
    components,
    frechet_distance,
    kernel_distance,
)
from chainrule.models.protocol import HasDenoiser, Model
from chainrule.train import Run

_MOST = 5000
"""Real examples looked at."""


def is_diffusion(model: Model, schema: Schema) -> bool:
    """Whether the model denoises its way to new examples."""
    del schema
    return isinstance(model, HasDenoiser)


def is_class_diffusion(model: Model, schema: Schema) -> bool:
    """The same, by class."""
    del schema
    return isinstance(model, HasDenoiser) and model.classes > 0


def is_image_diffusion(model: Model, schema: Schema) -> bool:
    """The same, of images that can be shown."""
    return isinstance(model, HasDenoiser) and kinds.of(schema).shows_pixels(schema)


@final
@dataclass(frozen=True)
class RealExamples:
    """Training and held-out examples in model units, flat, with their classes if they have any."""

    train: np.ndarray
    held_out: np.ndarray
    train_y: np.ndarray | None
    held_out_y: np.ndarray | None
    classes: int
    said: Sequence[str] = ()
    """Which examples are held out, where that is not the test split."""

    @functools.cached_property
    def judge(self) -> ReferenceClassifier:
        """The judge of classes, who has seen the training examples."""
        assert self.train_y is not None
        return trained(self.train, self.train_y, self.classes)

    @functools.cached_property
    def _axes(self) -> tuple[np.ndarray, np.ndarray]:
        return components(self.train)

    def features(self, x: np.ndarray) -> np.ndarray:
        """Where distributions are compared: what the judge sees, or principal components of data without classes."""
        if self.train_y is not None:
            return self.judge.features(x)
        mean, axes = self._axes
        return np.asarray((x - mean[None]) @ axes)

    @functools.cached_property
    def _seen(self) -> tuple[np.ndarray, float]:
        """Features of the training examples, and how alike these are."""
        found = self.features(self.train)
        return found, alikeness(found, self.train_y)

    def kernel_distance(self, x: np.ndarray) -> DistanceEstimate:
        """How far the distribution of some examples is from that of the training examples."""
        return kernel_distance(self.features(x), *self._seen)

    def kernel_distance_of_held_out(self) -> DistanceEstimate:
        """The same of the held-out examples."""
        return kernel_distance(self.features(self.held_out), *self._seen, strata=self._strata())

    def _strata(self) -> np.ndarray | None:
        """The classes of the held-out examples, if they have as many of each, up to one, as training examples have."""
        if self.train_y is None or self.held_out_y is None:
            return None
        train, held_out = (np.bincount(y, minlength=self.classes) for y in (self.train_y, self.held_out_y))
        even = np.abs(held_out - train * held_out.sum() / train.sum()) <= 1
        return self.held_out_y if even.all() else None

    def drawn_classes(self, n: int, seed: int) -> np.ndarray | None:
        """Classes of `n` samples, independent draws by their frequency among the training examples."""
        if self.train_y is None:
            return None
        chosen = np.random.default_rng(seed).integers(0, len(self.train_y), n)
        return np.asarray(self.train_y[chosen], np.int32)

    def frechet_distance(self, x: np.ndarray) -> float:
        """The same, by means and covariances alone."""
        return frechet_distance(self.features(x), self._seen[0])


def real(data: Data) -> RealExamples:
    """The examples of a data set that samples are compared with: held out from training and from its choice."""
    part, said = data.held_out()

    def flat(split: Split) -> tuple[np.ndarray, np.ndarray | None]:
        batch = split.batch(np.arange(min(_MOST, len(split))))
        x = np.asarray(batch.x, np.float64).reshape(len(batch.x), -1)
        named = targets.of(data.schema).one_class
        return x, np.asarray(batch.y, np.int64) if named else None

    train, train_y = flat(data.train)
    held_out, held_out_y = flat(part)
    return RealExamples(train, held_out, train_y, held_out_y, len(data.schema.classes), said)


def draw(
    run: Run, n: int, seed: int, labels: np.ndarray | None = None, **options: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """`n` samples in model units and the classes they were asked for: `labels`, or all in turn."""
    model = run.model
    assert isinstance(model, HasDenoiser)
    if not model.classes:
        return np.asarray(model.sample(random.key(seed, "probe"), n, **options)), None
    wanted = np.arange(n, dtype=np.int32) % model.classes if labels is None else labels
    return np.asarray(model.sample(random.key(seed, "probe"), n, condition=wanted, **options)), wanted


__all__ = ["RealExamples", "draw", "is_class_diffusion", "is_diffusion", "is_image_diffusion", "real"]
