"""New examples as a picture: a sheet, a cloud, curves, passages or rows, whatever suits the kind of data."""

import inspect
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TypeAlias

import numpy as np

from chainrule.core.pictures import Images, Lines, Picture, Scatter, Table
from chainrule.data.schema import Kind, Schema
from chainrule.data.text import tokenizers
from chainrule.models.protocol import CanSample
from chainrule.report.predictions import unit_images
from chainrule.report.visible_text import plain

COUNTS: dict[Kind, int] = {"image": 50, "text": 3, "table": 10, "points": 1000, "sequence": 5}
"""How many examples make a good picture."""

_LINE = 14
"""Characters of a caption in one line below its image."""

_Names: TypeAlias = Sequence[str]


def sample_picture(
    schema: Schema,
    drawn: np.ndarray,
    labels: np.ndarray | None = None,
    *,
    captions: Sequence[str] = (),
    real: np.ndarray | None = None,
    title: str = "Samples",
    caption: str = "",
) -> Picture:
    """Examples in original units as a picture; `labels` or `captions` say what they were asked to be.

    `real` examples, where given, stand beside samples that are points.

    >>> schema = Schema("points", (2,))
    >>> sample_picture(schema, np.zeros((5, 2)), real=np.ones((7, 2))).groups.keys()
    dict_keys(['data', 'samples'])
    """
    names = [plain(schema.classes[int(i)]) for i in labels] if labels is not None else list(captions)
    return _SHOW[schema.kind](schema, np.asarray(drawn), names, real, title, caption)


def classes_to_show(model: CanSample, schema: Schema, n: int) -> np.ndarray | None:
    """The class of each of about `n` samples, all in turn; nothing for a model that takes no class."""
    if not schema.classes or "condition" not in inspect.signature(model.sample).parameters:
        return None
    count = len(schema.classes)
    return np.resize(np.arange(count, dtype=np.int32), max(1, n // count) * count if count <= n else n)


def _sheet(
    schema: Schema, drawn: np.ndarray, names: _Names, real: np.ndarray | None, title: str, caption: str
) -> Picture:
    if schema.shape[-1] not in (1, 3):
        return _rows(schema, drawn, names, real, title, caption)
    columns = len(schema.classes) if names and 5 <= len(schema.classes) <= 12 else 10
    if names and schema.target == "text":
        names, columns = [fill(name, _LINE) for name in names], 8
    return Images("samples", title, unit_images(drawn, schema), names, columns, caption)


def _cloud(
    schema: Schema, drawn: np.ndarray, names: _Names, real: np.ndarray | None, title: str, caption: str
) -> Picture:
    flat = drawn.reshape(len(drawn), -1)
    if flat.shape[1] < 2:
        return _rows(schema, drawn, names, real, title, caption)
    heads = _heads(schema, flat.shape[1])
    groups = {} if real is None else {"data": real.reshape(len(real), -1)[:, :2]}
    if names:
        chosen = np.array(names)
        groups |= {name: flat[chosen == name, :2] for name in dict.fromkeys(names)}
    else:
        groups["samples"] = flat[:, :2]
    return Scatter("samples", title, heads[0], heads[1], groups, caption=caption)


def _passages(
    schema: Schema, drawn: np.ndarray, names: _Names, real: np.ndarray | None, title: str, caption: str
) -> Picture:
    del names, real
    tokenizer = tokenizers.of(schema)
    rows = [[tokenizer.decode(row)] for row in drawn.astype(np.int64)]
    return Table("samples", title, ["text"], rows, caption=caption)


def _rows(
    schema: Schema, drawn: np.ndarray, names: _Names, real: np.ndarray | None, title: str, caption: str
) -> Picture:
    del real
    flat = drawn.reshape(len(drawn), -1)[:10, :8]
    columns = _heads(schema, flat.shape[1])
    rows: list[list[str | float | int]] = [[float(value) for value in row] for row in flat]
    if names:
        columns = ["class", *columns]
        rows = [[name, *row] for name, row in zip(names, rows, strict=False)]
    return Table("samples", title, columns, rows, caption=caption)


def _traces(
    schema: Schema, drawn: np.ndarray, names: _Names, real: np.ndarray | None, title: str, caption: str
) -> Picture:
    del real
    first = drawn.reshape(len(drawn), drawn.shape[1], -1)[:, :, 0]
    shown = [f"{i + 1} {name}" for i, name in enumerate(names)] or [str(i + 1) for i in range(len(first))]
    series = {name: (np.arange(len(y)), y) for name, y in zip(shown, first, strict=True)}
    return Lines("samples", title, "time", _heads(schema, 1)[0], series, caption=caption)


def _heads(schema: Schema, count: int) -> list[str]:
    return [*schema.columns, *(f"x{i + 1}" for i in range(len(schema.columns), count))][:count]


_SHOW: dict[Kind, Callable[[Schema, np.ndarray, _Names, np.ndarray | None, str, str], Picture]] = {
    "image": _sheet,
    "points": _cloud,
    "table": _rows,
    "text": _passages,
    "sequence": _traces,
}

__all__ = ["COUNTS", "classes_to_show", "sample_picture"]
