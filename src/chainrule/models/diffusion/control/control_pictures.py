"""Pictures that samples are to follow, read from files or arrays."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.data.example_files import arrays_of, pixels_of
from chainrule.data.readers.npy import named
from chainrule.data.schema import Schema


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
        given = stored(path) if path.suffix == ".npz" else pixels_of(path, shape[-1])
    found = jnp.asarray(given, jnp.float32)
    found = found[None] if found.ndim == 3 else found
    if found.ndim != 4 or found.shape[1:] != shape or not len(found):
        raise ArgumentError(
            f"{name}: a picture of shape {found.shape[1:] if found.ndim == 4 else found.shape}; it has to be {shape}",
            remedy="bring it to that height and width",
        )
    return found


__all__ = ["control_pictures"]
