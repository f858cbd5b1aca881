"""Kernel matrices of many inputs, tile by tile: within a budget of memory, over devices, resumed from a folder.

Every tile has the same shape, so one program computes them all. Where rows and columns are the same inputs, tiles below
the diagonal are mirrored and not computed. With a folder every finished tile is a file, and what is there is not
computed again.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.kernels.infinite.layer import FixedLayer
from chainrule.kernels.infinite.network import InfiniteNetwork, Kernels
from chainrule.kernels.infinite.tile_folder import TileFolder
from chainrule.kernels.precision import widened

BUDGET = 2**29
"""Bytes that the computation of one tile may take, unless told otherwise."""
_LIVE = 8
"""Arrays of the size of the kernel that are alive at once while a tile is computed, about."""
_PARTS = 8
"""Tiles to a side of a symmetric matrix, at least."""
_SMALL = 256
"""Rows below which more tiles would save less than it takes to begin them."""


def kernel_matrices(
    network: InfiniteNetwork,
    x: Any,
    y: Any = None,
    *,
    ntk: bool = True,
    standard_width: int | None = None,
    memory: int = BUDGET,
    block: int | None = None,
    devices: Sequence[jax.Device] | None = None,
    folder: str | Path | None = None,
) -> Kernels:
    """Both kernels (`ntk=False`: the first, twice) of all rows of x and y, in double precision, as NumPy arrays.

    `memory` bounds what a tile takes; `block` says instead how many rows and columns it has. `devices` share the rows
    of every tile. `folder` keeps finished tiles, so that an interrupted computation goes on where it was.

    >>> from chainrule.kernels.infinite import Dense
    >>> kernel_matrices(Dense(1), np.eye(3), block=2).ntk.round(3).tolist()
    [[2.0, 0.318, 0.318], [0.318, 2.0, 0.318], [0.318, 0.318, 2.0]]
    """
    rows = _exact("x", x)
    columns = rows if y is None else _exact("y", y)
    if rows.shape[1:] != columns.shape[1:]:
        raise ArgumentError(
            f"kernel_matrices: points of x have the shape {rows.shape[1:]}, those of y {columns.shape[1:]}"
        )
    if block is None:
        most = tile_size(network, rows.shape[1:], whole("kernel_matrices", "memory", memory))
        block = _even(max(len(rows), len(columns)), most, y is None, len(devices or ()) or 1)
    plan = _Plan(len(rows), len(columns), whole("kernel_matrices", "block", block), y is None)
    with jax.enable_x64(True):
        computed = _Tiles(widened(network), rows, columns, plan, ntk, standard_width, devices)
        if folder is None:
            return plan.assembled(computed.compute, 1 + ntk)
        kept = TileFolder.open(
            Path(folder), network, rows, columns, plan.label(ntk, standard_width), computed.probe
        )
        return plan.assembled(lambda i, j: kept.tile(i, j, computed.compute), 1 + ntk)


def tile_size(network: InfiniteNetwork, shape: tuple[int, ...], memory: int) -> int:
    """How many rows and columns of inputs of this shape a tile may have, by what their positions take."""
    layers = list(network.layers)
    while layers and isinstance(first := layers[0], FixedLayer):
        shape, layers = first.output_shape(shape), layers[1:]
    positions = math.prod(shape[:-1])
    held = positions**2 if network.needs_pairs(False) else positions
    return max(1, math.isqrt(max(1, memory // (8 * _LIVE * held))))


def _even(count: int, most: int, symmetric: bool, devices: int) -> int:
    """The size of tiles of which as many as are needed have no more than `most` rows, and all about as many.

    Of a symmetric matrix k by k tiles are `(k + 1) / 2k` of all pairs, so there are some of them.

    >>> _even(10_000, 8192, False, 1), _even(10_000, 8192, True, 1), _even(100, 8192, True, 4)
    (5000, 1250, 100)
    """
    if symmetric:
        most = min(most, max(_SMALL, -(-count // _PARTS)))
    size = -(-count // -(-count // most))
    return -(-size // devices) * devices


def _exact(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values, np.float64)
    if array.ndim < 2 or not len(array):
        raise ArgumentError(
            f"kernel_matrices({name}): points lie along the first axis, not in shape {array.shape}"
        )
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise ArgumentError(
            f"kernel_matrices({name}): {name}[{', '.join(map(str, bad[0]))}] is {array[tuple(bad[0])]:g}; "
            "inputs must be finite"
        )
    return array


@final
class _Plan:
    """Which tiles there are: equal ones, the last of which begin early enough to be whole."""

    def __init__(self, rows: int, columns: int, block: int, symmetric: bool) -> None:
        self.shape = (rows, columns)
        self.sizes = (min(block, rows), min(block, columns))
        self.symmetric = symmetric
        self.starts = tuple(
            [min(n, count - size) for n in range(0, count, size)]
            for count, size in zip(self.shape, self.sizes, strict=True)
        )

    def label(self, ntk: bool, standard: int | None) -> dict[str, Any]:
        """What a folder of tiles must agree on."""
        return {
            "rows": self.shape[0],
            "columns": self.shape[1],
            "tile": list(self.sizes),
            "symmetric": self.symmetric,
            "ntk": ntk,
            "standard_width": standard,
        }

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for i in range(len(self.starts[0])):
            for j in range(i if self.symmetric else 0, len(self.starts[1])):
                yield i, j

    def assembled(self, tile: Any, kinds: int) -> Kernels:
        """The matrices, from a function that gives a tile by its row and column."""
        found = np.empty((kinds, *self.shape))
        height, width = self.sizes
        for i, j in self:
            part = tile(i, j)
            if self.symmetric and i == j:  # up to rounding it is
                part = (part + part.transpose(0, 2, 1)) / 2
            top, left = self.starts[0][i], self.starts[1][j]
            found[:, top : top + height, left : left + width] = part
            if self.symmetric and i != j:
                found[:, left : left + width, top : top + height] = part.transpose(0, 2, 1)
        return Kernels(found[0], found[-1])


@final
class _Tiles:
    """One compiled program for every tile."""

    def __init__(
        self,
        network: InfiniteNetwork,
        x: np.ndarray,
        y: np.ndarray,
        plan: _Plan,
        ntk: bool,
        standard: int | None,
        devices: Sequence[jax.Device] | None,
    ) -> None:
        self.network, self.x, self.y, self.plan = network, x, y, plan
        self.ntk, self.standard = ntk, standard
        self.spread, self.whole = _shardings(devices)
        if devices and plan.sizes[0] % len(devices):
            raise ArgumentError(
                f"kernel_matrices: tiles of {plan.sizes[0]} rows do not divide over {len(devices)} devices",
                remedy=f"use block={max(1, plan.sizes[0] // len(devices)) * len(devices)}, "
                "and as many inputs at least",
            )

    def compute(self, i: int, j: int) -> np.ndarray:
        """Tile (i, j): one matrix for each kernel."""
        top, left = self.plan.starts[0][i], self.plan.starts[1][j]
        rows, columns = (
            start + np.arange(size) for start, size in zip((top, left), self.plan.sizes, strict=True)
        )
        same = (rows[:, None] == columns[None]) & self.plan.symmetric
        placed = jax.device_put((self.x[rows], same), self.spread)
        column = jax.device_put(self.y[columns], self.whole)
        return np.asarray(_tile(self.network, placed[0], column, placed[1], self.ntk, self.standard))

    def probe(self) -> np.ndarray:
        """The kernels of a few pairs, by which a folder of tiles is recognised."""
        few = slice(0, min(4, len(self.y)))
        same = np.zeros((1, len(self.y[few])), bool)
        return np.asarray(_tile(self.network, self.x[:1], self.y[few], same, self.ntk, self.standard))


def _shardings(devices: Sequence[jax.Device] | None) -> tuple[Any, Any]:
    if not devices:
        return None, None
    mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
    spec = jax.sharding.PartitionSpec
    return jax.sharding.NamedSharding(mesh, spec("rows")), jax.sharding.NamedSharding(mesh, spec())


@eqx.filter_jit
def _tile(network: InfiniteNetwork, x: Any, y: Any, same: Any, ntk: bool, standard: int | None) -> Array:
    state = network.tile(jnp.asarray(x), jnp.asarray(y), jnp.asarray(same), ntk=ntk, standard=standard)
    return state.nngp[None] if state.ntk is None else jnp.stack([state.nngp, state.ntk])


__all__ = ["BUDGET", "kernel_matrices", "tile_size"]
