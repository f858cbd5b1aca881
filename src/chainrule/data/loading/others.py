"""Other data for a trained model: examples of another source, prepared as those of training were, to be judged by.

Scaling, classes, tokens and the reading of columns are those of training: nothing is fitted to the new examples.
Classes go by their names. Where the source has a test part of its own, that is what counts, and all of it otherwise.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError, DataError, check_choice
from chainrule.core.quoting import plain
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.inputs import tables
from chainrule.data.inputs.protocol import KnownTargets, Preparation
from chainrule.data.loading import sources
from chainrule.data.loading.load import read_contents
from chainrule.data.loading.scan import Contents
from chainrule.data.readers import tabbed, table
from chainrule.data.readers import text as corpora
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows, Split, Subset
from chainrule.data.text import tokenization

_TEST = 2


def load_other(
    name_or_path: str | os.PathLike[str] | None,
    prepared: Preparation,
    *,
    text: str | None = None,
    seed: int = 0,
    bad: str = "error",
    needs_targets: bool = True,
    **options: Any,
) -> Data:
    """Another source, or a text, as the test split of data like those of training; its other splits are empty.

    `options` are those of the source; what is not given is as it was in training. Data without targets will do for a
    model that does not need them.
    """
    check_choice("score", "bad", bad, ["error", "skip"])
    if text is not None and name_or_path is None:
        return _judged("text", _passages(text, prepared), prepared)
    if text is not None or name_or_path is None:
        raise ArgumentError("data and text: one of them is judged", remedy="give one of the two")
    source = sources.find(name_or_path)
    kind = kinds.of(prepared.schema)
    formats = (tabbed.reader, *(one.reader for one in table.FORMATS.values()))
    if kind.has_rows and any(source.reader is one for one in formats):
        split = _table(source, prepared, bad, options, needs_targets)
    else:
        contents = read_contents(source, _options(source, prepared, options), seed, bad)
        if contents.kind != prepared.schema.kind:
            raise DataError(
                f"{source.name} holds {kinds.of(contents).noun}; the run was trained on {kind.noun}",
                remedy="give data like those of training",
            )
        if needs_targets and contents.y is None and targets.of(prepared.schema).given:
            raise no_targets(source.name)
        split = kind.adopted(contents, _chosen(contents), prepared, source.name)
    return _judged(source.name, split, prepared)


def _passages(text: str, prepared: Preparation) -> Split:
    """A text of the user's own, for a run that was trained on one long text."""
    schema = prepared.schema
    if not kinds.of(schema).is_corpus(schema):
        raise ArgumentError(
            "text: the run was not trained on a text that predicts itself",
            remedy="give a file with targets: data=FILE",
        )
    own = {**prepared.options, **kinds.of(schema).own_options(schema), "packing": schema.packed}
    options = {name: own.get(name, option.default) for name, option in corpora.OPTIONS.items()}
    if not text:
        raise ArgumentError("text: it is empty", remedy="give at least two characters")
    return tokenization.adopted(corpora.contents_of([text], options), schema, "text", marked=True)


def _judged(name: str, split: Split, prepared: Preparation) -> Data:
    """Data whose test split is what a model is to be judged by."""
    nothing = Subset(split, np.zeros(0, np.int64))
    return Data(
        *(name, prepared.schema, nothing, nothing, split),
        *(prepared.scaling, prepared.target_scaling, "", {}),
        reading=prepared.reading,
    )


