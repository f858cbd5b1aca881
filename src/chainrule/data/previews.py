"""Previews: pictures of a few examples."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture, Table
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.data.target import Cells
from chainrule.data.text import tokenizers

if TYPE_CHECKING:
    from chainrule.data.dataset import Data

_ROWS, _COLUMNS = 10, 8


def preview(data: "Data") -> list[Picture]:
    """Pictures of the training data in their original units.

    >>> import chainrule.data
    >>> preview(chainrule.data.load("moons"))[0].title
    'moons: 2,000 of 3,200 training points'
    """
    return [kinds.of(data.schema).preview(data)]


def excerpt(data: "Data", characters: int = 400) -> str:
    """The first characters of a text.

    >>> import chainrule.data
    >>> print(excerpt(chainrule.data.load("shakespeare"), 44))
    FIRST WITCH.
    When shall we three meet again?
    """
    if not kinds.of(data.schema).is_corpus(data.schema):
        raise ArgumentError(
            f"{data.name} is {data.schema.kind} data with target {data.schema.target}; "
            "only a text by itself has an excerpt"
        )
    return tokenizers.of(data.schema).decode(data.train.arrays["tokens"][:characters])[:characters]


def some(data: "Data", count: int) -> Batch:
    """Training examples spread evenly over the classes, in original units."""
    total = len(data.train)
    strata = targets.of(data.schema).strata(data.train.arrays.get("y"))
    order = np.arange(total) if strata is None else np.argsort(strata, kind="stable")
    x, y = data.train.batch(order[np.linspace(0, total - 1, min(count, total)).astype(int)])[:2]
    if data.target_scaling is not None:
        y = data.target_scaling.inverse(y)
    return Batch(data.inverse(x), y)


def title_of(data: "Data", shown: int, what: str) -> str:
    """What a picture of training examples shows."""
    return f"{data.name}: {shown:,} of {len(data.train):,} training {what}"


def heads(schema: Schema, count: int) -> list[str]:
    """Names of the first features.

    >>> heads(Schema("table", (3,), columns=("height", "width")), 3)
    ['height', 'width', 'x3']
    """
    return [*schema.columns, *(f"x{i + 1}" for i in range(len(schema.columns), count))][:count]


def feature_cells(schema: Schema, x: np.ndarray, most: int) -> Cells:
    """The first features of each example as columns of a table."""
    flat = x.reshape(len(x), -1)[:, :most]
    return Cells(heads(schema, flat.shape[1]), [[float(value) for value in row] for row in flat])


def table(schema: Schema, drawn: np.ndarray, names: Sequence[str], title: str, caption: str) -> Table:
    """The first samples as rows of numbers, with what they were asked to be in front."""
    columns, rows = feature_cells(schema, drawn[:_ROWS], _COLUMNS)
    if names:
        columns = ["class", *columns]
        rows = [[name, *row] for name, row in zip(names, rows, strict=False)]
    return Table("samples", title, columns, rows, caption=caption)


__all__ = ["excerpt", "feature_cells", "heads", "preview", "some", "table", "title_of"]
