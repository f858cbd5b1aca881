"""Pictures that samples are to follow, read from files or arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.types import Array, Float
from chainrule.data.readers import picture
from chainrule.data.readers.npy import named
from chainrule.data.schema import Schema
from chainrule.models.diffusion.steering.files import arrays_of

_MOST_BYTES = 2**28


def control_pictures(
    control: Any, like: Any, schema: Schema, shape: tuple[int, ...], extract: Callable[[Array], Array]
) -> Float[Array, "some height width channels"] | None:
    """Pictures of this shape in [0, 1]: what `control` says, or what is extracted from `like`; none without either."""
    if control is not None and like is not None:
        raise ArgumentError("control and like: samples follow one of them", remedy="give one of them")
    if control is not None:
        return _read("control", control, shape, lambda path: named(path, ["control"])["control"])
    if like is not None:
        return extract(
            _read("like", like, schema.shape, lambda path: arrays_of(path, ["samples"], schema)["samples"])
        )
    return None


def _read(
    name: str, given: Any, shape: tuple[int, ...], stored: Callable[[Path], np.ndarray]
) -> Float[Array, "some height width channels"]:
    """Pictures of an NPZ file, one of a PNG or JPEG file, or an array."""
    if isinstance(given, str | Path):
        path = Path(given).expanduser()
        given = stored(path) if path.suffix == ".npz" else _pixels(path, shape[-1])
    found = jnp.asarray(given, jnp.float32)
    found = found[None] if found.ndim == 3 else found
    if found.ndim != 4 or found.shape[1:] != shape or not len(found):
        raise ArgumentError(
            f"{name}: a picture of shape {found.shape[1:] if found.ndim == 4 else found.shape}; it has to be {shape}",
            remedy="bring it to that height and width",
        )
    return found


def _pixels(path: Path, channels: int) -> np.ndarray:
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


__all__ = ["control_pictures"]
