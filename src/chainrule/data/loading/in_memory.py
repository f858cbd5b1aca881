"""Data from arrays that a program holds already: checked, split and scaled as those of a file are.

What an array means follows from its shape, as in a `.npz` file. A run on such data keeps their hash, not their numbers:
it is opened again with `Run.open(path, data=...)`.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.data.loading.copies import ANYWHERE
from chainrule.data.loading.load import load_from
from chainrule.data.loading.scan import SourceReader
from chainrule.data.loading.sources import DataSource
from chainrule.data.readers import arrays

_NUMBERS, _WORDS = "biuf", "U"
_OPTIONS = {name: option for name, option in arrays.reader.options.items() if not option.guard}


def from_arrays(
    x: ArrayLike,
    y: ArrayLike | Sequence[str] | None = None,
    *,
    weights: ArrayLike | None = None,
    name: str = "arrays",
    seed: int = 0,
    split: Sequence[float] | None = None,
    bad: str = "error",
    copies: str = ANYWHERE,
    **options: Any,
) -> Data:
    """Data from examples `x` along the first axis and, where there are any, their targets `y`; both are copied.

    (n, d) is a table, or points if d is 2; (n, h, w) and (n, h, w, c) are images, bytes or between 0 and 1; (n, t, d)
    with `kind="sequence"` are sequences. Words and a few whole numbers are classes, other numbers values; a generative
    model can also be asked for rows of vectors (n, t, d), padded with NaN, and images (n, h, w, c). `weights` say
    what each example counts for in the loss of a model that predicts `y`; only their ratios matter. `seed`, `split`,
    `bad`, `copies` and the rest (`kind`, `levels`, `target_as`, `series`, `bits`, `binarize`) are those of `load`.

    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> data = from_arrays(x, x[:, 0] > 0, name="signs")
    >>> data.describe(), data.schema.classes
    ('100 rows of 3 columns, 2 classes, train 80 % / val 10 % / test 10 %', ('0', '1'))
    """
    examples = _copied("x", x, _NUMBERS)
    targets = None if y is None else _copied("y", y, _NUMBERS + _WORDS)
    counts_for = None if weights is None else _copied("weights", weights, _NUMBERS)
    if counts_for is not None and counts_for.ndim != 1:
        raise ArgumentError(
            f"from_arrays(weights=...): shape {counts_for.shape}", remedy="give one number for each example"
        )
    piece = arrays.ArrayPart("", name, examples, targets, counts_for)
    reader = SourceReader(
        "array", "examples", _OPTIONS, lambda request: arrays.examine([piece], name, request.options)
    )
    source = DataSource(name, name, "", reader, Path(name))
    made = load_from(source, seed=seed, split=split, bad=bad, copies=copies, options=options)
    return replace(made, source={})


def _copied(argument: str, given: Any, kinds: str) -> np.ndarray:
    array = np.array(given)
    if not array.ndim or not array.size or array.dtype.kind not in kinds:
        raise ArgumentError(
            f"from_arrays({argument}=...): shape {array.shape}, type {array.dtype}",
            remedy="give numbers, or words as targets, examples along the first axis; array.astype(float) converts",
        )
    return array


__all__ = ["from_arrays"]
