"""From the contents of a source to data: schema, splits, scaling, fingerprint.

The scaling is fitted to the training examples alone; validation and test never leak into it. Images stay bytes and are
scaled batch by batch. Numbers that are standardised are kept standardised: done once in double precision, this keeps
the digits of, say, a year or a time stamp, which a subtraction in single precision would lose. Arrays larger than
memory are only ever touched in pieces.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from chainrule.core.errors import DataError
from chainrule.data.dataset import Data
from chainrule.data.division import Places, complete, divide, sizes
from chainrule.data.loading.scan import Contents
from chainrule.data.readers.npy import chunks
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows, Selected, Split
from chainrule.data.text import captions, pairs
from chainrule.data.text.tokenization import tokenize

_SAME = 1e-3
"""Share by which vectors may differ in length and still be taken for equally long."""


def assemble(
    name: str,
    contents: Contents,
    shares: Sequence[float],
    seed: int,
    source: Mapping[str, Any],
    skipped: tuple[tuple[str, str], ...],
) -> Data:
    """Data in three splits."""
    schema = schema_of(contents)
    target_scaling = None
    if contents.kind == "text" and contents.target == "text":
        scaling = Scaling()
        schema, splits = pairs.divide(contents, schema, _places(contents, shares, seed))
    elif contents.kind == "text" and contents.target == "class":
        scaling = Scaling()
        schema, splits = pairs.labelled(contents, schema, _places(contents, shares, seed))
    elif contents.kind == "text":
        scaling = Scaling()
        tokenized = tokenize(contents, shares)
        schema = replace(schema, symbols=tokenized.symbols, tokenizer=tokenized.tokenizer)
        splits = tokenized.splits
    else:
        places = _places(contents, shares, seed)
        scaling = _scaling(contents, places[0])
        told = contents
        if contents.target == "text":
            schema, told = captions.tokenise(contents, schema, places[0])
        if contents.target == "value" and contents.y is not None:
            length = _common_length(contents.y)
            schema = replace(schema, target_length=length)
            target_scaling = (
                Scaling(0.0, math.sqrt(contents.y.shape[1]) / length)
                if length
                else _standardising(*moments(contents.y, places[0]))
            )
        splits = [_rows(told, part, scaling, target_scaling) for part in places]
    train, val, test = splits
    digest = fingerprint(schema, contents)
    return Data(name, schema, train, val, test, scaling, target_scaling, digest, source, skipped)


def schema_of(contents: Contents) -> Schema:
    """The shape and meaning of one example."""
    return Schema(
        contents.kind,
        (contents.window + 1,) if contents.kind == "text" else contents.x.shape[1:],
        contents.target,
        contents.y.shape[1:] if contents.y is not None else (),
        classes=contents.classes,
        symbols=contents.symbols,
        target_symbols=contents.target_symbols,
        columns=contents.columns,
        levels=contents.levels,
        packed=contents.documents is not None,
        streams=contents.streams,
    )


def moments(
    array: Shaped[np.ndarray, "rows ..."], rows: Places
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Mean and standard deviation over the given rows (and any axes between), one for each entry of the last axis.

    >>> mean, deviation = moments(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([0, 1]))
    >>> mean.tolist(), deviation.tolist()
    ([2.0, 5.0], [1.0, 0.0])
    """
    shape = array.shape[-1:] if array.ndim > 1 else ()
    count = len(rows) * int(np.prod(array.shape[1:-1], dtype=np.int64))
    total, square = np.zeros(shape), np.zeros(shape)
    for piece in chunks(array, rows):
        total += piece.astype(np.float64).reshape(-1, *shape).sum(axis=0)
    mean = total / count
    for piece in chunks(array, rows):
        square += ((piece.astype(np.float64).reshape(-1, *shape) - mean) ** 2).sum(axis=0)
    return np.asarray(mean), np.asarray(np.sqrt(square / count))


