"""NumPy files: one array (`.npy`) or several by name (`.npz`).

| names in the `.npz` | meaning |
|---|---|
| `x`, and perhaps `y` | examples, and targets |
| `images`, and perhaps `labels` | the same; labels are always classes |
| `x_train`, `y_train`, `x_test`, `y_test`, perhaps `x_val`, `y_val` | the same, already divided |

The words of a name may come in either order: `train_images` is `images_train`. What an array means follows from its
shape unless `kind` says otherwise: (n, d) is a table, or points if d is 2; (n, h, w) and (n, h, w, c) are images;
(n, t, d) with `kind="sequence"` are sequences.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.data import kinds
from chainrule.data.loading import bounded
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.options import (
    BINARIZE,
    BITS,
    LEVELS,
    MAX_BYTES,
    MAX_RATIO,
    SERIES,
    Option,
    choice,
    guard,
    optional,
)
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader
from chainrule.data.readers import npy, targets
from chainrule.data.target import ReadTargets

_PARTS = ("train", "val", "test")


class ArrayPart(NamedTuple):
    """Examples and perhaps targets that came under matching names."""

    part: str
    where: str
    x: np.ndarray
    y: np.ndarray | None
    weights: np.ndarray | None = None


def _scan(request: ReadRequest) -> Scan:
    pieces, labels, notes = read_parts(request)
    return examine(pieces, request.path.name, request.options, labels, notes)


def examine(
    pieces: Sequence[ArrayPart],
    where: str,
    options: Mapping[str, Any],
    labels: bool = False,
    notes: Sequence[Problem] = (),
) -> Scan:
    """What arrays hold and what is wrong with them; `labels` says that targets are classes whatever they look like."""
    problems: list[Problem] = []
    kept: list[np.ndarray] = []
    for piece in pieces:
        bad = _not_finite(piece.x)
        for what, beside in (("targets", piece.y), ("weights", piece.weights)):
            if beside is None:
                continue
            if len(beside) != len(piece.x):
                raise Refused(
                    "wrong count", piece.where, f"{len(beside):,} {what} for {len(piece.x):,} examples"
                )
            bad = bad | _not_finite(_without_padding(beside))
        problems += [Problem("NaN or infinite", f"{piece.where} row {row}") for row in np.flatnonzero(bad)]
        kept.append(np.flatnonzero(~bad))
    total, usable = sum(len(piece.x) for piece in pieces), sum(len(rows) for rows in kept)
    try:
        contents = _contents(pieces, kept, labels, where, options)
    except Refused as refused:
        return Scan(total, usable, (*problems, *notes, refused.problem))
    return Scan(total, usable, (*problems, *notes), contents)


def read_parts(request: ReadRequest) -> tuple[list[ArrayPart], bool, list[Problem]]:
    """The arrays of the file by part, whether targets are called labels, and notes on arrays that are not used."""
    where, options = request.path.name, request.options
    if request.path.suffix.lower() == ".npy":
        array = npy.read(request.path, where, options["max_bytes"], options["max_ratio"])
        return [ArrayPart("", where, array, None)], False, []
    limits = (options["max_bytes"], options["max_ratio"], options["max_files"])
    found: dict[tuple[str, str], tuple[str, np.ndarray]] = {}
    notes = []
    for member, data in bounded.members(request.path, where, *limits):
        name = member.removesuffix(".npy")
        role = _role(name)
        if role is None or name == member:
            notes.append(Problem("not used", f"{where}[{name}]", effect="note"))
        elif role in found:
            raise Refused(
                "ambiguous", where, f"{found[role][0]!r} and {name!r} mean the same", "leave one of them out"
            )
        else:
            found[role] = (name, npy.parse(data, f"{where}[{name}]"))
    parts = [part for part in ("", *_PARTS) if (part, "x") in found]
    if parts != [""] and (not parts or "train" not in parts or "" in parts):
        held = (
            ", ".join([*(name for name, _ in found.values()), *(note.where for note in notes)]) or "nothing"
        )
        remedy = "name them x and y, images and labels, or x_train, y_train, x_test, y_test"
        raise Refused("unknown names", where, f"cannot tell examples and targets apart in: {held}", remedy)
    if len({(part, "y") in found for part in parts}) > 1:
        raise Refused("incomplete", where, "some parts have targets and some have none")
    pieces = [
        ArrayPart(
            part,
            f"{where}[{found[part, 'x'][0]}]",
            found[part, "x"][1],
            found.get((part, "y"), ("", None))[1],
        )
        for part in parts
    ]
    return pieces, any("labels" in name for name, _ in found.values()), notes


def _role(name: str) -> tuple[str, str] | None:
    """Part and meaning of an array by its name.

    >>> _role("x_train"), _role("images"), _role("weights")
    (('train', 'x'), ('', 'x'), None)
    """
    words = name.lower().split("_")
    part = next((word for word in words if word in _PARTS), "")
    meaning = {"x": "x", "images": "x", "y": "y", "labels": "y"}.get("_".join(w for w in words if w != part))
    return None if meaning is None else (part, meaning)


def _not_finite(array: np.ndarray) -> np.ndarray:
    """Which rows hold a NaN, an infinite number, or one that is infinite in single precision."""
    bad = np.zeros(len(array), bool)
    if array.dtype.kind != "f":
        return bad
    start = 0
    for piece in chunks(array):
        with np.errstate(over="ignore"):
            finite = np.isfinite(piece.astype(np.float32))
        bad[start : start + len(piece)] = ~finite.reshape(len(piece), -1).all(axis=1)
        start += len(piece)
    return bad


def _without_padding(y: np.ndarray) -> np.ndarray:
    """Targets with zeros where a whole vector of a row of vectors is NaN: that is padding, not a fault."""
    if y.ndim != 3 or y.dtype.kind != "f":
        return y
    gone = np.isnan(y).all(axis=2, keepdims=True)
    return np.where(gone & ~gone.all(axis=1, keepdims=True), 0, y)


def _contents(
    pieces: Sequence[ArrayPart], kept: list[np.ndarray], labels: bool, where: str, options: Mapping[str, Any]
) -> Contents:
    if not any(len(rows) for rows in kept):
        raise Refused("no examples", where, "every example holds a value that is not finite")
    if len({piece.x.shape[1:] for piece in pieces}) > 1:
        raise Refused("mixed sizes", where, "examples of the parts differ in shape")
    rows = None
    if len(pieces) == 1:
        x, rows = pieces[0].x, kept[0]
        if len(rows) == len(x):
            rows = None
        elif not isinstance(x, np.memmap):
            x, rows = x[rows], None
    else:
        x = np.concatenate([piece.x[good] for piece, good in zip(pieces, kept, strict=True)])
    if x.dtype.kind == "U":
        raise Refused("not numbers", where, "the examples are words")
    name, x = _shaped(x, options["kind"], where)
    examples = kinds.get(name).arranged(x, rows, options["levels"], where)
    ys = [piece.y[good] for piece, good in zip(pieces, kept, strict=True) if piece.y is not None]
    y = _beside(np.concatenate(ys), x, name) if ys else None
    found = None if y is None else _targets(y, options["target_as"], labels, where)
    weights = [
        piece.weights[good] for piece, good in zip(pieces, kept, strict=True) if piece.weights is not None
    ]
    codes = [np.full(len(good), _PARTS.index(p.part)) for p, good in zip(pieces, kept, strict=True) if p.part]
    return Contents(
        name,
        examples.x,
        None if found is None else found.y,
        "none" if found is None else found.target,
        classes=() if found is None else found.classes,
        columns=examples.columns,
        levels=examples.levels,
        parts=np.concatenate(codes) if len(codes) > 1 else None,
        rows=rows,
        standardise=examples.standardise,
        weights=np.concatenate(weights).astype(np.float64) if weights else None,
    )


def _shaped(x: np.ndarray, kind: str | None, where: str) -> tuple[str, np.ndarray]:
    """The kind of data, and the array with the axes that kind has."""
    if kind is None:
        kind = next((name for name in kinds.names() if kinds.get(name).claims(x, where)), None)
    axes = kinds.get(kind).axes if kind else ()
    if kind is None or x.ndim not in axes:
        shape = "×".join(str(n) for n in x.shape)
        takes = "(n, d), (n, h, w), (n, h, w, c), or (n, t, d) with data.kind=sequence"
        raise Refused(
            "unclear shape", where, f"{shape} numbers are not {kind or 'any known kind of'} data", takes
        )
    return kind, x if x.ndim == max(axes) else x[..., None]


def _targets(y: np.ndarray, target_as: str, labels: bool, where: str) -> ReadTargets:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind == "U":
        if y.ndim != 1 or targets.wants_numbers(target_as):
            raise Refused(
                "not values",
                where,
                "the targets are words",
                "one word per example, with data.target_as=class",
            )
        return targets.of_words([str(word) for word in y], where)
    if y.ndim > 2:
        return _conditions(y, target_as, where)
    return targets.of_numbers(y, where, "class" if labels and target_as == "auto" else target_as)


def _beside(y: np.ndarray, x: np.ndarray, kind: str) -> np.ndarray:
    """Targets of the height and width of the images they stand beside are images too, of one channel."""
    same = y.ndim == 3 and kinds.get(kind).spatial and y.shape[1:] == x.shape[1:3]
    return y[..., None] if same else y


def _conditions(y: np.ndarray, target_as: str, where: str) -> ReadTargets:
    """Rows of vectors and images beside the examples: numbers that a generative model can be asked for."""
    if y.ndim > 4:
        raise Refused(
            "unclear shape",
            where,
            f"targets of shape {y.shape}",
            "one number, vector, row of vectors or image (height, width, channels) per example",
        )
    return targets.of_numbers(y, where, "value" if target_as == targets.AUTO else target_as)


def _kind(value: Any) -> str:
    return choice(*(name for name in kinds.names() if kinds.get(name).axes))(value)


reader = SourceReader(
    "array",
    "examples",
    {
        "kind": Option(None, optional(_kind), "what the examples are"),
        "levels": LEVELS,
        "series": SERIES,
        "binarize": BINARIZE,
        "bits": BITS,
        "target_as": targets.TARGET_AS,
        "max_bytes": MAX_BYTES,
        "max_ratio": MAX_RATIO,
        "max_files": guard(64, "largest number of arrays in a file"),
    },
    _scan,
)

__all__ = ["ArrayPart", "examine", "read_parts", "reader"]
