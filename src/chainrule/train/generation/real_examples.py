"""Real examples that samples are held against: those of training, and held-out ones that say what chance does.

Distances in features are taken from the training examples, and stand beside those of held-out examples from the same
ones: a classifier has seen the training examples, and that makes both larger alike. Splits hold the same share of every
class, which no sampler could: what stands for a perfect one has classes by chance.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Int

from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.generated.toys import Modes, modes_of
from chainrule.data.schema import Schema
from chainrule.data.splits import Split, Subset
from chainrule.probability.samples import DistanceEstimate, alikeness, frechet_distance, kernel_distance
from chainrule.train.generation.features import Examples, SampleFeatures, digest, sample_features
from chainrule.train.generation.reference_classifier import ReferenceClassifier, trained

MOST = 5000
"""Real examples of each kind that are looked at."""
_KEPT = 4
"""Judges that are kept for data that are looked at again."""
_JUDGES: dict[str, ReferenceClassifier] = {}


@final
@dataclass(frozen=True)
class RealExamples:
    """Training and held-out examples in model units, as rows, with their classes if they have any."""

    schema: Schema
    train: Examples
    held_out: Examples
    train_y: Int[np.ndarray, " examples"] | None
    held_out_y: Int[np.ndarray, " others"] | None
    more: Examples
    """Further examples that training has not seen: those of the other split, if any."""
    more_y: Int[np.ndarray, " further"] | None
    modes: Modes | None = None
    """Of data whose distribution is known, in the units of the data, which are not scaled."""
    said: Sequence[str] = ()
    """Which examples are held out, where that is not the test split."""

    @property
    def classes(self) -> int:
        """How many there are."""
        return len(self.schema.classes)

    @functools.cached_property
    def judge(self) -> ReferenceClassifier:
        """The judge of classes, who has seen the training examples."""
        assert self.train_y is not None
        name = digest("judge", self.train, self.train_y)
        if name not in _JUDGES:
            while len(_JUDGES) >= _KEPT:
                del _JUDGES[next(iter(_JUDGES))]
            _JUDGES[name] = trained(self.train, self.train_y, self.classes, shape=self.schema.shape)
        return _JUDGES[name]

    @functools.cached_property
    def features(self) -> SampleFeatures:
        """Where distributions are compared."""
        return sample_features(self.train, self.schema, None if self.train_y is None else lambda: self.judge)

    @functools.cached_property
    def train_features(self) -> Float[np.ndarray, "examples features"]:
        """Those of the training examples."""
        return self.features(self.train)

    @functools.cached_property
    def _alikeness(self) -> float:
        return alikeness(self.train_features, self.train_y)

    def kernel_distance(self, x: Examples) -> DistanceEstimate:
        """How far the distribution of some examples is from that of the training examples."""
        return self.kernel_distance_of_features(self.features(x))

    def kernel_distance_of_features(self, seen: Float[np.ndarray, "some features"]) -> DistanceEstimate:
        """The same for a caller that has their features already."""
        return kernel_distance(seen, self.train_features, self._alikeness)

    def kernel_distance_of_held_out(self) -> DistanceEstimate:
        """The same of the held-out examples."""
        return kernel_distance(
            self.features(self.held_out), self.train_features, self._alikeness, strata=self._strata()
        )

    def frechet_distance(self, x: Examples) -> float:
        """The same, by means and covariances alone."""
        return self.frechet_distance_of_features(self.features(x))

    def frechet_distance_of_features(self, seen: Float[np.ndarray, "some features"]) -> float:
        """The same for a caller that has their features already."""
        return frechet_distance(seen, self.train_features)

    def _strata(self) -> Int[np.ndarray, " others"] | None:
        """The classes of the held-out examples, if they have as many of each, up to one, as training examples have."""
        if self.train_y is None or self.held_out_y is None:
            return None
        train, held_out = (np.bincount(y, minlength=self.classes) for y in (self.train_y, self.held_out_y))
        even = np.abs(held_out - train * held_out.sum() / train.sum()) <= 1
        return self.held_out_y if even.all() else None

    def independent(self, count: int, seed: int) -> Examples:
        """Examples that training has not seen, as if drawn one by one: with classes by chance, not in even shares."""
        rng = np.random.default_rng(seed)
        pool = np.concatenate([self.held_out, self.more])
        order = rng.permutation(len(pool))
        if self.held_out_y is None or self.more_y is None:
            return pool[order[:count]]
        drawn = self.drawn_classes(count, seed)
        assert drawn is not None, "what is held out has classes where training has"
        wanted = np.bincount(drawn, minlength=self.classes)
        labels = np.concatenate([self.held_out_y, self.more_y])[order]
        ranks = np.empty(len(order), np.int64)
        for c in range(self.classes):
            own = labels == c
            ranks[own] = np.arange(own.sum())
        chosen = ranks < wanted[labels]
        # Where a class has too few, others come in.
        return pool[np.concatenate([order[chosen], order[~chosen]])[:count]]

    def drawn_classes(self, n: int, seed: int) -> Int[np.ndarray, " n"] | None:
        """Classes of `n` samples, independent draws by their frequency among the training examples."""
        if self.train_y is None:
            return None
        chosen = np.random.default_rng(seed).integers(0, len(self.train_y), n)
        return np.asarray(self.train_y[chosen], np.int32)


def real_examples(data: Data, part: Split | None = None) -> RealExamples:
    """The examples of data that samples are compared with; `part` is held out, the test split unless told.

    Of training examples that are to be judged by themselves, every second one stands for the held-out ones.
    """
    said: Sequence[str] = ()
    if part is None:
        part, said = data.held_out()
    train = data.train
    if _of(part, train):
        everything = np.arange(len(train))
        train, part = Subset(train, everything[::2]), Subset(train, everything[1::2])
        said = ["Every second training example stands for the held-out ones."]
    others = [split for split in (data.val, data.test) if len(split) and not _of(part, split)]
    more = others[0] if len(others) == 1 else Subset(train, np.zeros(0, np.int64))
    rows = [_rows(data.schema, split) for split in (train, part, more)]
    (x, y), (held_out, held_out_y), (further, further_y) = rows
    known = (x, held_out, y, held_out_y, further, further_y)
    return RealExamples(data.schema, *known, modes_of(data.source), said)


def _of(part: Split, whole: Split) -> bool:
    """Whether a part is a split as a whole, or some of its examples."""
    return part is whole or (isinstance(part, Subset) and part.split is whole)


def _rows(schema: Schema, split: Split) -> tuple[Examples, Int[np.ndarray, " examples"] | None]:
    # Examples stand in the order of their source, which may be that of their classes.
    some = split if len(split) <= MOST else Subset.drawn(split, MOST)
    batch = some.batch(np.arange(len(some)))
    x = np.asarray(batch.x, np.float64).reshape(len(some), schema.dimensions)
    return x, np.asarray(batch.y, np.int64) if targets.of(schema).one_class else None


__all__ = ["MOST", "RealExamples", "real_examples"]
