"""How fast Sinkhorn's iteration must converge, known before it begins, beside how fast it does.

A positive matrix contracts Hilbert's projective metric by `kappa = tanh(Delta / 4)`, where Delta is the largest
`log(K_ik K_jl / (K_il K_jk))` (Birkhoff, 1957); an iteration applies two of them (Franklin and Lorenz, 1989). With
`K = exp(-C / eps)` the bound is pessimistic for small eps; near the solution the factor is the second largest squared
singular value of the plan scaled by its marginals (Knight, 2008).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Scalar
from chainrule.probability.distributions.parameters import finite
from chainrule.probability.transport.entropic.result import EntropicTransport
from chainrule.probability.transport.sinkhorn import as_costs, strength

_ROWS = 16
"""Rows that are compared with all others at a time."""


class ContractionRate(NamedTuple):
    """Delta, kappa, and by which factor an iteration shrinks the error at least."""

    delta: Scalar
    kappa: Scalar
    rate: Scalar


def contraction_rate(cost: Any, eps: Any = None) -> ContractionRate:
    """What is known of the rate before anything is solved: the error shrinks by `kappa²` or more in each iteration.

    >>> found = contraction_rate([[(i - j) ** 2 for j in range(3)] for i in range(3)], 1.0)
    >>> float(found.delta), round(float(found.kappa), 7)
    (8.0, 0.9640276)
    """
    costs = as_costs("contraction_rate", cost)
    absolute = strength("contraction_rate", eps, costs)
    matrix = finite("contraction_rate", "cost", costs.matrix_of("contraction_rate"))
    delta = _spread(matrix) / absolute
    kappa = jnp.tanh(delta / 4)
    return ContractionRate(delta, kappa, kappa**2)


@jax.jit
def _spread(matrix: Array) -> Scalar:
    """The largest `C_il + C_jk - C_ik - C_jl`: over pairs of rows, how far their difference ranges."""

    def ranges(row: Array) -> Scalar:
        difference = matrix - row[None]
        return (difference.max(axis=1) - difference.min(axis=1)).max()

    return jax.lax.map(ranges, matrix, batch_size=min(_ROWS, len(matrix))).max()


def local_rate(result: EntropicTransport) -> Scalar:
    """By which factor an iteration shrinks small errors: the second largest squared singular value of the scaled plan.

    >>> from chainrule.probability.transport import sinkhorn
    >>> found = sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 0.5)
    >>> round(float(local_rate(found)), 6) == round(float(jnp.tanh(1.0)) ** 2, 6)
    True
    """
    a, b = result.problem.a, result.problem.b
    scaled = (
        result.plan / jnp.sqrt(jnp.where(a > 0, a, 1.0))[:, None] / jnp.sqrt(jnp.where(b > 0, b, 1.0))[None]
    )
    values = jnp.linalg.svd(scaled, compute_uv=False)
    return values[1] ** 2 if len(values) > 1 else jnp.zeros_like(values[0])


__all__ = ["ContractionRate", "contraction_rate", "local_rate"]
