"""Arrays that a user hands to a sampler in a file, as `chainrule sample` writes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import kinds
from chainrule.data.readers import npy, picture
from chainrule.data.schema import Schema

_MOST_BYTES = 2**28


def arrays_of(path: Path, names: Sequence[str], schema: Schema) -> dict[str, np.ndarray]:
    """The named arrays of an NPZ file; numbers come in the units of the data and leave in [0, 1].

    Only images are read: how other data were scaled is known to the run, not to its model.
    """
    if not kinds.of(schema).spatial:
        raise CapabilityError(
            f"{path}: files are read for images; these are {schema.kind} data",
            remedy="from Python, give arrays in the units of the model",
        )
    found = npy.named(path, names)
    top = max(schema.levels - 1, 1)
    return {name: a if a.dtype == bool else a.astype(np.float32) / top for name, a in found.items()}


def known_entries(schema: Schema, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is known of one example and where: from a file in the units of the data, or that pair in those of a model.

    >>> values, mask = known_entries(Schema("points", (2,)), (np.ones(2), np.array([True, False])))
    >>> values.tolist()
    [1.0, 0.0]
    """
    if isinstance(given, str | Path):
        found = arrays_of(Path(given), ("known", "mask"), schema)
        values, mask = found["known"], found["mask"]
    else:
        values, mask = (np.asarray(part) for part in given)
    shape = schema.shape
    mask = np.broadcast_to(mask[..., None], shape) if mask.shape == shape[:-1] else mask
    if mask.dtype != bool or mask.shape != shape:
        raise ArgumentError(
            f"mask: {mask.dtype} of shape {mask.shape}; the data have shape {shape}",
            remedy="one true (known) or false (missing) for each entry or each pixel",
        )
    if values.shape != shape or not np.isfinite(values[mask]).all():
        raise ArgumentError(
            f"known: shape {values.shape}; the data have shape {shape}",
            remedy="one finite number for each entry",
        )
    return np.where(mask, values, 0.0).astype(np.float32), mask


def one_image(option: str, given: Any, schema: Schema) -> np.ndarray:
    """One image (height, width, channels) in [0, 1], of any size: a PNG, JPEG or NPZ file (`samples`), or an array."""
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        npz = path.suffix.lower() == ".npz"
        given = arrays_of(path, ["samples"], schema)["samples"] if npz else pixels_of(path, schema.shape[-1])
    found = np.asarray(given, np.float32)
    found = found[0] if found.ndim == 4 and len(found) == 1 else found
    found = found[..., None] if found.ndim == 2 and schema.shape[-1] == 1 else found
    if found.ndim != 3 or found.shape[-1] != schema.shape[-1] or not np.isfinite(found).all():
        raise ArgumentError(
            f"{option}: an array of shape {found.shape}",
            remedy=f"give one image of {schema.shape[-1]} channels, of finite numbers",
        )
    return found


def pixels_of(path: Path, channels: int) -> np.ndarray:
    """The pixels of a file in [0, 1], in grey where one channel is wanted."""
    try:
        found = picture.decode(path, None, picture.MOST_PIXELS, _MOST_BYTES)[0].astype(np.float32) / 255
    except picture.Unusable as error:
        detail = f": {error.detail}" if error.detail else ""
        raise DataError(
            f"{path} cannot be read ({error.kind}{detail})", remedy="give a PNG or JPEG file"
        ) from None
    if channels == 1:
        return found.mean(axis=-1, keepdims=True)
    return np.repeat(found, channels, axis=-1) if found.shape[-1] == 1 else found


__all__ = ["arrays_of", "known_entries", "one_image", "pixels_of"]
