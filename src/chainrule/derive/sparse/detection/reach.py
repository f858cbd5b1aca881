"""Reach of an array: for every element the inputs it depends on, kept lazily.

An array's reach is a few *layers*. A layer sends each element to one row of a table of input sets, or to none (-1); an
element depends on the union of its rows over all layers. The table of the first array is the identity (row i holds
input i), so identity, slices, transposes, broadcasts, permutations and whole stencils are nothing but index arrays,
mostly views of one another, and only sums over many elements make a new table. Layers that agree wherever both say
something are merged on the way, which is what keeps a difference stencil at as many layers as it has points.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias, final

import numpy as np

from chainrule.derive.sparse.detection import tables
from chainrule.derive.sparse.detection.tables import InputSets

Shape: TypeAlias = tuple[int, ...]

_LAYERS = 16
"""More layers than this are united into one table."""
_LAZY = 8
"""Sums over at most so many elements stay layers."""
_SAMPLES = 8

NOTHING = np.int32(-1)


class Layer(NamedTuple):
    """Rows of one table, one per element."""

    rows: np.ndarray
    table: InputSets | None
    """`None` is the identity."""


@final
class Reach:
    """Which of `width` inputs every element of an array of some shape depends on; `None` stands for no inputs."""

    __slots__ = ("layers", "shape", "width")

    def __init__(self, width: int, shape: Shape, layers: Sequence[Layer]) -> None:
        self.width = width
        self.shape = shape
        self.layers = tuple(layers)

    def map(self, change: Callable[[np.ndarray], np.ndarray]) -> "Reach":
        """Rearrange: the same change of every index array."""
        layers = [Layer(change(layer.rows), layer.table) for layer in self.layers]
        return Reach(self.width, layers[0].rows.shape, layers)

    def spread(self, shape: Shape) -> "Reach":
        """Repeat along axes of length one or missing in front, as NumPy broadcasts."""
        return self if self.shape == shape else self.map(lambda index: np.broadcast_to(index, shape))

    def reshaped(self, shape: Shape) -> "Reach":
        """The same elements in another shape."""
        return self if self.shape == shape else self.map(lambda index: index.reshape(shape))

    def keep(self, mask: np.ndarray | None) -> "Reach | None":
        """Forget what elements depend on where the mask is false."""
        if mask is None or mask.all():
            return self
        if not mask.any():
            return None
        return self.map(lambda index: np.where(mask, index, NOTHING))

    def take(self, positions: np.ndarray) -> "Reach | None":
        """The elements at these flat positions, in their arrangement; position -1 depends on nothing."""
        if positions.size == 0:
            return None
        hole = positions < 0
        if not hole.any():
            return self.map(lambda index: index.reshape(-1)[positions])
        return self.map(lambda index: np.where(hole, NOTHING, index.reshape(-1)[positions]))

    def reduce(self, axes: Sequence[int]) -> "Reach | None":
        """The union over some axes, which disappear."""
        if not axes:
            return self
        kept = tuple(size for axis, size in enumerate(self.shape) if axis not in axes)
        if math.prod(self.shape) == 0:
            return None
        columns = [(_columns(layer.rows, axes, kept), layer.table) for layer in self.layers]
        if sum(len(column) for column, _ in columns) <= _LAZY:
            return _gathered(self.width, kept, ((one, table) for column, table in columns for one in column))
        flat = [(column.reshape(len(column), -1), table) for column, table in columns]
        return from_table(self.width, kept, _united(flat, self.width))

    def collect(self, targets: np.ndarray, shape: Shape) -> "Reach | None":
        """Send element e to position `targets[e]` of a new array (-1: drop); several may share a position."""
        targets = targets.reshape(-1)
        sources = np.flatnonzero(targets >= 0)
        return self.connect(targets[sources], sources, shape)

    def connect(self, outs: np.ndarray, ins: np.ndarray, shape: Shape) -> "Reach | None":
        """A new array whose element `outs[k]` depends on what our element `ins[k]` does, for all k."""
        size = math.prod(shape)
        if not len(outs) or not size:
            return None
        counts = np.bincount(outs, minlength=size)
        most = int(counts.max())
        if most * len(self.layers) <= _LAZY:
            order = np.argsort(outs, kind="stable")
            ordered = outs[order]
            rank = np.arange(len(ordered)) - (np.cumsum(counts) - counts)[ordered]
            taken = np.full((most, size), -1, dtype=np.int64)
            taken[rank, ordered] = ins[order]
            return union(shape, [self.take(one.reshape(shape)) for one in taken])
        parts = []
        for table, layers in self.by_table():
            rows = np.concatenate([layer.rows.reshape(-1)[ins] for layer in layers])
            owners = np.tile(outs, len(layers))
            found = tables.from_pairs(
                owners[rows >= 0], rows[rows >= 0], size, self.width if table is None else table.height
            )
            parts.append(found if table is None else found.through(table, self.width))
        return from_table(self.width, shape, tables.unite(parts, self.width))

    def by_table(self) -> "list[tuple[InputSets | None, list[Layer]]]":
        """Layers grouped by what they point into."""
        groups: dict[int, tuple[InputSets | None, list[Layer]]] = {}
        for layer in self.layers:
            groups.setdefault(id(layer.table), (layer.table, []))[1].append(layer)
        return list(groups.values())

    def table(self) -> InputSets:
        """One row per element, in flat order."""
        return _united([(layer.rows.reshape(1, -1), layer.table) for layer in self.layers], self.width)

    def through(self, inner: "Reach | None") -> "Reach | None":
        """Inputs that are themselves the elements of another array: what they depend on, in turn."""
        if inner is None:
            return None
        parts: list[Reach | None] = []
        rows: InputSets | None = None
        for index, table in self.layers:
            if table is None:
                parts.append(inner.take(index))
            else:
                rows = inner.table() if rows is None else rows
                followed = table.through(rows, inner.width)
                parts.append(Reach(inner.width, self.shape, [Layer(index, followed)]))
        return union(self.shape, parts)


def seed(width: int, shape: Shape, start: int) -> Reach | None:
    """An array whose elements are the inputs `start`, `start` + 1, ..."""
    size = math.prod(shape)
    if size == 0:
        return None
    return Reach(width, shape, [Layer(np.arange(start, start + size, dtype=np.int32).reshape(shape), None)])


def from_table(width: int, shape: Shape, table: InputSets) -> Reach | None:
    """An array whose elements own the rows of a table."""
    if not table.nnz:
        return None
    return Reach(width, shape, [Layer(np.arange(table.height, dtype=np.int32).reshape(shape), table)])


def union(shape: Shape, parts: Sequence[Reach | None]) -> Reach | None:
    """Element by element everything the parts depend on; parts are broadcast to the shape."""
    some = [part for part in parts if part is not None]
    if not some or math.prod(shape) == 0:
        return None
    if len(some) == 1:
        return some[0].spread(shape)
    width = some[0].width
    layers = (layer for part in some for layer in part.spread(shape).layers)
    return _gathered(width, shape, layers)


def blend(
    parts: Sequence[Reach | None], shapes: Sequence[Shape], arrange: Callable[[list[np.ndarray]], np.ndarray]
) -> Reach | None:
    """One array made of elements of several: `arrange` does with index arrays what is done with the arrays."""
    some = [part for part in parts if part is not None]
    if not some:
        return None
    absent = [np.broadcast_to(NOTHING, shape) for shape in shapes]
    slots: dict[int, tuple[InputSets | None, list[list[np.ndarray]]]] = {}
    for position, part in enumerate(parts):
        for table, layers in part.by_table() if part is not None else ():
            rows = slots.setdefault(id(table), (table, []))[1]
            for number, layer in enumerate(layers):
                if number == len(rows):
                    rows.append(list(absent))
                rows[number][position] = layer.rows
    made = [Layer(arrange(row), table) for table, rows in slots.values() for row in rows]
    if made[0].rows.size == 0:
        return None
    return _settled(some[0].width, made[0].rows.shape, made)


def _gathered(width: int, shape: Shape, layers: Iterable[tuple[np.ndarray, InputSets | None]]) -> Reach:
    found: list[Layer] = []
    for index, table in layers:
        _absorb(found, index, table)
    return _settled(width, shape, found)


def _settled(width: int, shape: Shape, layers: list[Layer]) -> Reach:
    made = Reach(width, shape, layers)
    if len(layers) <= _LAYERS:
        return made
    table = made.table()
    return Reach(width, shape, [Layer(np.arange(table.height, dtype=np.int32).reshape(shape), table)])


def _absorb(found: list[Layer], index: np.ndarray, table: InputSets | None) -> None:
    """Add a layer, merged with an earlier one where nowhere both say something different."""
    probe = _probe(index.shape)
    a: np.ndarray | None = None
    for number, (other, owner) in enumerate(found):
        if owner is not table:
            continue
        if other is index:
            return
        a = index[probe] if a is None else a
        b = other[probe]
        if ((a != b) & (a >= 0) & (b >= 0)).any():
            continue
        same = index == other
        if same.all():
            return
        if (same | (index < 0) | (other < 0)).all():
            found[number] = Layer(np.maximum(index, other), table)
            return
    found.append(Layer(index, table))


@functools.lru_cache(maxsize=256)
def _probe(shape: Shape) -> tuple[np.ndarray, ...]:
    """A few positions at which different layers most likely differ."""
    if not shape:
        return ()
    size = math.prod(shape)
    flat = np.unique(np.linspace(0, size - 1, _SAMPLES).astype(np.int64))
    return np.unravel_index(flat, shape)


def _columns(index: np.ndarray, axes: Sequence[int], kept: Shape) -> np.ndarray:
    """The axes in front, flattened to one; along repeated (stride 0) axes one element stands for all."""
    once = tuple(
        slice(0, 1) if axis in axes and stride == 0 else slice(None)
        for axis, stride in enumerate(index.strides)
    )
    moved = np.moveaxis(index[once], axes, range(len(axes)))
    return moved.reshape((-1, *kept))


def _united(columns: Sequence[tuple[np.ndarray, InputSets | None]], width: int) -> InputSets:
    """Rows given as (count, height) arrays of rows of several tables."""
    groups: dict[int, tuple[InputSets | None, list[np.ndarray]]] = {}
    for column, table in columns:
        groups.setdefault(id(table), (table, []))[1].append(column)
    joined = [
        (np.concatenate(members) if len(members) > 1 else members[0], t) for t, members in groups.values()
    ]
    if len(joined) > 1:
        joined = _without_covered(joined, width)
    parts = []
    for rows, table in joined:
        found = tables.from_padded(rows, width if table is None else table.height)
        parts.append(found if table is None else found.through(table, width))
    return tables.unite(parts, width)


def _without_covered(
    groups: list[tuple[np.ndarray, InputSets | None]], width: int
) -> list[tuple[np.ndarray, InputSets | None]]:
    """Where one row holds every input already, nothing else needs to be said."""
    covered, by = None, None
    for rows, table in groups:
        full = None if table is None else table.lengths == width
        if full is not None and full.any():
            covered = ((rows >= 0) & full[rows]).any(axis=0)
            by = table
            break
    if covered is None or not covered.any():
        return groups
    kept = [(rows if table is by else np.where(covered, NOTHING, rows), table) for rows, table in groups]
    return [(rows, table) for rows, table in kept if table is by or (rows >= 0).any()]


__all__ = ["NOTHING", "Layer", "Reach", "Shape", "blend", "from_table", "seed", "union"]
