"""A folder of finished tiles of a kernel matrix: plain `.npy` files that appear whole or not at all.

A description says what the tiles belong to: the inputs by their hash, the network by its settings and by its kernels
of a few pairs, the sizes. Tiles of anything else are refused. Nothing in the folder is ever executed.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from chainrule.core.errors import ArgumentError, DiskError
from chainrule.kernels.infinite.layer import InfiniteLayer

_FORMAT = "kernel-tiles 1"
_DESCRIPTION = "tiles.json"
_LARGEST = 1 << 20
"""Bytes of a description that are read at most."""


@final
class TileFolder:
    """The tiles of one kernel matrix."""

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        self.folder, self.shape = folder, shape

    @staticmethod
    def open(
        folder: Path,
        network: InfiniteLayer,
        x: np.ndarray,
        y: np.ndarray,
        label: Mapping[str, Any],
        probe: Callable[[], np.ndarray],
    ) -> "TileFolder":
        """The folder, made where there is none; one of other inputs, sizes or another network is refused."""
        about = {"format": _FORMAT, **label, "inputs": _hash(x, y), "network": _described(network)}
        values = probe()
        path = folder / _DESCRIPTION
        if path.is_file():
            _compare(folder, _read(path), about, values)
        else:
            _make(folder)
            written = json.dumps({**about, "probe": values.ravel().tolist()}, indent=1)
            _write(path, lambda file: file.write(written.encode()))
        return TileFolder(folder, (1 + bool(label["ntk"]), *label["tile"]))

    def tile(self, i: int, j: int, compute: Callable[[int, int], np.ndarray]) -> np.ndarray:
        """Tile (i, j): read where it is finished, else computed and kept."""
        path = self.folder / f"tile-{i:05d}-{j:05d}.npy"
        if path.is_file():
            return self._finished(path)
        found = compute(i, j)
        _write(path, lambda file: np.save(file, found, allow_pickle=False))
        return found

    def _finished(self, path: Path) -> np.ndarray:
        try:
            found = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise _damaged(path) from error
        if found.shape != self.shape or found.dtype != np.float64 or not np.isfinite(found).all():
            raise _damaged(path)
        return np.asarray(found)


def _damaged(path: Path) -> ArgumentError:
    return ArgumentError(f"{path}: not a finished tile", remedy="delete this file; it is computed again")


def _hash(x: np.ndarray, y: np.ndarray) -> str:
    found = hashlib.sha256()
    for array in (x, y):
        found.update(repr(array.shape).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _described(network: InfiniteLayer) -> str:
    """Structure and numbers of a network; functions in it go by their names."""
    numbers = [
        np.asarray(
            jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        )
        for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_array))
    ]
    text = eqx.tree_pformat(network, short_arrays=True) + repr([number.tolist() for number in numbers])
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError("too large")
        found = json.loads(path.read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("no description")
        np.asarray(found["probe"], np.float64)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError(
            f"{path}: not the description of kernel tiles", remedy="use another folder, or an empty one"
        ) from error
    return found


def _compare(folder: Path, found: Mapping[str, Any], about: Mapping[str, Any], values: np.ndarray) -> None:
    differ = [name for name, value in about.items() if found.get(name) != value]
    there = np.asarray(found["probe"], np.float64)
    if there.shape != (values.size,) or not np.allclose(there, values.ravel(), rtol=1e-6, atol=1e-12):
        differ.append("kernel of the first points")
    if differ:
        raise ArgumentError(
            f"{folder} holds the tiles of something else; what differs: {', '.join(dict.fromkeys(differ))}",
            remedy="use another folder, or delete this one to begin anew",
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(f"{folder} could not be made: {error.strerror or error}") from error


def _write(path: Path, write: Callable[[Any], Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise DiskError(f"{path} could not be written: {error.strerror or error}") from error


__all__ = ["TileFolder"]