def fingerprint(schema: Schema, contents: Contents) -> str:
    """SHA-256 of the schema and every number, in the order of the source; the same wherever the source lies."""
    digest = hashlib.sha256(json.dumps(schema.to_json(), sort_keys=True).encode())
    for name in ("x", "y", "parts", "documents"):
        array = getattr(contents, name)
        if array is None:
            continue
        rows = contents.rows if name == "x" else None
        length = len(array) if rows is None else len(rows)
        little = array.dtype.newbyteorder("<")
        digest.update(f"{name} {little.str} {(length, *array.shape[1:])}".encode())
        for piece in chunks(array, rows):
            digest.update(np.ascontiguousarray(piece, little).data)
    return digest.hexdigest()


def _places(contents: Contents, shares: Sequence[float], seed: int) -> list[Places]:
    classes = contents.y if contents.target == "class" else None
    if contents.parts is not None:
        places = complete(contents.parts, shares, seed, classes)
    elif contents.consecutive:
        places = np.split(np.arange(len(contents)), np.cumsum(sizes(len(contents), shares))[:-1])
    else:
        places = divide(len(contents), shares, seed, classes)
    if classes is not None and len(np.unique(classes[places[0]])) < 2:
        raise DataError(
            f"{len(contents)} examples leave only one class for training",
            remedy="give training a larger share, for example split=(0.8, 0.1, 0.1)",
        )
    if contents.target == "labels" and contents.y is not None:
        _check_labels(contents.classes, contents.y[places[0]])
    return places


def _check_labels(names: Sequence[str], train: np.ndarray) -> None:
    for name, column in zip(names, train.T, strict=True):
        if np.ptp(column) == 0:
            raise DataError(
                f"label {name!r} is {column[0]} for every training example",
                remedy="try another data.seed, give training a larger share, or leave the label out",
            )


def _scaling(contents: Contents, train: Places) -> Scaling:
    if contents.levels:
        return Scaling(0.0, 1 / (contents.levels - 1))
    if contents.standardise is None:
        return Scaling()
    mean, deviation = moments(contents.x, train if contents.rows is None else contents.rows[train])
    chosen = contents.standardise
    scaling = _standardising(np.where(chosen, mean, 0.0), np.where(chosen, deviation, 1.0))
    shape = contents.x.shape[1:]
    return Scaling(
        np.broadcast_to(scaling.shift, shape).copy(), np.broadcast_to(scaling.factor, shape).copy()
    )


def _common_length(y: np.ndarray) -> float:
    """The length of vectors that all have the same, as embeddings do; 0 for anything else.

    >>> _common_length(np.array([[0.6, 0.8], [1.0, 0.0]])), _common_length(np.array([[1.0, 1.0], [2.0, 2.0]]))
    (1.0, 0.0)
    """
    if y.ndim != 2 or y.shape[1] < 2:
        return 0.0
    lengths = np.linalg.norm(y.astype(np.float64), axis=1)
    mean = float(lengths.mean())
    return round(mean, 6) if np.abs(lengths - mean).max() <= _SAME * mean else 0.0


def _standardising(mean: np.ndarray, deviation: np.ndarray) -> Scaling:
    """To mean 0 and variance 1; what does not vary is only shifted."""
    factor = 1 / np.where(deviation > 0, deviation, 1.0)
    return Scaling(mean, factor) if mean.ndim else Scaling(float(mean), float(factor))


def _rows(contents: Contents, places: Places, scaling: Scaling, target_scaling: Scaling | None) -> Split:
    if isinstance(contents.x, np.memmap) and contents.y is None:
        rows = places if contents.rows is None else contents.rows[places]
        return Selected({"x": contents.x, "rows": rows}, scaling)
    arrays = {"x": contents.x[places]}
    if contents.standardise is not None:
        arrays["x"] = scaling.apply(arrays["x"].astype(np.float64)).astype(np.float32)
    if contents.y is not None:
        arrays["y"] = contents.y[places]
    if target_scaling is not None:
        arrays["y"] = target_scaling.apply(arrays["y"].astype(np.float64)).astype(np.float32)
    return Rows(arrays, scaling if contents.standardise is None else Scaling())


__all__ = ["assemble", "fingerprint", "moments", "schema_of"]
