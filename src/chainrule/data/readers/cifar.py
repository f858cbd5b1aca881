"""CIFAR-10 in its binary form: records of one label byte and 3,072 bytes of colour planes, six files."""

from pathlib import Path

import numpy as np

from chainrule.data.loading import bounded
from chainrule.data.loading.options import BINARIZE, BITS, MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import Contents, ReadRequest, Scan, SourceReader

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")
_RECORD = 1 + 3 * 32 * 32


def folder_of(folder: Path) -> Path | None:
    """The folder itself or the one the official archive unpacks to, whichever holds the files."""
    candidates = (folder, folder / "cifar-10-batches-bin")
    return next(
        (candidate for candidate in candidates if any((candidate / name).is_file() for name in FILES)), None
    )


def _scan(request: ReadRequest) -> Scan:
    folder = folder_of(request.path)
    assert folder is not None, "a folder is only read this way if it holds one of the files"
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise Refused(
            "incomplete", request.path.name, f"{', '.join(missing)} missing", "unpack the whole archive again"
        )
    batches = [_read(request, folder / name) for name in FILES]
    records = np.concatenate(batches)
    contents = Contents(
        "image",
        np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)),
        records[:, 0].astype(np.int32),
        "class",
        classes=CLASSES,
        levels=256,
        parts=np.repeat([0, 2], [len(records) - len(batches[-1]), len(batches[-1])]),
    )
    return Scan(len(records), len(records), contents=contents)


def _read(request: ReadRequest, path: Path) -> np.ndarray:
    where = request.shown(path)
    data = bounded.read(path, where, request.options["max_bytes"], request.options["max_ratio"])
    if not data or len(data) % _RECORD:
        detail = f"{len(data):,} bytes are not a whole number of records of {_RECORD:,} bytes"
        raise Refused("truncated", where, detail, "fetch the file again")
    records = np.frombuffer(data, np.uint8).reshape(-1, _RECORD)
    if records[:, 0].max() >= len(CLASSES):
        raise Refused(
            "damaged",
            where,
            f"a label of {records[:, 0].max()}; labels go from 0 to 9",
            "fetch the file again",
        )
    return records


reader = SourceReader(
    "CIFAR-10",
    "images",
    {"binarize": BINARIZE, "bits": BITS, "max_bytes": MAX_BYTES, "max_ratio": MAX_RATIO},
    _scan,
)

__all__ = ["CLASSES", "FILES", "folder_of", "reader"]
