"""Thresholds of labels: from which probability on each is said to be there, chosen on validation examples.

One half is right for probabilities that are true and mistakes that cost alike. A label that is rare, or of which a
network is never sure, is then never said. So each label has a threshold of its own: the one of the highest F1 among the
validation examples (Lipton, Elkan and Naryanaswamy, Optimal thresholding of classifiers to maximize F1 measure, 2014).
"""

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Float

from chainrule.core import random
from chainrule.core.checks import check_same_shape
from chainrule.core.errors import ChainruleError, DiskError
from chainrule.core.formatting import number
from chainrule.core.quoting import plain
from chainrule.data.targets.labels import THRESHOLD
from chainrule.train.files import read_own, write_json
from chainrule.train.scoring import Evaluation, predictions

if TYPE_CHECKING:
    from chainrule.train.run import Run

FILE = "thresholds.json"
_NAMED = 8
"""Labels whose thresholds are said in a note."""


@final
@dataclass(frozen=True)
class Thresholds:
    """The probability from which on each label is said to be there."""

    values: Float[np.ndarray, " labels"]
    examples: int
    """Validation examples they were chosen on; 0 where there are none, and one half stands for every label."""
    why: str = ""
    """Why there are none."""

    def note(self, names: tuple[str, ...]) -> str:
        """What they are, in words."""
        if not self.examples:
            return f"labels are said from a probability of {THRESHOLD:g} on: {self.why}"
        both = zip(names, self.values.tolist(), strict=True)
        each = [f"{plain(name, 20)} {number(value, 2)}" for name, value in both]
        more = f" and {len(each) - _NAMED} more" if len(each) > _NAMED else ""
        return (
            f"labels are said from the probability on that has the highest F1 on {self.examples:,} validation "
            f"examples: {', '.join(each[:_NAMED])}{more}"
        )


def choose_thresholds(
    probabilities: Float[np.ndarray, "examples labels"], labels: np.ndarray
) -> Float[np.ndarray, " labels"]:
    """For each label the threshold of the highest F1, halfway between two examples; of equal ones that next to 1/2.

    A label that none of the examples has, or all of them, keeps one half.

    >>> p = np.array([[0.1, 0.9], [0.2, 0.8], [0.4, 0.3]])
    >>> choose_thresholds(p, np.array([[0, 1], [1, 1], [1, 0]])).round(2).tolist()
    [0.15, 0.55]
    """
    check_same_shape("choose_thresholds", "probabilities", probabilities, "labels", labels)
    both = zip(probabilities.astype(np.float64).T, (labels > 0).T, strict=True)
    return np.array([_best(p, ours) for p, ours in both])


def _best(p: Float[np.ndarray, " examples"], ours: Bool[np.ndarray, " examples"]) -> float:
    if not ours.any() or ours.all():
        return THRESHOLD
    order = np.argsort(-p, kind="stable")
    ranked = p[order]
    ends = np.flatnonzero(np.diff(ranked, append=-1.0))  # equal probabilities are said together
    f1 = 2 * np.cumsum(ours[order])[ends] / (ends + 1 + ours.sum())
    below = np.append(ranked, 0.0)[ends + 1]
    cuts = (ranked[ends] + below) / 2
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(cuts[best[np.abs(cuts[best] - THRESHOLD).argmin()]])


def of_run(run: "Run") -> Thresholds:
    """The thresholds of a run of labels, kept in its folder: chosen once, and known without the data."""
    found = _kept(run)
    if found is None:
        try:
            found = _computed(run)
        except ChainruleError as error:
            return _none(run, f"others need the validation examples ({error.message})")
        if found.examples:
            kept = {"step": run.step, "examples": found.examples, "thresholds": found.values.tolist()}
            with contextlib.suppress(DiskError):  # a run that cannot be written to predicts all the same
                write_json(run.path / FILE, kept)
    return found


def _computed(run: "Run") -> Thresholds:
    data = run.data
    if not len(data.val):
        return _none(run, "there are no validation examples to choose others on")
    evaluation = Evaluation(run.model, data, data.val, len(data.val), random.key(0, "score"))
    y = np.asarray(data.val.y)
    return Thresholds(choose_thresholds(predictions(evaluation), y), len(y))


def _none(run: "Run", why: str) -> Thresholds:
    return Thresholds(np.full(len(run.schema.classes), THRESHOLD), 0, why)


def _kept(run: "Run") -> Thresholds | None:
    """What was written for the checkpoint that predicts."""
    try:
        found = json.loads(read_own(run.path / FILE))
        values = np.asarray(found["thresholds"], np.float64)
        sound = values.shape == (len(run.schema.classes),) and bool(((values >= 0) & (values <= 1)).all())
        kept = Thresholds(values, int(found["examples"]))
        return kept if sound and kept.examples > 0 and found["step"] == run.step else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # not there, or not ours: they are chosen again


__all__ = ["FILE", "Thresholds", "choose_thresholds", "of_run"]
