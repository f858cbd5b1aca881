"""IDX files, the format of MNIST: a magic number, the sizes of the axes, the numbers.

A folder with the usual four files has an official test set, which stays the test set.
"""

import math
import struct
from pathlib import Path

import numpy as np

from chainrule.data.loading import bounded
from chainrule.data.loading.options import BINARIZE, BITS, MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_STEMS = {"train": 0, "t10k": 2}


def find(folder: Path, part: str, what: str) -> Path | None:
    """A file of a folder in the usual spellings: `train-images-idx3-ubyte`, with a dot or with `.gz`."""
    axes = {"images": 3, "labels": 1}[what]
    names = [f"{part}-{what}{mark}idx{axes}-ubyte{end}" for end in ("", ".gz") for mark in ("-", ".")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def parse(data: bytes, where: str) -> np.ndarray:
    """The array in the bytes of an IDX file; its length must be exactly what its header declares.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), "three numbers").tolist()
    [7, 8, 9]
    """
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES or not data[3]:
        raise Refused("not IDX", where, "empty file" if not data else "not an IDX file (wrong magic number)")
    axes = data[3]
    if len(data) < 4 + 4 * axes:
        raise Refused("truncated", where, "cut off within the header", "fetch the file again")
    shape = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    dtype = np.dtype(_TYPES[data[2]])
    declared, found = math.prod(shape) * dtype.itemsize, len(data) - 4 - 4 * axes
    if declared != found:
        sizes = "×".join(f"{n:,}" for n in shape)
        kind = "truncated" if found < declared else "wrong length"
        raise Refused(
            kind, where, f"declares {sizes} numbers but holds {found:,} bytes", "fetch the file again"
        )
    array = np.frombuffer(data, dtype, offset=4 + 4 * axes).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _scan(request: ReadRequest) -> Scan:
    if request.path.is_file():
        x = _images(request, request.path)
        return Scan(len(x), len(x), contents=Contents("image", x, levels=256))
    images, labels, parts = [], [], []
    for stem, part in _STEMS.items():
        file, names = find(request.path, stem, "images"), find(request.path, stem, "labels")
        if file is None or names is None:
            continue
        images.append(_images(request, file))
        labels.append(_labels(request, names, len(images[-1])))
        parts.append(np.full(len(images[-1]), part))
    if not images:
        wanted = "train-images-idx3-ubyte and train-labels-idx1-ubyte (or with .gz)"
        raise Refused(
            "incomplete", request.path.name, "images without labels, or the reverse", f"needed: {wanted}"
        )
    if len({array.shape[1:] for array in images}) > 1:
        raise Refused("mixed sizes", request.path.name, "training and test images differ in size")
    x, y = np.concatenate(images), np.concatenate(labels)
    classes, numbers = np.unique(y, return_inverse=True)
    contents = Contents(
        "image",
        x,
        numbers.astype(np.int32),
        "class",
        classes=tuple(str(name) for name in classes),
        levels=256,
        parts=np.concatenate(parts) if len(parts) > 1 else None,
    )
    return Scan(len(x), len(x), contents=contents)


def _read(request: ReadRequest, path: Path) -> np.ndarray:
    where = request.shown(path)
    return parse(bounded.read(path, where, request.options["max_bytes"], request.options["max_ratio"]), where)


def _images(request: ReadRequest, path: Path) -> np.ndarray:
    array = _read(request, path)
    if array.ndim != 3 or array.dtype != np.uint8 or not array.size:
        shape = "×".join(str(n) for n in array.shape)
        raise Refused(
            "not images",
            request.shown(path),
            f"holds {shape} numbers of type {array.dtype}, not 8-bit images",
        )
    return array[..., None]


def _labels(request: ReadRequest, path: Path, count: int) -> np.ndarray:
    array = _read(request, path)
    if array.ndim != 1 or array.dtype.kind not in "ui":
        raise Refused(
            "not labels", request.shown(path), f"holds {array.ndim}-dimensional {array.dtype}, not labels"
        )
    if len(array) != count:
        raise Refused("wrong count", request.shown(path), f"{len(array):,} labels for {count:,} images")
    return array


reader = SourceReader(
    "IDX",
    "images",
    {"binarize": BINARIZE, "bits": BITS, "max_bytes": MAX_BYTES, "max_ratio": MAX_RATIO},
    _scan,
)

__all__ = ["find", "parse", "reader"]
