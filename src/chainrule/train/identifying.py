"""Who is in new images: the nearest identity of a gallery, or nobody in it.

A gallery is a folder with a folder for each identity, or one image of each, called like it. The vectors of an identity
are averaged. Whether the nearest is near enough is decided by a threshold that was chosen on validation identities: the
lowest at which at most one impostor in a hundred is accepted.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, final

import numpy as np

from chainrule.core import progress, random
from chainrule.core.compiling import compiled
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleError, DataError, DiskError
from chainrule.core.formatting import number
from chainrule.core.types import Array
from chainrule.data import kinds
from chainrule.data.inputs.protocol import Given, InputChunk
from chainrule.models.protocol import CanEncode
from chainrule.probability.classification.verification import cosine_trials, error_rates
from chainrule.train.evaluation import BATCH
from chainrule.train.files import read_own, write_json
from chainrule.train.naming import handle
from chainrule.train.predicting import Answered, Answering, Unanswered, in_batches, of_known
from chainrule.train.scores.verification import embedded
from chainrule.train.scoring import Evaluation, Metric, mean

if TYPE_CHECKING:
    from chainrule.train.run import Run

FILE = "verification.json"
FALSE_ACCEPTS = 0.01
NOBODY = "nobody"


@final
@dataclass(frozen=True)
class CosineThreshold:
    """The cosine from which on two images are said to show the same identity."""

    value: float
    false_accepts: float
    """Share of the validation impostors that were accepted."""
    true_accepts: float
    pairs: int
    """Validation pairs; 0 where there are none, and whoever is nearest is meant."""


def of_run(run: "Run") -> CosineThreshold:
    """The threshold of a run, kept in its folder: chosen once, and known without the data."""
    found = _kept(run)
    if found is None:
        found = _computed(run)
        if found.pairs:
            with contextlib.suppress(DiskError):  # a run that cannot be written to answers all the same
                write_json(run.path / FILE, {"step": run.step, **asdict(found)})
    return found


def _computed(run: "Run") -> CosineThreshold:
    nothing = CosineThreshold(-1.0, 1.0, 1.0, 0)
    try:
        data = run.data
    except ChainruleError:  # what is said of the answers says that nothing was chosen
        return nothing
    if not len(data.val):
        return nothing
    trials = cosine_trials(
        *embedded(Evaluation(run.model, data, data.val, len(data.val), random.key(0, "score")))
    )
    if not len(trials.genuine) or not len(trials.impostors):
        return nothing
    rates = error_rates(*trials)
    step = rates.step_at(FALSE_ACCEPTS)
    cut = min(float(rates.thresholds[step]), 1.0)
    shares = float(rates.false_accepts[step]), float(rates.true_accepts[step])
    return CosineThreshold(cut, *shares, len(trials.genuine) + len(trials.impostors))


def _kept(run: "Run") -> CosineThreshold | None:
    try:
        found = json.loads(read_own(run.path / FILE))
        shares = float(found["false_accepts"]), float(found["true_accepts"])
        kept = CosineThreshold(float(found["value"]), *shares, int(found["pairs"]))
        return kept if found["step"] == run.step and -1 <= kept.value <= 1 and kept.pairs > 0 else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # not there, or not ours: it is chosen again


@final
class Finder(Answering):
    """The nearest identity of a gallery for each input."""

    def __init__(self, run: "Run", model: CanEncode, given: Given, gallery: str | os.PathLike[str]) -> None:
        self._model, self._prepared = model, run.preparation
        self._inputs = kinds.of(self._prepared.schema).inputs(given, self._prepared)
        self.problems: list[Unanswered] = []
        self.count = 0
        self._right: list[bool] = []
        self._threshold = of_run(run)
        self._names, self._centres, self._unread = self._enrolled(Path(gallery).expanduser())

    def __iter__(self) -> Iterator[Answered]:
        for chunk in self._inputs.chunks(BATCH):
            yield self._answer(chunk)
            progress.update(f"identities of {self._inputs.unit}", self.count, self._inputs.total)
        if not self.count:
            raise DataError(f"there are no {self._inputs.unit} to look for")

    def remarks(self) -> list[str]:
        """How large the gallery is, and from which cosine on somebody is found."""
        cut = self._threshold
        if cut.pairs:
            rule = (
                f"{NOBODY} below a cosine of {number(cut.value, 3)}, which accepts {number(cut.false_accepts, 2)} of "
                f"the impostors and {number(cut.true_accepts, 3)} of the right among {cut.pairs:,} validation pairs"
            )
        else:
            rule = "the nearest is meant, however far it is: there are no validation pairs to choose a threshold on"
        unread = f"; {self._unread} files of it cannot be read" if self._unread else ""
        return [f"gallery of {len(self._names):,} identities{unread}", rule]

    def metrics(self) -> dict[str, Metric]:
        """How often the nearest identity is the right one, where inputs lie in folders called like identities."""
        return (
            {"rank_1": mean(np.array(self._right), f"of a gallery of {len(self._names):,}")}
            if self._right
            else {}
        )

    def _enrolled(self, gallery: Path) -> tuple[list[str], np.ndarray, int]:
        """Identities of the gallery, the mean vector of each, and how many files cannot be read."""
        if not gallery.is_dir():
            raise ArgumentError(
                f"gallery={gallery}: there is no such folder",
                remedy="give a folder with a folder of images for each identity, or one image of each",
            )
        sums: dict[str, np.ndarray] = {}
        unread = 0
        for chunk in kinds.of(self._prepared.schema).inputs(gallery, self._prepared).chunks(BATCH):
            unread += len(chunk.faults)
            for row, vector in zip(chunk.rows.tolist(), self._vectors(chunk.x), strict=True):
                path = PurePosixPath(chunk.names[row])
                who = path.parts[0] if len(path.parts) > 1 else path.stem
                sums[who] = sums.get(who, 0.0) + vector
        if not sums:
            raise DataError(f"gallery={gallery}: none of its {unread} images can be read")
        centres = np.stack(list(sums.values()))
        return list(sums), centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12), unread

    def _vectors(self, x: np.ndarray) -> np.ndarray:
        found = in_batches(_encode, self._model, x, max(1, min(BATCH, len(x)))).astype(np.float64)
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)

    def _answer(self, chunk: InputChunk) -> Answered:
        self.problems += [
            Unanswered(chunk.names[row], chunk.faults[row].where, chunk.faults[row].reason)
            for row in sorted(chunk.faults)
        ]
        self.count += len(chunk.names)
        cosine = self._vectors(chunk.x) @ self._centres.T
        best = cosine.argmax(axis=1) if len(cosine) else np.zeros(0, int)
        near = cosine.max(axis=1, initial=-1.0)
        nearest = np.array([self._names[k] for k in best], np.str_)
        for row, found in zip(chunk.rows.tolist(), nearest.tolist(), strict=True):
            folder = PurePosixPath(chunk.names[row]).parts[0]
            if folder in self._names and folder != chunk.names[row]:
                self._right.append(found == folder)
        columns = {
            "prediction": np.where(near >= self._threshold.value, nearest, np.str_(NOBODY)),
            "cosine": near,
            "nearest": nearest,
        }
        return Answered(
            list(chunk.names),
            {name: of_known(column, chunk.rows, len(chunk.names)) for name, column in columns.items()},
        )


def finder(run: "Run", given: Given, gallery: str | os.PathLike[str] | None) -> Finder:
    """What looks for new images of a run of identities in a gallery."""
    model: Any = run.model
    if gallery is None:
        name = handle(run.path)
        raise CapabilityError(
            f"{run.id} compares images, and needs some to compare with",
            remedy="a folder with a folder for each identity, or one image of each:\n"
            f"chainrule predict {name} FILE-OR-FOLDER gallery=FOLDER   vectors alone: chainrule embed {name}",
        )
    return Finder(run, model, given, gallery)


@compiled
def _encode(model: CanEncode, x: Array) -> Array:
    return model.encode(x)


__all__ = ["FILE", "NOBODY", "CosineThreshold", "Finder", "finder", "of_run"]
