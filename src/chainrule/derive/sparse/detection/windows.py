"""Index windows of gather, scatter and dynamic slices, as flat positions.

All of them move windows of one size between an array and a list of windows; they differ only in how the indices are
written down. Axes along which the position of a window is not known are *blurred*: positions are then those in an array
that has length one there.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.lax import GatherScatterMode


class IndexWindows(NamedTuple):
    """What the parameters of an equation say, in plain integers."""

    shape: tuple[int, ...]
    """Of the array the windows lie in."""
    sizes: tuple[int, ...]
    """Of a window, along every axis of that array."""
    batch: tuple[int, ...]
    """Shape of the list of windows."""
    offset_axes: tuple[int, ...]
    """Axes of the windows in the array of all windows."""
    hidden: tuple[int, ...]
    """Axes of length one that windows do not show."""
    indexed: tuple[int, ...]
    """Axes for which there is an index, in the order of the indices."""
    paired: tuple[tuple[int, int], ...]
    """Axes whose index is the position along an axis of the list."""
    clip: bool
    """Windows that stick out are moved inside; otherwise they are left out."""

    @property
    def loose(self) -> tuple[int, ...]:
        """Axes along which a window can lie in more than one position."""
        return tuple(axis for axis in self.indexed if self.sizes[axis] < self.shape[axis])


def of(equation: Any) -> IndexWindows:
    """The windows of a gather, scatter or dynamic (update) slice."""
    params = equation.params
    shape = tuple(equation.invars[0].aval.shape)
    every = tuple(range(len(shape)))
    name = equation.primitive.name
    if name in ("dynamic_slice", "dynamic_update_slice"):
        sizes = params["slice_sizes"] if name == "dynamic_slice" else equation.invars[1].aval.shape
        return IndexWindows(shape, _plain(sizes), (), every, (), every, (), clip=True)
    numbers = params["dimension_numbers"]
    if name == "gather":
        offsets, hidden, indexed = numbers.offset_dims, numbers.collapsed_slice_dims, numbers.start_index_map
        pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    else:
        offsets, hidden = numbers.update_window_dims, numbers.inserted_window_dims
        indexed = numbers.scatter_dims_to_operand_dims
        pairs = zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    hidden = (*_plain(hidden), *_plain(numbers.operand_batching_dims))
    if name == "gather":
        sizes = params["slice_sizes"]
    else:
        shown = iter(equation.invars[2].aval.shape[axis] for axis in offsets)
        sizes = [1 if axis in hidden else next(shown) for axis in every]
    return IndexWindows(
        shape=shape,
        sizes=_plain(sizes),
        batch=tuple(equation.invars[1].aval.shape[:-1]),
        offset_axes=_plain(offsets),
        hidden=hidden,
        indexed=_plain(indexed),
        paired=tuple((int(a), int(b)) for a, b in pairs),
        clip=GatherScatterMode.from_any(params["mode"]) != GatherScatterMode.FILL_OR_DROP,
    )


def _plain(numbers: Iterable[Any]) -> tuple[int, ...]:
    """Under `vmap` some of JAX's parameters are NumPy integers."""
    return tuple(int(number) for number in numbers)


def starts(windows: IndexWindows, indices: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """For every indexed axis the array of indices, from an equation's index operand or operands."""
    if len(indices) == len(windows.indexed) and not windows.batch and np.ndim(indices[0]) == 0:
        return dict(zip(windows.indexed, indices, strict=True))
    return {axis: indices[0][..., number] for number, axis in enumerate(windows.indexed)}


def element_positions(
    windows: IndexWindows, begins: Mapping[int, np.ndarray], blurred: Collection[int] = ()
) -> np.ndarray:
    """The position of every element of every window; -1 for windows that are left out.

    `begins` has the index along each indexed axis that is not blurred.
    """
    ndim = len(windows.batch) + len(windows.offset_axes)
    batch_axes = [axis for axis in range(ndim) if axis not in windows.offset_axes]
    shape = [1 if axis in blurred else size for axis, size in enumerate(windows.shape)]

    def lay(values: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        full = [1] * ndim
        for axis, size in zip(axes, np.shape(values), strict=True):
            full[axis] = size
        return np.reshape(values, full)

    positions: Any = np.zeros((1,) * ndim, dtype=np.int64)
    inside: Any = True
    shown = iter(windows.offset_axes)
    paired = dict(windows.paired)
    for axis, size in enumerate(shape):
        stride = math.prod(shape[axis + 1 :])
        offset = None if axis in windows.hidden else next(shown)
        if axis in blurred:
            continue
        if axis in begins:
            first = np.asarray(begins[axis], dtype=np.int64)
            last = size - windows.sizes[axis]
            if windows.clip:
                first = np.clip(first, 0, max(last, 0))
            else:
                inside = inside & lay((first >= 0) & (first <= last), batch_axes)
            positions = positions + lay(first, batch_axes) * stride
        if axis in paired:
            along = batch_axes[paired[axis]]
            positions = positions + lay(np.arange(size), [along]) * stride
        if offset is not None:
            positions = positions + lay(np.arange(windows.sizes[axis]), [offset]) * stride
    full = [0] * ndim
    for axis, size in zip(batch_axes, windows.batch, strict=True):
        full[axis] = size
    visible = [size for axis, size in enumerate(windows.sizes) if axis not in windows.hidden]
    for axis, size in zip(windows.offset_axes, visible, strict=True):
        full[axis] = size
    return np.broadcast_to(np.where(inside, positions, -1), full)


def positions(equation: Any, indices: Sequence[np.ndarray]) -> np.ndarray:
    """Positions of all windows of an equation whose indices are known."""
    windows = of(equation)
    return element_positions(windows, starts(windows, indices))


def stays_inside(equation: Any) -> bool:
    """Whether a gather or dynamic slice only ever returns elements of its operand."""
    return of(equation).clip


def replaces(equation: Any) -> bool:
    """Whether what is written takes the place of what was there; a sum, product or function of it does not."""
    name = equation.primitive.name
    # `x.at[i].apply(f)` is a scatter too, of nothing: its function stands in the parameters.
    return name == "dynamic_update_slice" or (name == "scatter" and equation.params["update_jaxpr"] is None)


__all__ = ["IndexWindows", "element_positions", "of", "positions", "replaces", "starts", "stays_inside"]
