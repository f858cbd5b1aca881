"""Arrays that a user hands to a sampler in a file, as `chainrule sample` writes them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import bounded
from chainrule.data.base import Schema
from chainrule.data.files import npy
from chainrule.data.options import MAX_BYTES, MAX_RATIO
from chainrule.data.scan import Refused

_MOST = 16
"""Arrays in one file."""


def arrays_of(path: Path, names: Sequence[str], schema: Schema) -> dict[str, np.ndarray]:
    """The named arrays of an NPZ file; numbers come in the units of the data and leave in [0, 1].

    Only images are read: how other data were scaled is known to the run, not to its model.
    """
    if schema.kind != "image":
        raise CapabilityError(
            f"{path}: files are read for images; these are {schema.kind} data",
            remedy="from Python, give arrays in the units of the model",
        )
    limits = (MAX_BYTES.default, MAX_RATIO.default, _MOST)
    try:
        members = dict(bounded.members(path.expanduser(), str(path), *limits))
        missing = [name for name in names if f"{name}.npy" not in members]
        found = (
            {} if missing else {name: npy.parse(members[f"{name}.npy"], f"{path}[{name}]") for name in names}
        )
    except Refused as refused:
        problem = refused.problem
        raise ArgumentError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None
    if missing:
        raise ArgumentError(f"{path} has no array {missing[0]!r}", remedy=f"it needs: {', '.join(names)}")
    top = max(schema.levels - 1, 1)
    return {name: a if a.dtype == bool else a.astype(np.float32) / top for name, a in found.items()}


__all__ = ["arrays_of"]
