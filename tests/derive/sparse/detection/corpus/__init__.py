"""Functions of every kind people differentiate, small enough to differentiate densely."""

from tests.derive.sparse.detection.corpus import control, elementwise, hessians, moving, solving, summing
from tests.derive.sparse.detection.corpus.case import Case

CASES: list[Case] = [
    *elementwise.CASES,
    *moving.CASES,
    *summing.CASES,
    *control.CASES,
    *hessians.CASES,
    *solving.CASES,
]
