"""Every number that says how much samples are like real examples, each beside what real examples get.

A finite set is never at distance zero from its own distribution, and what is left depends on how many rows there are.
So each number of samples has one of held-out examples beside it, `..._of_real`, of as many rows and against the same
ones: only the two together say something. A model that draws better than real examples has copied them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import numpy as np
from scipy import stats

from chainrule.probability.samples import (
    Fidelity,
    classifier_score,
    fidelity,
    kernel_distance_over_subsets,
    mode_coverage,
    nearest,
    spread,
    two_sample_accuracy,
)
from chainrule.probability.samples.modes import WITHIN
from chainrule.train.generation.features import Examples
from chainrule.train.generation.real_examples import RealExamples
from chainrule.train.generation.transport import HeldOutRows
from chainrule.train.scoring import Metric

OF_REAL = "_of_real"
"""How the name of a number ends that is that of real examples."""
NEIGHBOURS = 5
FEWEST = 20
"""Samples that can be asked for at least."""
COPY = 1e-3
"""A sample is a copy this close to a training example, beside the median distance of held-out ones."""
_SETS = 4
"""Sets of samples at most, and of held-out examples that stand for those of a perfect sampler."""
_SEEN_CLASS = 0.1
"""A class is found where so much of its share among training examples is drawn."""


class Beside(NamedTuple):
    """A number of samples and the same of real examples."""

    samples: Metric
    real: Metric


def measure(known: RealExamples, samples: Examples) -> dict[str, Metric]:
    """The numbers by name; without samples that are finite, only how many are."""
    finite = np.isfinite(samples).all(axis=1)
    if not finite.all():
        return {"finite_samples": Metric(float(finite.mean()), "of the samples")}
    judged = _Judged(known, samples)
    found = {
        "samples": Metric(len(samples)),
        "compared_at_once": Metric(judged.count, "samples, with as many real examples"),
        "real_examples": Metric(min(len(known.held_out), len(known.train)), "to compare with at most"),
        "sample_features": Metric(known.features.size, known.features.words, basis=known.features.hash),
    }
    for part in (judged.distances, judged.transport, judged.neighbours, judged.copies, judged.modes):
        found |= part()
    return found | (judged.labels() if known.train_y is not None else {})


def beside_real(found: Mapping[str, Metric]) -> tuple[dict[str, Metric], dict[str, Beside]]:
    """Numbers that stand alone, and those of samples that have one of real examples beside them.

    >>> alone, beside = beside_real({"loss": Metric(1.0), "copies": Metric(0.0), "copies_of_real": Metric(0.1)})
    >>> list(alone), beside["copies"].real.value
    (['loss'], 0.1)
    """
    both = {name for name in found if f"{name}{OF_REAL}" in found}
    alone = {
        name: metric
        for name, metric in found.items()
        if name not in both and name.removesuffix(OF_REAL) not in both
    }
    return alone, {name: Beside(found[name], found[f"{name}{OF_REAL}"]) for name in found if name in both}


@final
class _Judged:
    """Samples with the real examples they are compared with, and the features of both."""

    def __init__(self, known: RealExamples, samples: Examples) -> None:
        self.known, self.samples = known, samples
        self.count = min(len(samples), len(known.held_out), len(known.train))
        self.seen = known.features(samples)
        order = np.random.default_rng(0).permutation(len(known.held_out))[: self.count]
        whole = self.count == len(known.held_out)
        self.held_out = known.held_out if whole else known.held_out[np.sort(order)]
        starts = range(0, len(samples) - self.count + 1, self.count)
        self.sets = [self.seen[start : start + self.count] for start in starts][:_SETS]
        self.held_out_seen = known.features(self.held_out)
        self.like_real = [known.features(known.independent(self.count, seed)) for seed in range(_SETS)]
        self.common = self.count / (len(known.held_out) + len(known.more))
        self.some_train = np.random.default_rng(1).permutation(len(known.train))[: self.count]
        self.basis = self._basis(len(samples), self.count)

    def _basis(self, samples: int, held_out: int) -> str:
        known = self.known
        return (
            f"{samples:,} samples, {held_out:,} held-out and {len(known.train):,} training examples, "
            f"features {known.features.hash}"
        )

    def pair(
        self,
        name: str,
        values: Sequence[float],
        unit: str = "",
        *,
        errors: tuple[float | None, float | None] = (None, None),
        kinds: tuple[str, str] = ("", ""),
    ) -> dict[str, Metric]:
        """A number of samples and the same of real examples."""
        return {
            name: Metric(values[0], unit, errors[0], kinds[0], self.basis),
            f"{name}{OF_REAL}": Metric(values[1], unit, errors[1], kinds[1], self.basis),
        }

    def over_sets(
        self,
        name: str,
        ours: Sequence[float],
        real: Sequence[float],
        unit: str = "",
        *,
        common: float = 0.0,
    ) -> dict[str, Metric]:
        """The same of several sets, by their means; two of the real ones have a share `common` of their examples."""
        values = [float(np.mean(found)) for found in (ours, real)]
        return self.pair(name, values, unit, errors=(error_of_sets(ours), error_of_sets(real, common)))

    def distances(self) -> dict[str, Metric]:
        """From the training examples: by means and covariances, and by a kernel."""
        known = self.known
        frechet = known.frechet_distance_of_features
        found = self.over_sets(
            "feature_frechet_distance",
            list(map(frechet, self.sets)),
            list(map(frechet, self.like_real)),
            common=self.common,
        )
        kernel, floor = known.kernel_distance_of_features(self.seen), known.kernel_distance_of_held_out()
        found |= self.pair("kernel_distance", (kernel.value, floor.value), errors=(kernel.error, floor.error))
        if self.count >= 4:
            over = [
                kernel_distance_over_subsets(x, known.train_features)
                for x in (self.sets[0], self.like_real[0])
            ]
            unit = f"over 100 subsets of {over[0].size:,}"
            found |= self.pair("kernel_distance_spread", [one.deviation for one in over], unit)
        return found

    def transport(self) -> dict[str, Metric]:
        """From held-out examples, by optimal transport; of real: training examples, in several sets."""
        rows = HeldOutRows(self.known.train_features, self.held_out_seen, self.count)
        return {
            **self.over_sets(
                "sinkhorn_divergence",
                [rows.sinkhorn(x) for x in self.sets],
                rows.of_real(rows.sinkhorn),
                "squared distance",
            ),
            **self.over_sets(
                "sliced_distance", [rows.sliced(x) for x in self.sets], rows.of_real(rows.sliced), "distance"
            ),
        }

    def neighbours(self) -> dict[str, Metric]:
        """How far samples and training examples lie within each other, and whether neighbours tell them apart."""
        if self.count <= NEIGHBOURS:
            return {}
        rows = self.known.train_features[self.some_train]
        ours, real = ([fidelity(rows, x, NEIGHBOURS) for x in sets] for sets in (self.sets, self.like_real))
        found: dict[str, Metric] = {}
        for name in Fidelity._fields:
            shares = [[getattr(one, name) for one in sets] for sets in (ours, real)]
            found |= self.over_sets(f"sample_{name}", shares[0], shares[1], common=self.common)
        tests = [two_sample_accuracy(x, self.held_out_seen) for x in (self.sets[0], rows)]
        errors = [_share_error(t.accuracy, t.asked) for t in tests]
        kinds = [f"0.5 is ideal; 95 %: {t.low:.2f} to {t.high:.2f}" for t in tests]
        return found | self.pair(
            "two_sample_accuracy",
            [t.accuracy for t in tests],
            errors=(errors[0], errors[1]),
            kinds=(kinds[0], kinds[1]),
        )

    def copies(self) -> dict[str, Metric]:
        """How near samples are to training examples, and how far from each other."""
        train = self.known.train
        ours, real = (nearest(x, train)[0][:, 0] for x in (self.samples, self.known.held_out))
        usual = float(np.median(real))
        shares = [float((apart <= COPY * usual).mean()) for apart in (ours, real)]
        found = self.pair(
            "training_copies",
            shares,
            "of the samples",
            errors=(_share_error(shares[0], len(ours)), _share_error(shares[1], len(real))),
        )
        found |= self.pair("nearest_training_distance", (float(np.median(ours)), usual), "median")
        return found | self.pair(
            "variety", (spread(self.samples[: self.count]), spread(self.held_out)), "mean distance of two"
        )

    def modes(self) -> dict[str, Metric]:
        """What samples make of the modes of data that are known to have some."""
        modes = self.known.modes
        if modes is None:
            return {}
        ours = mode_coverage(self.samples, modes.centres, modes.deviation)
        rows = self.known.train[: len(self.samples)]
        real = mode_coverage(rows, modes.centres, modes.deviation)
        plural = "" if ours.threshold == 1 else "s"
        least = f"with {ours.threshold} sample{plural} or more within {WITHIN:g} standard deviations"
        unit = f"of {ours.modes}, {least}"
        return {
            **self.pair("modes_found", (ours.covered, real.covered), unit),
            **self.pair("high_quality_share", (ours.high_quality, real.high_quality), "of the samples"),
            **self.pair("mode_divergence", (ours.divergence, real.divergence), "nats from even shares"),
            **self.pair("mode_deviation", (ours.deviation, real.deviation), "of the modes' own"),
        }

    def labels(self) -> dict[str, Metric]:
        """What the judge of classes says of samples."""
        known = self.known
        assert known.train_y is not None
        assert known.held_out_y is not None, "what is held out has classes where training has"
        ours, real = (known.judge.probabilities(x) for x in (self.samples, known.held_out))
        said, true = ours.argmax(axis=1), known.train_y
        shares, known_shares = (np.bincount(y, minlength=known.classes) / len(y) for y in (said, true))
        unit = f"of {known.classes} at most"
        right = known.judge.accuracy(known.held_out, known.held_out_y)
        found = {"classifier_accuracy": Metric(right, "of held-out examples", basis=self.basis)}
        found |= self.pair(
            "classifier_score",
            (classifier_score(ours), classifier_score(real)),
            unit,
        )
        of_real = np.bincount(real.argmax(axis=1), minlength=known.classes) / len(real)
        there = known_shares > 0
        classes = [int((s >= _SEEN_CLASS * known_shares)[there].sum()) for s in (shares, of_real)]
        found |= self.pair("classes_found", classes, f"of {int(there.sum())}")
        found |= self.pair(
            "label_divergence",
            [_divergence(s, known_shares) for s in (shares, of_real)],
            "nats from the training examples",
        )
        within = [spread(self.samples, said), spread(known.held_out, real.argmax(axis=1))]
        if all(map(math.isfinite, within)):
            found |= self.pair("variety_within_class", within, "mean distance of two")
        for name, share, real_share in zip(known.schema.classes, shares, of_real, strict=True):
            found[f"label_share.{name}"] = Metric(float(share), basis=self.basis)
            found[f"label_share{OF_REAL}.{name}"] = Metric(float(real_share), basis=self.basis)
        return found


def error_of_sets(values: Sequence[float], common: float = 0.0) -> float | None:
    """The standard error of the mean of a number over sets that have a share of their examples in common.

    Sets that overlap vary less among each other than the number does, and their mean more. For means over examples, and
    so for whatever nearly is one, the correlation of two sets is the share. None where sets say nothing of it.

    >>> error_of_sets([1.0, 3.0]), error_of_sets([1.0, 3.0], common=1.0)
    (1.0, None)
    """
    count = len(values)
    if count < 2 or common >= 1:
        return None
    own = float(np.var(values, ddof=1)) / (1 - common)
    return math.sqrt(own * (1 + (count - 1) * common) / count)


def _share_error(share: float, count: int) -> float:
    """The standard error of a share of so many."""
    return math.sqrt(share * (1 - share) / count)


def _divergence(p: np.ndarray, q: np.ndarray) -> float:
    """From shares to others; what those never have counts as drawn once among ten thousand."""
    return float(stats.entropy(p, np.maximum(q, 1e-4)))


__all__ = ["COPY", "FEWEST", "NEIGHBOURS", "OF_REAL", "Beside", "beside_real", "error_of_sets", "measure"]
