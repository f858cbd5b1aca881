"""Sparsity patterns found by walking a function's program: sound by construction, for every differentiable function."""

from chainrule.derive.sparse.detection.analysis import DenseDetectionWarning
from chainrule.derive.sparse.detection.custom_rules import register
from chainrule.derive.sparse.detection.detector import Detected, analyse, detect
from chainrule.derive.sparse.detection.guard import Guard, LocalPatternError

__all__ = [
    "DenseDetectionWarning",
    "Detected",
    "Guard",
    "LocalPatternError",
    "analyse",
    "detect",
    "register",
]
