"""Runs that training begins with: `from=RUN`, which of its layers begin afresh, and what its text has to be read by."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from chainrule.cli.folders import find as find_run
from chainrule.cli.settings import guess
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.quoting import plain
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.models.protocol import Entry
from chainrule.models.starting import replaced_head
from chainrule.train import Run

_ALIKE = 0.25
"""Of a deviation: so much may units differ, as those of two small samples of one population do."""


@final
@dataclass(frozen=True)
class Start:
    """A trained run that training begins with."""

    run: Run
    fresh: tuple[str, ...]
    head_first: int | None = None
    """Steps in which the fresh head learns alone; none: what is usual."""

    def to_json(self) -> dict[str, Any]:
        """What a recipe says about it."""
        found = {**self.run.origin, "fresh": list(self.fresh)}
        return {**found, "head_first": self.head_first} if self.head_first else found

    def fitted(self, entry: Entry, data: Data) -> "Start":
        """The same with the layer of the outputs afresh where the data have other classes than its own."""
        if self.run.config["model"]["name"] != entry.name:
            return self
        head = replaced_head(entry, self.run.model, data.schema)
        return replace(self, fresh=(*self.fresh, head)) if head and head not in self.fresh else self

    def learns_as_before(self, entry: Entry) -> bool:
        """Whether a model that begins with it learns from its data: one of its kind, or one that it teaches."""
        return entry.body_of is not None or self.run.config["model"]["name"] == entry.name

    def check_units(self, entry: Entry, data: Data) -> None:
        """Raise where a model that stays as it is would read numbers of these data in units that it does not know."""
        ours, theirs = self.run.schema, data.schema
        if entry.body_of is None or ours.shape != theirs.shape or ours.levels or theirs.levels:
            return
        way = f"leave data= out for the data of {self.run.id}, or train a model on these data for from=RUN"
        if ours.columns != theirs.columns:
            raise _other_columns(self.run.id, ours.columns, data.name, theirs.columns, way)
        mean, deviation = _in_units(self.run.scaling, data.scaling, ours.shape)
        for number in np.flatnonzero((np.abs(mean) > _ALIKE) | (np.abs(np.log(deviation)) > _ALIKE)).tolist():
            name = f"column {plain(ours.columns[number])}" if ours.columns else f"entry {number}"
            raise DataError(
                f"{name} of {data.name} has another scale than that {self.run.id} was trained on: in units of the run "
                f"its mean is {mean[number]:.3g} and its deviation {deviation[number]:.3g}, not 0 and 1",
                remedy=way,
            )


def start_of(own: Mapping[str, str], recipe: Mapping[str, Any], folder: Path) -> Start | None:
    """The run to begin with: the one that is named, or the one of the recipe."""
    fresh = tuple(word.strip() for word in own["fresh"].split(",")) if "fresh" in own else None
    alone = whole("train", "head_first", guess(own["head_first"]), 0) if "head_first" in own else None
    if "from" in own:
        return Start(Run.open(find_run(own["from"], folder)), fresh or (), alone)
    stored = recipe["model"].get("from")
    if stored is None or "vectors" in stored:
        for word in ("fresh", "head_first"):
            if word in own:
                raise ArgumentError(f"{word}={own[word]}: without from=RUN every layer begins afresh")
        return None
    if not isinstance(stored, dict) or not isinstance(stored.get("run"), str):
        raise ArgumentError(
            f"{own['config']} is the recipe of weights that came from a file",
            remedy="begin with that run instead: chainrule train from=RUN",
        )
    layers = tuple(stored.get("fresh", ())) if fresh is None else fresh
    return Start(
        Run.open(stored["run"]), layers, int(stored.get("head_first", 0)) if alone is None else alone
    )


def _other_columns(run: str, ours: Iterable[str], data: str, theirs: Iterable[str], way: str) -> DataError:
    known, found = (", ".join(map(plain, list(names)[:6])) for names in (ours, theirs))
    return DataError(f"{run} reads the columns {known}; {data} has {found}", remedy=way)


def _in_units(known: Scaling, found: Scaling, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation, in known units, of entries that have mean 0 and deviation 1 in those found."""
    (own_shift, own_factor), (shift, factor) = (
        [np.broadcast_to(part, shape).ravel() for part in (one.shift, one.factor)] for one in (known, found)
    )
    return (shift - own_shift) * own_factor, own_factor / factor


def text_options(run: Run, known: Iterable[str]) -> dict[str, Any]:
    """What text has to be loaded with so that the model of a run can read it."""
    if not kinds.of(run.schema).has_tokens or targets.of(run.schema).has_tokens or "tokenizer" not in known:
        return {}
    window = (
        {"window": run.schema.shape[0] - 1} if "window" in known and not targets.of(run.schema).given else {}
    )
    own = run.config["data"] or {}
    special = {name: own[name] for name in ("special", "allow_special") if own.get(name) and name in known}
    return {"tokenizer": str(run.tokenizer_file()), **window, **special}


def with_teacher(train: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Training settings with the run of a teacher by its path, wherever the command is given again."""
    name = train.get("distill", {}).get("teacher")
    if not name:
        return train
    return {**train, "distill": {**train["distill"], "teacher": str(Path(find_run(name, folder)).resolve())}}


__all__ = ["Start", "start_of", "text_options", "with_teacher"]
