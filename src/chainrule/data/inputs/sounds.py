"""Sound files of a trained model of series."""

from pathlib import Path

import numpy as np
from jaxtyping import Num

from chainrule.core.errors import DataError
from chainrule.data.loading import bounded
from chainrule.data.loading.options import MAX_BYTES, MAX_RATIO
from chainrule.data.loading.problems import Refused
from chainrule.data.readers import sound


def read(path: Path) -> Num[np.ndarray, "frames channels"]:
    """The samples of a WAV file, in the units of training."""
    try:
        return sound.parse(bounded.read(path, path.name, MAX_BYTES.default, MAX_RATIO.default), path.name)
    except Refused as refused:
        problem = refused.problem
        raise DataError(f"{problem.where}: {problem.detail}", remedy=problem.remedy) from None


__all__ = ["read"]
