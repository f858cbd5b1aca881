"""Tolerances of the implicit function theorem: residual of a solution, conditioning of its Jacobian."""

import math
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp


@final
@dataclass(frozen=True)
class Conditions:
    """When the implicit function theorem counts as applicable; `None` stands for the default.

    `tolerance`: of the residual, relative to what changing every argument by its own size (at least 1) does to F; by
    default the square root of the machine epsilon. `rcond`: least reciprocal condition of A, by default 10 n eps, but
    no more than eps^(2/3), which leaves a third of the digits (single precision gets there with twenty unknowns).
    `drift`: most relative change of A within the uncertainty of the solution.
    """

    tolerance: float | None = None
    rcond: float | None = None
    drift: float = 0.25

    def tolerance_for(self, dtype: Any) -> float:
        """The limit of the residual."""
        return math.sqrt(jnp.finfo(dtype).eps) if self.tolerance is None else self.tolerance

    def rcond_for(self, n: int, dtype: Any) -> float:
        """The limit of the reciprocal condition."""
        eps = float(jnp.finfo(dtype).eps)
        return min(10 * n * eps, eps ** (2 / 3)) if self.rcond is None else self.rcond


__all__ = ["Conditions"]
