"""Two domains in one training set: examples with targets from the first, and as many without from the second.

A domain is a distribution of inputs, a task what is to be said of them. Whoever adapts a model to another domain shows
it both: every example of training comes with one of the other domain, the smaller of the two is gone through again and
again, and which stands beside which is settled once. The targets of the other domain are not in what training is given:
its arrays are left out, not hidden behind a promise. They stay in `Data.other`, where scores look for them.
"""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.core.quoting import plain
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch, Domains
from chainrule.data.dataset import Data
from chainrule.data.division import NAMES
from chainrule.data.matching_classes import LabelMap, matched
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows, Split

_OTHER = "other."
_UNKNOWN = -1
_GREY, _COLOUR = 1, 3
"""Channels."""


@final
@dataclass(frozen=True, repr=False)
class TwoDomains(Split):
    """Examples of one domain, each beside one of another domain whose targets are not there.

    Arrays of the other domain are named `other.x`; `other.order` says which of them stands beside which example,
    `other.known` which classes of it are given.
    """

    source: Rows
    target: Rows
    known: np.ndarray
    """For each example of the other domain its class where that is given, -1 elsewhere."""

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:  # type: ignore[override]  # made of those of both
        """Those of the first domain under their own names, those of the other after a prefix."""
        other = {f"{_OTHER}{name}": array for name, array in self.target.arrays.items()}
        return {**self.source.arrays, **other, f"{_OTHER}known": self.known, f"{_OTHER}order": self._order}

    @property
    def _order(self) -> np.ndarray:
        """The example of the other domain beside each; all of them equally often, within one."""
        drawn, count = np.random.default_rng(0), len(self.target)
        rounds = -(-len(self) // count)
        return np.concatenate([drawn.permutation(count) for _ in range(rounds)])[: len(self)].astype(np.int32)

    def __len__(self) -> int:
        return max(len(self.source), len(self.target))

    def gather(self, arrays: Mapping[str, Any], index: Any) -> Batch:
        """Examples by number, those of the smaller domain again and again."""
        own = {name: array for name, array in arrays.items() if not name.startswith(_OTHER)}
        other = {"x": arrays[f"{_OTHER}x"]}
        first = self.source.gather(own, index % len(self.source))
        beside = arrays[f"{_OTHER}order"][index]
        second = self.target.gather(other, beside)
        return first._replace(y=Domains(first.y, second.x, arrays[f"{_OTHER}known"][beside]))


def with_target(data: Data, target: Data, *, labels: int = 0, label_map: LabelMap | None = None) -> Data:
    """The data of one domain, with those of another beside them for training.

    Both need examples of one kind and shape, and classes of the same names if the other one has any; grey images become
    three channels alike beside images in colour. Values of the other are brought to the units, its columns to the order
    of the first. `label_map` takes names of its classes to those of the first; "names": those that differ by case only.
    `labels` of its training examples, drawn at random and as many of each class as can be, keep their
    targets in training: few are often enough. Validation and test stay those of the first domain, so that no choice
    ever rests on targets of the other.

    >>> from chainrule.data.loading.load import load
    >>> pair = with_target(load("moons", n=100), load("moons", n=50, noise=0.3))
    >>> batch = training_split(pair).batch(np.arange(4))
    >>> batch.y.x.shape, int(batch.y.known.max()), "other.y" in training_split(pair).arrays
    ((4, 2), -1, False)
    """
    data, target = coloured_alike(data, target)
    names = _names(data, target, label_map)
    if names is not None:
        classes = tuple(names[name] for name in target.schema.classes)
        target = replace(target, schema=replace(target.schema, classes=classes))
    _check(data, target, labels)
    warn_of_same(data, target)
    adopted: dict[str, Any] = {name: alike(target.split(name), target, data) for name in NAMES}
    mapped = f" {sorted(names.items())}" if names else ""
    digest = hashlib.sha256(f"{data.hash} {target.hash} {labels}{mapped}".encode()).hexdigest()
    classes = data.schema.classes if targets.of(target.schema).one_class else ()
    schema = replace(target.schema, classes=classes, columns=data.schema.columns)
    beside = replace(target, schema=schema, scaling=data.scaling, **adopted)
    return replace(data, hash=digest, other=beside, labels=labels, label_map=names)


def _names(data: Data, target: Data, label_map: LabelMap | None) -> dict[str, str] | None:
    """What each class of the other domain is called in the first, where a map says so."""
    if label_map is None:
        return None
    ours, theirs = data.schema.classes, target.schema.classes
    if not ours or not theirs:
        raise ArgumentError(
            f"label_map: {(target if ours else data).name} has no classes", remedy="leave it out"
        )
    found = matched(ours, theirs, label_map)
    assert found is not None, "a map says it of every class, or raises"
    return {name: ours[number] for name, number in zip(theirs, found, strict=True)}


def warn_of_same(source: Data, target: Data) -> None:
    """Say so where both domains hold the same examples."""
    if source.hash and source.hash == target.hash:
        warnings.warn(
            f"source and target hold the same examples ({source.name}, {target.name}): their discrepancy is 0, "
            "and there is nothing to transfer",
            ChainruleWarning,
            stacklevel=3,
        )


def coloured_alike(data: Data, target: Data) -> tuple[Data, Data]:
    """Both with three channels where one of them has and the other is grey; otherwise as they are."""
    if not kinds.of(data.schema).spatial or not kinds.of(target.schema).spatial:
        return data, target
    channels = (data.schema.shape[-1], target.schema.shape[-1])
    if channels == (_GREY, _COLOUR):
        return _in_colour(data), target
    return (data, _in_colour(target)) if channels == (_COLOUR, _GREY) else (data, target)


def _in_colour(data: Data) -> Data:
    """Grey images as images in colour."""
    splits: dict[str, Any] = {}
    for name in NAMES:
        rows = _rows(data.split(name), data)
        x = np.repeat(np.asarray(rows.arrays["x"]), _COLOUR, axis=-1)
        splits[name] = replace(rows, arrays={**rows.arrays, "x": x})
    schema = replace(data.schema, shape=(*data.schema.shape[:-1], _COLOUR))
    return replace(data, schema=schema, **splits)


def training_split(data: Data) -> Split:
    """The examples that training sees: those of `data.train`, beside those of another domain where there is one."""
    if data.other is None:
        return data.train
    source, other = _rows(data.train, data), _rows(data.other.train, data.other)
    known = np.full(len(other), _UNKNOWN, np.int32)
    if data.labels:
        chosen = few_of(other, data.labels)
        known[chosen] = other.arrays["y"][chosen]
    return TwoDomains(source, Rows({"x": other.arrays["x"]}, other.scaling), known)


def alike(split: Split, of: Data, data: Data) -> Rows:
    """Examples of other data in the units of these: columns by name, classes by the numbers they have here."""
    rows, order = _rows(split, of), _column_order(of, data)
    arrays = dict(rows.arrays)
    if data.schema.levels:  # both count in the same levels, which stay as compact as they are
        found = Rows({"x": np.asarray(arrays["x"])[..., order]}, data.scaling)
    else:
        x = rows.scaling.apply(np.asarray(arrays["x"], np.float64))
        again = data.scaling.apply(of.scaling.inverse(x)[..., order])
        found = Rows({"x": again.astype(np.float32)}, Scaling())
    if "y" not in arrays:
        return found
    y = np.asarray(arrays["y"])
    if targets.of(data.schema).one_class:
        y = np.array([data.schema.classes.index(name) for name in of.schema.classes], np.int32)[y]
    return replace(found, arrays={**found.arrays, "y": y}, target_scaling=rows.target_scaling)


def _column_order(of: Data, data: Data) -> list[int] | slice:
    ours, theirs = data.schema.columns, of.schema.columns
    return slice(None) if ours == theirs else [theirs.index(name) for name in ours]


def in_units(other: Data, data: Data) -> Data:
    """Other data in the units of these, with their own targets."""
    task = replace(data.schema, target=other.schema.target, classes=other.schema.classes)
    adopted: dict[str, Any] = {
        name: alike(other.split(name), other, replace(data, schema=task)) for name in NAMES
    }
    schema = replace(other.schema, columns=data.schema.columns)
    return replace(other, scaling=data.scaling, schema=schema, **adopted)


def check_inputs(data: Data, other: Data, remedy: str) -> None:
    """Raise unless one network can read the examples of both; columns of tables may stand in another order."""
    ours, theirs = data.schema, other.schema
    if (ours.kind, ours.shape, ours.levels) != (theirs.kind, theirs.shape, theirs.levels):
        found = [
            f"{kinds.of(one).noun} of {'×'.join(map(str, one.shape))}"
            f"{f' in {one.levels} levels' if one.levels else ''}"
            for one in (ours, theirs)
        ]
        raise DataError(
            f"{data.name} holds {found[0]}, {other.name} {found[1]}: one network reads both",
            remedy=f"{_agreement(ours, theirs)}{remedy}",
        )
    if odd := sorted(set(ours.columns) ^ set(theirs.columns)):
        raise DataError(
            f"the columns of {data.name} and {other.name} differ: {', '.join(map(plain, odd[:6]))}",
            remedy=f"name the columns of both tables alike{remedy}",
        )


def _agreement(ours: Schema, theirs: Schema) -> str:
    """What makes examples of two sources such that one network can read both."""
    if ours.kind != theirs.kind:
        return "take two sources of one kind"
    if ours.shape == theirs.shape:
        return f"take both in {max(ours.levels, theirs.levels)} levels"
    if kinds.of(ours).spatial and ours.shape[:-1] != theirs.shape[:-1]:
        return "bring images to one size, by the option size of a folder: data.size=SIDE target.size=SIDE"
    return "bring them to one shape"


def _rows(split: Split, data: Data) -> Rows:
    if not isinstance(split, Rows):
        raise ArgumentError(
            f"target={data.name}: examples of two domains are rows, images or points",
            remedy="texts, and data too large for memory, are trained on alone",
        )
    return split


def _check(data: Data, target: Data, labels: int) -> None:
    ours, theirs = data.schema, target.schema
    if data.other is not None:
        raise ArgumentError(f"target={target.name}: {data.name} has another domain beside it already")
    check_inputs(data, target, "")
    if not len(target.train):
        raise DataError(f"{target.name} has no training examples", remedy="see target.split")
    if targets.of(theirs).given and targets.of(ours).one_class:
        _check_classes(data, target)
    if labels < 0:
        raise ArgumentError(f"target_labels={labels}: a number of examples is 0 or more")
    if labels and not targets.of(theirs).one_class:
        raise ArgumentError(f"target_labels={labels}: {target.name} has no classes", remedy="leave it out")
    if labels > len(target.train):
        raise ArgumentError(
            f"target_labels={labels}: {target.name} has {len(target.train)} training examples",
            remedy=f"use target_labels={len(target.train)} or less",
        )


def _check_classes(data: Data, target: Data) -> None:
    ours, theirs = data.schema.classes, target.schema.classes
    unknown = [name for name in theirs if name not in ours]
    if not unknown:
        return
    folded = {name.casefold(): name for name in ours}
    same = {name: folded[name.casefold()] for name in unknown if name.casefold() in folded}
    if len(same) == len(unknown):
        pairs = ", ".join(f"{plain(one)} = {plain(other)}" for one, other in same.items())
        raise DataError(
            f"classes of {data.name} and {target.name} differ in their spelling only: {pairs}",
            remedy="take them for each other: label_map=names; or spell them alike in both",
        )
    raise DataError(
        f"{target.name} has classes that {data.name} has not: {', '.join(map(plain, unknown[:6]))}",
        remedy="a domain is adapted to for the same task: say which of them are the same, label_map=THEIRS:OURS,...; "
        "for other classes begin with a run: from=RUN",
    )


def few_of(split: Split, count: int) -> np.ndarray:
    """Numbers of so many examples drawn at random, classes in turn, so that each has as many as the others."""
    y = np.asarray(split.y)
    drawn = np.random.default_rng(0).permutation(len(y))
    turn = np.empty(len(y), np.int64)
    for label in np.unique(y):
        own = drawn[y[drawn] == label]
        turn[own] = np.arange(len(own))
    return np.sort(drawn[np.argsort(turn[drawn], kind="stable")][:count])


def pooled(domains: Sequence[Data]) -> Data:
    """The examples of several domains as one, in the units of the first."""
    first, *rest = domains
    for other in rest:
        _check(replace(first, other=None), other, 0)
    splits: dict[str, Any] = {}
    for name in NAMES:
        parts = [alike(one.split(name), one, first) for one in domains]
        joined = {key: np.concatenate([part.arrays[key] for part in parts]) for key in ("x", "y")}
        splits[name] = Rows(joined, parts[0].scaling)
    digest = hashlib.sha256(" ".join(one.hash for one in domains).encode()).hexdigest()
    return replace(first, name=" + ".join(one.name for one in domains), hash=digest, source={}, **splits)


__all__ = [
    "TwoDomains",
    "alike",
    "check_inputs",
    "coloured_alike",
    "few_of",
    "in_units",
    "pooled",
    "training_split",
    "warn_of_same",
    "with_target",
]
