"""The NumPy array format, read without running anything and without believing declared lengths.

The format's header is the text of a Python dictionary. It is read here by pattern instead of being evaluated, and only
arrays of plain numbers and words are accepted: reading an array of Python objects would mean running code.
"""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from chainrule.core.errors import ArgumentError
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused

MAP_BYTES = 2**28
"""An array file larger than this stays on disk as a memory map."""

_MAGIC = b"\x93NUMPY"
_LONGEST_HEADER = 2**16
_MOST = 16
"""Arrays in a file that is an argument."""


class _Header(NamedTuple):
    dtype: np.dtype
    fortran: bool
    shape: tuple[int, ...]
    offset: int


def read(path: Path, where: str, max_bytes: int, max_ratio: int) -> Shaped[np.ndarray, "..."]:
    """The array in a `.npy` file, as a memory map if it is large and stored in the order of this machine."""
    size = path.stat().st_size
    if size > MAP_BYTES:
        with path.open("rb") as file:
            header = _header(file.read(_LONGEST_HEADER), where)
        if header.dtype.isnative and not header.fortran:
            _check_length(header, size, where)
            return np.memmap(path, header.dtype, "r", header.offset, header.shape)
    return parse(bounded.read(path, where, max_bytes, max_ratio), where)


def parse(data: bytes, where: str) -> Shaped[np.ndarray, "..."]:
    """The array in the bytes of a `.npy` file."""
    header = _header(data, where)
    _check_length(header, len(data), where)
    flat = np.frombuffer(data, header.dtype, offset=header.offset)
    array = flat.reshape(header.shape, order="F" if header.fortran else "C")
    return array.astype(header.dtype.newbyteorder("="), order="C", copy=False)


def named(path: Path, names: Sequence[str]) -> dict[str, Shaped[np.ndarray, "..."]]:
    """Arrays of an NPZ file by their names, for a user who gives them as an argument."""
    limits = (MAX_BYTES.default, MAX_RATIO.default, _MOST)
    try:
        members = dict(bounded.members(path.expanduser(), str(path), *limits))
        missing = [name for name in names if f"{name}.npy" not in members]
        if missing:
            raise ArgumentError(f"{path} has no array {missing[0]!r}", remedy=f"it needs: {', '.join(names)}")
        return {name: parse(members[f"{name}.npy"], f"{path}[{name}]") for name in names}
    except Refused as refused:
        problem = refused.problem
        raise ArgumentError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None


def _header(data: bytes, where: str) -> _Header:
    if not data.startswith(_MAGIC) or len(data) < 12:
        raise Refused("not NPY", where, "empty file" if not data else "not a NumPy array file")
    start = 10 if data[6] == 1 else 12
    offset = start + int.from_bytes(data[8:start], "little")
    text = data[start : min(offset, _LONGEST_HEADER)].decode("latin-1")
    dtype = re.search(r"'descr':\s*'([<>|=]?[biufU])(\d{1,6})'", text)
    order = re.search(r"'fortran_order':\s*(True|False)", text)
    shape = re.search(r"'shape':\s*\(([\d,\s]*)\)", text)
    if dtype is None and "'descr'" in text:
        detail = "the array holds something other than plain numbers or words; it is not opened"
        raise Refused(
            "not numbers", where, detail, "save numbers, for example with array.astype(numpy.float32)"
        )
    sizes = [size.strip() for size in shape[1].split(",") if size.strip()] if shape else []
    if (
        dtype is None
        or order is None
        or shape is None
        or not all(re.fullmatch(r"\d{1,18}", s) for s in sizes)
    ):
        raise Refused("damaged", where, "the header of the array cannot be read", "write the file again")
    try:
        kind = np.dtype(f"{dtype[1]}{int(dtype[2])}")
    except TypeError:
        raise Refused("not numbers", where, f"numbers of an unknown type, {dtype[1]}{dtype[2]}") from None
    return _Header(kind, order[1] == "True", tuple(int(size) for size in sizes), offset)


def _check_length(header: _Header, size: int, where: str) -> None:
    declared, found = math.prod(header.shape) * header.dtype.itemsize, size - header.offset
    if not 1 <= len(header.shape) <= 8 or not declared:
        raise Refused("empty", where, f"an array of shape {header.shape} holds no examples")
    if declared != found:
        kind = "truncated" if found < declared else "wrong length"
        detail = f"declares {header.shape} numbers of {header.dtype.itemsize} bytes but holds {max(found, 0):,} bytes"
        raise Refused(kind, where, detail, "write the file again")


__all__ = ["MAP_BYTES", "named", "parse", "read"]
