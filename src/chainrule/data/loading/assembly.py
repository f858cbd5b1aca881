"""Assembly of data from the contents of a source: schema, splits, scaling, fingerprint."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.loading import copies
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Problem, group
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema


def assemble(
    name: str,
    contents: Contents,
    shares: Sequence[float],
    seed: int,
    source: Mapping[str, Any],
    problems: Sequence[Problem],
) -> Data:
    """Data in three splits; `problems` are those of the source that did not stop it."""
    made = kinds.of(contents).divide(contents, schema_of(contents), shares, seed)
    train, val, test = made.splits
    reading = contents.reading
    if made.fills is not None and reading is not None:
        reading = reading.filled(made.fills)
    decided = kinds.of(contents).decided(contents, made, name)
    repeated = [] if made.positions is None else copies.noted(contents, made.positions, name)
    return Data(
        *(name, made.schema, train, val, test, made.scaling, made.target_scaling),
        *(fingerprint(made.schema, contents), {**source, **decided.options}),
        skipped=tuple((one.where, one.reason) for one in problems if one.effect == "skip"),
        notes=tuple(
            (g.kind, g.count) for g in group((*problems, *repeated, *decided.remarks)) if g.effect == "note"
        ),
        reading=reading,
    )


def schema_of(contents: Contents) -> Schema:
    """The shape and meaning of one example."""
    return Schema(
        contents.kind,
        kinds.of(contents).shape(contents),
        contents.target,
        contents.y.shape[1:] if contents.y is not None else (),
        classes=contents.classes,
        tokens=contents.alphabet,
        target_tokens=contents.target_alphabet,
        columns=contents.columns,
        levels=contents.levels,
        packed=contents.documents is not None,
        streams=contents.streams,
        rate=contents.rate,
    )


def fingerprint(schema: Schema, contents: Contents) -> str:
    """SHA-256 of the schema and every number, in the order of the source; the same wherever the source lies."""
    timeless = replace(schema, rate=0)
    digest = hashlib.sha256(json.dumps(timeless.to_json(), sort_keys=True).encode() + contents.fill.encode())
    if contents.allow_special:
        digest.update(b"allow_special")
    for name in ("x", "y", "parts", "documents", "groups", "weights", "grey"):
        array = getattr(contents, name)
        if array is None:
            continue
        if name == "x" and contents.stream is not None:
            own = contents.stream
            digest.update(f"stream {own.digest} {own.lower}".encode())
            continue
        rows = contents.rows if name == "x" else None
        length = len(array) if rows is None else len(rows)
        little = array.dtype.newbyteorder("<")
        digest.update(f"{name} {little.str} {(length, *array.shape[1:])}".encode())
        for piece in chunks(array, rows):
            digest.update(np.ascontiguousarray(piece, little).data)
    return digest.hexdigest()


__all__ = ["assemble", "fingerprint", "schema_of"]
