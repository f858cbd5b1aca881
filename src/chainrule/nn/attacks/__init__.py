"""Adversarial attacks on any loss: by one gradient, by many, with steps that find their own length, by queries alone.

Everything here is a function of a loss and of examples and can be compiled; `explain` attacks models and runs with it,
`train` learns from what comes out.
"""

from chainrule.nn.attacks.automatic import automatic
from chainrule.nn.attacks.ball import (
    NORMS,
    Bounds,
    ChangeNorm,
    check_radius,
    inside,
    largest_change,
    norm_named,
)
from chainrule.nn.attacks.gradient import (
    Loss,
    Reached,
    best_of,
    climb,
    fgsm,
    furthest,
    path,
    pgd,
    single_step,
    started,
)
from chainrule.nn.attacks.margins import MEASURES, margin
from chainrule.nn.attacks.smallest import Smallest, smallest
from chainrule.nn.attacks.square import square

__all__ = [
    "MEASURES",
    "NORMS",
    "Bounds",
    "ChangeNorm",
    "Loss",
    "Reached",
    "Smallest",
    "automatic",
    "best_of",
    "check_radius",
    "climb",
    "fgsm",
    "furthest",
    "inside",
    "largest_change",
    "margin",
    "norm_named",
    "path",
    "pgd",
    "single_step",
    "smallest",
    "square",
    "started",
]