def _options(source: sources.DataSource, prepared: Preparation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as given, or as in training where the source takes them: the size and so on of its examples."""
    own = {**prepared.options, **kinds.of(prepared.schema).own_options(prepared.schema)}
    if any(prepared.options.get(name) is not None for name in ("bits", "binarize")):
        own["levels"] = prepared.options.get("levels")  # those that there were before
    known = {
        name: own[name]
        for name, option in source.options.items()
        if own.get(name) is not None and option.takes(own[name])
    }
    return source.resolve({**known, **given})


def _chosen(contents: Contents) -> np.ndarray:
    """The examples of the test part, or all."""
    everything = np.arange(len(contents))
    if contents.parts is None or not (contents.parts == _TEST).any():
        return everything
    return everything[contents.parts == _TEST]


def _table(
    source: sources.DataSource,
    prepared: Preparation,
    bad: str,
    options: Mapping[str, Any],
    needs_targets: bool,
) -> Split:
    """Rows of a table, read by the plan of the training table."""
    if options:
        name = next(iter(options))
        raise ArgumentError(
            f"data.{name}: columns are read as those of the training table were",
            remedy=f"leave data.{name} out",
        )
    parts = list(tables.inputs(source.path, prepared).chunks(0))
    faults = [problem for part in parts for problem in part.faults.values()]
    total = sum(len(part.names) for part in parts)
    if faults and bad == "error":
        first = f"first: {faults[0].where} ({faults[0].reason})"
        raise DataError(
            f"{len(faults):,} of {total:,} rows cannot be used; {first}",
            remedy=f"score the other {total - len(faults):,}: data.bad=skip",
        )
    x = np.concatenate([part.x for part in parts])
    if not len(x):
        raise DataError(f"{source.name}: no row can be used")
    if not targets.of(prepared.schema).given:
        return Rows({"x": x})
    known = [part.targets for part in parts if len(part.x)]
    if any(one is None for one in known):
        if needs_targets:
            raise no_targets(source.name)
        return Rows({"x": x})
    y = [all_known(one, prepared.schema, source.name) for one in known if one is not None]
    return Rows({"x": x, "y": np.concatenate(y)})


def examples_like(
    contents: Contents, rows: np.ndarray, prepared: Preparation, where: str, x: np.ndarray
) -> Rows:
    """Examples in the units of the data and their targets as a split; images keep their bytes."""
    if x.shape[1:] != prepared.schema.shape:
        found, wanted = ("×".join(map(str, shape)) for shape in (x.shape[1:], prepared.schema.shape))
        raise DataError(f"{where}: examples of {found}; the run was trained on {wanted}")
    arrays = {"x": x if prepared.schema.levels else prepared.examples(x)}
    y = targets_like(contents, rows, prepared, where)
    if y is not None:
        arrays["y"] = y
    return Rows(arrays, *([prepared.scaling] if prepared.schema.levels else []))


def targets_like(
    contents: Contents, rows: np.ndarray, prepared: Preparation, where: str
) -> np.ndarray | None:
    """The targets of these examples as splits of the training data hold them, if those have any."""
    target = targets.of(prepared.schema)
    if not target.given or contents.y is None:
        return None
    if contents.target != prepared.schema.target:
        raise DataError(
            f"{where}: its targets are of kind {contents.target!r}, those of training of {prepared.schema.target!r}",
            remedy=f"say what they are: data.target_as={prepared.schema.target}",
        )
    values = target.said(contents, rows, prepared.schema)
    found = prepared.targets(values)
    if found is None:
        found = KnownTargets(np.zeros(len(rows)), np.zeros(len(rows), bool), repr(values[0]))
    return all_known(found, prepared.schema, where)


def all_known(found: KnownTargets, schema: Schema, where: str) -> np.ndarray:
    """The targets; an error if the run does not know some of them."""
    unknown = int((~found.known).sum())
    if unknown:
        classes = f"it knows: {', '.join(map(plain, schema.classes[:12]))}" if schema.classes else ""
        raise DataError(
            f"{where}: the targets of {unknown:,} of {len(found.known):,} examples are not known to the run; "
            f"first: {plain(found.unknown, 80)}",
            remedy=classes,
        )
    return found.y


def no_targets(where: str) -> DataError:
    """The error for examples without what a model is judged by."""
    return DataError(
        f"{where}: the examples have no targets, which this run was trained with",
        remedy="give them too: as a target column, as folders called like the classes, or as y in an .npz file",
    )


__all__ = ["all_known", "examples_like", "load_other", "no_targets", "targets_like"]
