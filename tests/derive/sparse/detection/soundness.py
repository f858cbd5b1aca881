"""Detects the pattern of every function of the corpus, compares it with dense derivatives, and prints what is wrong.

A program of its own: shapes in annotations are not enforced here, as they are not for users.
"""

import warnings

import jax
import numpy as np

from chainrule.derive import sparse
from tests.derive.sparse.detection.corpus import CASES
from tests.derive.sparse.detection.corpus.case import Case
from tests.derive.sparse.detection.dense import truth


def fault(case: Case) -> str:
    """What is wrong with the pattern found for a function; nothing if it is as it must be."""
    try:
        found = sparse.detect(case.f, case.points()[0], of=case.of).to_scipy().toarray() != 0
    except Exception as error:  # refusing a function is the fault this looks for
        return f"raised {type(error).__name__}: {error}"
    real = truth(case)
    if found.shape != real.shape:
        return f"has shape {found.shape}, not {real.shape}"
    if np.any(real & ~found):
        return f"missed {np.sum(real & ~found)} places"
    if case.exact and not np.array_equal(found, real):
        return f"has {found.sum()} places where {real.sum()} are needed"
    return ""


if __name__ == "__main__":
    warnings.simplefilter("error")
    jax.config.update("jax_enable_x64", True)
    for case in CASES:
        if why := fault(case):
            print(f"{case.name}: {why}")
