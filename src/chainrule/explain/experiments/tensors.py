"""Tensors: an einsum explained index by index, unfoldings, and the rank of a tensor of one's own."""

import math
from pathlib import Path
from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Heatmap, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn import tensors

_SHOWN = 40
"""Columns of an unfolding that can be drawn."""


@final
class TensorsSettings(Settings):
    """An einsum, and a tensor."""

    einsum: str = Field("ij,jk->ik", description="subscripts; ij,jk->ik is the product of matrices")
    shapes: tuple[str, ...] = Field(
        ("2x3", "3x4"), min_length=1, description="shapes of its tensors: 2x3,3x4"
    )
    shape: str = Field("2x2x2", description="shape of the tensor whose rank is asked for")
    entries: tuple[float, ...] = Field(
        (0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0), description="its entries, the last axis first"
    )
    file: str = Field("", description="or a .npy file with the tensor")
    seed: int = Field(
        0, ge=0, description="of the tensors in the einsum, and of the search for a decomposition"
    )


def run(settings: TensorsSettings, listener: Listener) -> Outcome:
    """Explain the einsum on random tensors; then unfold the tensor and bound its rank."""
    del listener
    random = np.random.default_rng(settings.seed)
    shapes = [_shape(text) for text in settings.shapes]
    result = np.asarray(tensors.einsum(settings.einsum, *(random.normal(size=shape) for shape in shapes)))
    rows = _indices(settings.einsum, shapes)
    tensor = _tensor(settings)
    found = tensors.rank(tensor, seed=settings.seed)
    below = tensors.unfolding_ranks(tensor) if tensor.ndim > 1 else (1,)
    rank = f"{found.low}" if found.is_exact else f"between {found.low} and {found.high}"
    pure = tensors.is_pure(tensor) if tensor.any() else False
    unfoldings = [
        Heatmap(
            f"unfolding-{axis}",
            f"Unfolding along axis {axis}, rank {below[axis]}",
            "the other axes",
            f"axis {axis}",
            np.asarray(tensors.unfold(tensor, axis)),
            numbers=tensor.size <= 64,
            diverging=True,
        )
        for axis in range(tensor.ndim if tensor.ndim > 1 else 0)
        if tensor.size // tensor.shape[axis] <= _SHOWN
    ]
    summed = [str(row[0]) for row in rows if row[2] == "summed"]
    return Outcome(
        [
            f'einsum "{settings.einsum}": shapes {", ".join(settings.shapes)} give shape {result.shape}; '
            + (f"summed over {', '.join(summed)}." if summed else "nothing is summed."),
            f"The tensor has order {tensor.ndim} (its number of axes), shape {tensor.shape} and rank {rank}: "
            f"{found.why}.",
            f"Its unfoldings have ranks {', '.join(map(str, below))}; "
            + ("all are one, so it is a product of vectors." if pure else "it is no product of vectors."),
        ],
        unfoldings,
        Table("tensors-einsum", "Indices of the einsum", ["index", "size", "what happens", "axes"], rows),
        {
            **{"result_shape": list(result.shape), "summed": summed, "order": tensor.ndim},
            **{"rank_low": found.low, "rank_high": found.high, "unfolding_ranks": list(below), "pure": pure},
        },
    )


def _indices(subscripts: str, shapes: list[tuple[int, ...]]) -> list[list[str | float | int]]:
    """What happens to every index: with an arrow the list after it decides, without one repeated indices are summed."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    where: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for number, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        for axis, letter in enumerate(term):
            where.setdefault(letter, []).append(f"axis {axis} of tensor {number}")
            sizes[letter] = shape[axis]
    kept = output if arrow else "".join(sorted(letter for letter, axes in where.items() if len(axes) == 1))
    return [
        [letter, sizes[letter], "kept" if letter in kept else "summed", ", ".join(axes)]
        for letter, axes in where.items()
    ]


def _tensor(settings: TensorsSettings) -> np.ndarray:
    if settings.file:
        try:
            found = np.load(Path(settings.file).expanduser(), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ArgumentError(
                f"tensors(file={settings.file}): cannot be read ({str(error).splitlines()[0]})"
            ) from None
        if (
            not isinstance(found, np.ndarray)
            or found.dtype.kind not in "biuf"
            or not found.size
            or not found.ndim
        ):
            raise ArgumentError(
                f"tensors(file={settings.file}): needs one array of numbers with an axis or more"
            )
        if found.size > 4096:
            raise ArgumentError(f"tensors(file={settings.file}): {found.size:,} entries are more than 4,096")
        return found.astype(np.float64)
    shape = _shape(settings.shape)
    if math.prod(shape) != len(settings.entries):
        raise ArgumentError(
            f"tensors(shape={settings.shape}): takes {math.prod(shape)} entries, not {len(settings.entries)}",
            remedy="entries=1,0,0,1 in the order of the axes, the last one first",
        )
    return np.asarray(settings.entries).reshape(shape)


def _shape(text: str) -> tuple[int, ...]:
    parts = text.lower().split("x")
    if not all(part.isdecimal() and 0 < int(part) <= 64 for part in parts) or len(parts) > 6:
        raise ArgumentError(
            f"shape {text!r}: sizes from 1 to 64, at most six", remedy="write for example 2x3x4"
        )
    return tuple(map(int, parts))


experiment = Experiment(
    "Tensors: an einsum explained index by index, unfoldings, and the rank of a tensor of your own.",
    TensorsSettings,
    run,
    toy={},
    reference="Kolda and Bader, Tensor decompositions and applications, SIAM Review 51, 2009",
)

__all__ = ["TensorsSettings", "experiment", "run"]
