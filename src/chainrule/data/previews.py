"""A few examples of some data as pictures, for people who would rather look than read."""

from collections.abc import Callable, Mapping

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter, Table
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Kind
from chainrule.data.text import captions, pairs, tokenizers

_IMAGES = 30
_POINTS = 2000
_ROWS = 10
_SYMBOLS = 40
_SEQUENCES = 4


def preview(data: Data) -> list[Picture]:
    """Pictures of the training data in their original units.

    >>> import chainrule.data
    >>> preview(chainrule.data.load("moons"))[0].title
    'moons: 2,000 of 3,200 training points'
    """
    if data.schema.kind == "text" and data.schema.target != "none":
        return [_pairs(data)]
    return [_PICTURES[data.schema.kind](data)]


def excerpt(data: Data, characters: int = 400) -> str:
    """The first characters of a text.

    >>> import chainrule.data
    >>> print(excerpt(chainrule.data.load("shakespeare"), 44))
    FIRST WITCH.
    When shall we three meet again?
    """
    if data.schema.kind != "text" or data.schema.target != "none":
        raise ArgumentError(
            f"{data.name} is {data.schema.kind} data with target {data.schema.target}; "
            "only a text by itself has an excerpt"
        )
    return tokenizers.of(data.schema).decode(data.train.arrays["symbols"][:characters])[:characters]


def _some(data: Data, count: int) -> Batch:
    """Training examples spread evenly over the classes, in original units."""
    total = len(data.train)
    order = np.arange(total)
    if data.schema.target == "class":
        order = np.argsort(data.train.arrays["y"], kind="stable")
    x, y = data.train.batch(order[np.linspace(0, total - 1, min(count, total)).astype(int)])[:2]
    if data.target_scaling is not None:
        y = data.target_scaling.inverse(y)
    return Batch(data.inverse(x), y)


def _title(data: Data, shown: int, what: str) -> str:
    return f"{data.name}: {shown:,} of {len(data.train):,} training {what}"


def _images(data: Data) -> Picture:
    x, y = _some(data, _IMAGES)[:2]
    labels: list[str] = []
    if data.schema.target == "class":
        labels = [data.schema.classes[i] for i in y]
    elif data.schema.target == "labels":
        labels = [", ".join(np.array(data.schema.classes)[ones > 0]) for ones in y]
    elif data.schema.target == "text":
        labels = [captions.text(data.schema, row) for row in y]
    columns = 5 if data.schema.target == "text" else 10
    pixels = x / max(1, data.schema.levels - 1)
    return Images("data-images", _title(data, len(x), "images"), pixels, labels, columns)


def _points(data: Data) -> Picture:
    x, y = _some(data, _POINTS)[:2]
    if data.schema.target == "class":
        groups = {name: x[y == i, :2] for i, name in enumerate(data.schema.classes)}
    else:
        groups = {"points": x[:, :2]}
    labels = (*data.schema.columns, "first coordinate", "second coordinate")
    return Scatter("data-points", _title(data, len(x), "points"), labels[0], labels[1], groups)


def _table(data: Data) -> Picture:
    x, y = _some(data, _ROWS)[:2]
    rows: list[list[str | float | int]] = [[float(f"{value:.6g}") for value in row] for row in x]
    names = list(data.schema.columns)
    if data.schema.target == "class":
        rows = [[*row, data.schema.classes[i]] for row, i in zip(rows, y, strict=True)]
        names.append("class")
    elif data.schema.target == "labels":
        rows = [[*row, *(int(one) for one in ones)] for row, ones in zip(rows, y, strict=True)]
        names += data.schema.classes
    elif data.schema.target == "value" and y.ndim == 1:
        rows = [[*row, float(f"{value:.6g}")] for row, value in zip(rows, y, strict=True)]
        names.append("value")
    return Table("data-table", _title(data, len(x), "rows"), names, rows)


def _symbols(data: Data) -> Picture:
    counts = np.bincount(data.train.arrays["symbols"], minlength=len(data.schema.symbols))
    order = np.argsort(-counts, kind="stable")[:_SYMBOLS]
    names = [repr(data.schema.symbols[i])[1:-1].replace(" ", "␣") for i in order]
    title = f"{data.name}: how often each symbol comes in training"
    return Bars("data-symbols", title, "symbol", "share", names, {"share": counts[order] / counts.sum()})


def _pairs(data: Data) -> Picture:
    rows = np.linspace(0, len(data.train) - 1, min(_ROWS, len(data.train))).astype(int)
    x, y = data.train.batch(rows)[:2]
    told = data.schema.target == "text"
    target = (lambda row: pairs.target_text(data.schema, row)) if told else data.schema.classes.__getitem__
    shown = [[pairs.source_text(data.schema, one), target(other)] for one, other in zip(x, y, strict=True)]
    what, columns = ("pairs", ["text", "becomes"]) if told else ("texts", ["text", "class"])
    return Table("data-pairs", _title(data, len(rows), what), columns, shown)


def _sequences(data: Data) -> Picture:
    x, _ = _some(data, _SEQUENCES)[:2]
    steps = np.arange(x.shape[1])
    series = {
        f"{i}, feature {j}": (steps, x[i, :, j]) for i in range(len(x)) for j in range(min(3, x.shape[2]))
    }
    return Lines("data-sequences", _title(data, len(x), "sequences"), "step", "value", series)


_PICTURES: Mapping[Kind, Callable[[Data], Picture]] = {
    "image": _images,
    "points": _points,
    "table": _table,
    "text": _symbols,
    "sequence": _sequences,
}

__all__ = ["excerpt", "preview"]
