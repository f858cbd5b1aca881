"""New examples in arrays, of a program or of a NumPy file, in the units and the shape of the training examples."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Num

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.inputs.protocol import Given, InputChunk, Inputs, Preparation, chunk
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import ReadRequest
from chainrule.data.readers.arrays import read_parts, reader
from chainrule.data.schema import Schema

Convert = Callable[[np.ndarray], np.ndarray]
"""From the units of an array to those of the training examples."""


class ArrayPiece(NamedTuple):
    """An array of examples, and what stands beside them."""

    called: str
    x: np.ndarray
    y: np.ndarray | None


def _as_it_is(x: np.ndarray) -> Convert:
    del x
    return lambda part: part


def inputs(
    given: Given, prepared: Preparation, unit: str, converter: Callable[[np.ndarray], Convert] = _as_it_is
) -> Inputs:
    """Examples along the first axis of an array, or of those in a NumPy file; a single one may lack that axis.

    `converter` looks at a whole array and says what brings parts of it to the units of the training examples. Examples
    are counted from 0, as NumPy does.
    """
    path = Path(given).expanduser() if isinstance(given, str | Path) else None
    found = [ArrayPiece("", as_array(given), None)] if path is None else read_file(path)
    shaped = [one._replace(x=examples(one.x, prepared)) for one in found]

    def chunks(size: int) -> Iterator[InputChunk]:
        for one in shaped:
            convert = converter(one.x)
            for first in range(0, len(one.x), size):
                part = slice(first, first + size)
                yield _chunk(one, part, convert(np.asarray(one.x[part])), prepared)

    return Inputs(unit, sum(len(one.x) for one in shaped), chunks)


def _chunk(one: ArrayPiece, part: slice, x: np.ndarray, prepared: Preparation) -> InputChunk:
    numbers = range(part.start, part.start + len(x))
    names = [f"{one.called} {number}".strip() for number in numbers]
    with np.errstate(over="ignore"):
        finite = np.asarray(np.isfinite(x.astype(np.float32).reshape(len(x), -1)).all(axis=1))
    scaled = prepared.examples(np.where(finite.reshape(-1, *[1] * (x.ndim - 1)), x, 0))
    read = [
        row if good else Problem("NaN or infinite", f"row {name}")
        for row, good, name in zip(scaled, finite, names, strict=True)
    ]
    return chunk(prepared, names, read, None if one.y is None else list(one.y[part]))


def as_array(given: Given) -> Num[np.ndarray, "..."]:
    """An array of numbers from what a program hands over."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.array(None)
    if array.dtype.kind not in "biuf" or not array.size:
        raise ArgumentError(
            f"predict: {type(given).__name__} is no input for this run",
            remedy="give a path, an array of numbers, a data frame, a text or an image, as the run was trained on",
        )
    return array


def examples(x: np.ndarray, prepared: Preparation) -> np.ndarray:
    """An array with the examples along the first axis and their shape after it.

    >>> from chainrule.data.scaling import Scaling
    >>> digits = Preparation(Schema("image", (8, 8, 1)), Scaling())
    >>> examples(np.zeros((8, 8)), digits).shape, examples(np.zeros((5, 8, 8)), digits).shape
    ((1, 8, 8, 1), (5, 8, 8, 1))
    """
    shape = prepared.schema.shape
    for found in (x, x[..., None], x[None], x[None, ..., None]):
        if found.shape[1:] == shape:
            return found
    trained = "×".join(map(str, shape))
    raise ArgumentError(
        f"an array of shape {'×'.join(map(str, x.shape)) or 'a single number'}: the run was trained on examples of "
        f"{trained}",
        remedy=f"give (n, {', '.join(map(str, shape))}){_columns(prepared.schema)}",
    )


def _columns(schema: Schema) -> str:
    names = schema.columns
    return f": {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}" if names else ""


def read_file(path: Path) -> list[ArrayPiece]:
    """The arrays of a `.npy` or `.npz` file."""
    if not path.is_file():
        raise DataError(f"{path} does not exist")
    options = {name: option.default for name, option in reader.options.items()}
    try:
        found, _, _ = read_parts(ReadRequest(path, 0, options))
    except Refused as refused:
        problem = refused.problem
        raise DataError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None
    return [ArrayPiece(part.part, part.x, part.y) for part in found]


__all__ = ["ArrayPiece", "Convert", "as_array", "examples", "inputs", "read_file"]
