"""Functions with a reverse pass that computes values again instead of storing them, also once compiled for a CPU.

`jax.checkpoint` asks the compiler not to merge the second computation of a value with the first. XLA drops that request
for CPUs: outside of loops the two are merged, everything is stored, and nothing is saved. Here what is computed again
is held back (`holding.py`) until the reverse pass asks for it.
"""

from chainrule.core.recomputation.by_policy import recomputed
from chainrule.core.recomputation.holding import hold
from chainrule.core.recomputation.programs import Function, chosen, is_inexact, merged, without_constants
from chainrule.core.recomputation.rules import Recomputation, run

__all__ = [
    "Function",
    "Recomputation",
    "chosen",
    "hold",
    "is_inexact",
    "merged",
    "recomputed",
    "run",
    "without_constants",
]
