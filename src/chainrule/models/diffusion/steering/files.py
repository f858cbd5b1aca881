"""Arrays that a user hands to a sampler in a file, as `chainrule sample` writes them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.data import kinds
from chainrule.data.readers import npy
from chainrule.data.schema import Schema


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


__all__ = ["arrays_of"]
