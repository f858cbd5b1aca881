"""Matrices of the SuiteSparse collection, where somebody has put them: they are not part of the repository.

`CHAINRULE_MATRICES` names a folder with files such as `cage11.mtx`, `cage11.mtx.gz` (Matrix Market) or `cage11.npz`
(`scipy.sparse.save_npz`). What is absent is reported as skipped.
"""

import os
from pathlib import Path
from typing import Any

import scipy.io
import scipy.sparse

PUBLISHED = {
    "lp_cre_a": {"column": 360},
    "lp_ken_11": {"column": 122},
    "lp_maros_r7": {"column": 70},
    "af23560": {"column": 42},
    "e40r0100": {"column": 70},
    "cage11": {"column": 64},
    "cage12": {"column": 67},
    "pwtk": {"star": 108, "acyclic": 53},
    "bmw3_2": {"star": 135, "acyclic": 71},
    "halfb": {"star": 117, "acyclic": 60},
    "troll": {"star": 108, "acyclic": 57},
    "hood": {"star": 89, "acyclic": 55},
    "fcondp2": {"star": 111, "acyclic": 66},
}
"""Fewest colours that others report, by matrix and method."""


def load(name: str) -> Any:
    """A matrix, or `None` where it is absent."""
    folder = os.environ.get("CHAINRULE_MATRICES")
    for ending in (".npz", ".mtx", ".mtx.gz") if folder else ():
        path = Path(str(folder)) / f"{name}{ending}"
        if path.exists():
            return scipy.sparse.load_npz(path) if ending == ".npz" else scipy.io.mmread(path).tocsr()
    return None


__all__ = ["PUBLISHED", "load"]
