"""Sinkhorn's iteration as it stands in textbooks: rows and columns of `K = exp(-C / eps)` scaled in turn.

    v = 1;   u = a / (K v);   v = b / (Kᵀ u), with the new u;   P = diag(u) K diag(v)

Good to look at and to compare with. Where eps is small beside costs, entries of K vanish and so does the plan; that is
refused here. `sinkhorn` by any other method has no such limit.
"""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array
from chainrule.probability.distributions.parameters import finite
from chainrule.probability.transport.entropic.costs import Costs, EntropicProblem
from chainrule.probability.transport.entropic.derivatives import value_at
from chainrule.probability.transport.entropic.iteration import StoppingRule
from chainrule.probability.transport.entropic.solving import EntropicSolution

_Scaling: TypeAlias = tuple[Array, Array, Array, Array, Array]
"""u, the v it was made of, the next v, the error of the columns, and the number of iterations."""


def solved_by_scaling(costs: Costs, problem: EntropicProblem, limits: StoppingRule) -> EntropicSolution:
    """Potentials by the textbook iteration."""
    held, own = jax.lax.stop_gradient((costs.matrix_of("sinkhorn(method='scaling')"), problem))
    kernel = _kernel(held, own.eps)
    u, v, error, count = _scaled(kernel, own.a, own.b, limits)
    # u = a exp(f / eps) and v = b exp(g / eps); points without weight get what the others leave to them.
    f = -own.eps * jnp.log(kernel @ v)
    weighted = own.b > 0
    g = own.eps * jnp.where(
        weighted, jnp.log(jnp.where(weighted, v / jnp.where(weighted, own.b, 1.0), 1.0)), -jnp.log(u @ kernel)
    )
    return EntropicSolution(value_at(costs, problem, f, g), f, g, error, count)


def _kernel(matrix: Array, eps: Array) -> Array:
    kernel = jnp.exp(-matrix / eps)
    vanished = ~(kernel >= jnp.finfo(kernel.dtype).tiny)
    if isinstance(kernel, jax.core.Tracer):
        return eqx.error_if(
            kernel, vanished, "sinkhorn(method='scaling'): entries of exp(-cost / eps) vanish"
        )
    finite("sinkhorn(method='scaling')", "cost", matrix)
    if bool(np.asarray(vanished).any()):
        raise ArgumentError(
            f"sinkhorn(method='scaling'): with eps={float(eps):.3g} and costs up to {float(matrix.max()):.3g} entries "
            f"of exp(-cost / eps) vanish in {kernel.dtype}",
            remedy='use method="log" or "auto", or a larger eps',
        )
    return kernel


@jax.jit
def _scaled(kernel: Array, a: Array, b: Array, limits: StoppingRule) -> tuple[Array, Array, Array, Array]:
    def step(carry: _Scaling) -> _Scaling:
        _, _, v, _, count = carry
        u = a / (kernel @ v)
        columns = u @ kernel
        error = jnp.abs(v * columns - b).sum()
        return u, v, b / columns, error, count + 1

    def unfinished(carry: _Scaling) -> Array:
        return (carry[3] > limits.tolerance) & (carry[4] < limits.most)

    ones = jnp.ones_like(b)
    start = (a, ones, ones, jnp.asarray(jnp.inf, b.dtype), jnp.zeros((), int))
    u, v, _, error, count = jax.lax.while_loop(unfinished, step, start)
    return u, v, error, count


__all__ = ["solved_by_scaling"]
