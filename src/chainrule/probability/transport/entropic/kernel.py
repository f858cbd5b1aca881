"""Sinkhorn iterations without exponentials: products with a kernel in which potentials are absorbed.

With `E_ij = exp((f_i + g_j - C_ij) / eps)` at some potentials f and g, others near them are `f + eps log u` and
`g + eps log v`, and a sweep is two matrix-vector products: `u = 1 / (E (b v))`, `v = 1 / (Eᵀ (a u))`. E is computed
anew only where u or v leave what floating-point numbers hold, and when eps falls (Schmitzer, 2019).

Nothing that matters underflows. Every row and every column has an entry with `f_i + g_j >= C_ij`, at first by
c-transforms and later because their sums are right, and that entry is large whatever eps becomes.
"""

from collections.abc import Callable
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.probability.transport.entropic.costs import (
    Block,
    Costs,
    EntropicProblem,
    beginning,
    density,
    earned,
)
from chainrule.probability.transport.entropic.iteration import Earned, StoppingRule, Sweep, SweepState
from chainrule.probability.transport.entropic.log_domain import solve_by_sweeps
from chainrule.probability.transport.entropic.stages import solve_in_stages

_FAR = 40.0
"""Logarithm of u and v at which they are absorbed: a product of both and an entry still is no zero."""
_CACHED = 2**18
"""Entries of a block of rows that stay in a core's cache."""
_LARGE = 2**22
"""Entries of a matrix that is taken in blocks."""


@final
class CostMatrix(Costs):
    """Costs that are given, or few enough to be kept."""

    matrix: Float[Array, "some others"]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return (self.matrix.shape[0], self.matrix.shape[1])

    @property
    def dtype(self) -> Any:
        """Of the matrix."""
        return self.matrix.dtype

    def by_rows(self, block: Block, rows: tuple[Array, ...], start: Any) -> tuple[Any, Any]:
        """All rows at once, or on processors as many at a time as stay in their cache where a matrix is large."""
        size = _block_rows(*self.shape)
        if size == self.shape[0]:
            return block(self.matrix, rows, start)

        @jax.checkpoint
        def step(sums: Any, some: Any) -> tuple[Any, Any]:
            matrix, own = some
            return block(matrix, own, sums)

        cut = jax.tree.map(lambda of: of.reshape(-1, size, *of.shape[1:]), (self.matrix, rows))
        sums, found = jax.lax.scan(step, start, cut)
        return sums, jax.tree.map(lambda of: of.reshape(-1, *of.shape[2:]), found)

    def transposed(self) -> "CostMatrix":
        """The transposed matrix."""
        return CostMatrix(self.matrix.T)

    def solve(self, problem: EntropicProblem, limits: StoppingRule, depth: int) -> SweepState:
        """By products with a kernel, unless the matrix is large."""
        if _block_rows(*self.shape) < self.shape[0]:
            return solve_by_sweeps(self, problem, limits, depth)
        return solve_by_kernel(self.matrix, problem, limits, depth)

    def turn(self, problem: EntropicProblem) -> tuple[Float[Array, " some"], Callable[[Array], Array]]:
        """By one product; half the cost of staying is a potential that leaves the diagonal of the kernel at one."""
        stay = jnp.diagonal(self.matrix) / 2
        kernel = density(self.matrix, stay, stay, problem.eps)

        def right(f: Array) -> Array:
            sums = kernel @ _weighted(problem.a, (f - stay) / problem.eps)
            # A point without weight may be so far from all others that nothing of its sum is left.
            return stay - problem.eps * jnp.log(jnp.maximum(sums, jnp.finfo(kernel.dtype).tiny))

        return stay, right

    def matrix_of(self, where: str) -> Float[Array, "some others"]:
        """The matrix."""
        del where
        return self.matrix


def solve_by_kernel(
    matrix: Float[Array, "some others"], problem: EntropicProblem, limits: StoppingRule, depth: int
) -> SweepState:
    """Potentials of the best plan."""
    a, b = problem.a, problem.b

    def sweep_at(f: Array, g: Array, eps: Array) -> tuple[Sweep, Callable[[Array, Array], Array]]:
        def near(f_now: Array, g_now: Array) -> Array:
            moved = (jnp.where(w > 0, jnp.abs(d), 0.0).max() for w, d in ((a, f_now - f), (b, g_now - g)))
            return jnp.maximum(*moved) <= _FAR * eps

        return kernel_sweep(density(matrix, f, g, eps), f, g, problem, eps), near

    g, mean = beginning(CostMatrix(matrix))
    f = (matrix - g[None]).min(axis=1)
    return solve_in_stages(problem, limits, depth, sweep_at, f, g, mean)


def kernel_sweep(kernel: Array, f: Array, g: Array, problem: EntropicProblem, eps: Any) -> Sweep:
    """A sweep by two products with the kernel at potentials f and g."""
    marginals, least = problem.marginals, jnp.finfo(kernel.dtype).tiny

    def sweep(now: Array) -> tuple[Array, Array, Earned]:
        rows = kernel @ _weighted(problem.b, (now - g) / eps)
        right = f - eps * jnp.log(jnp.maximum(rows, least))
        moved = marginals.damped(right, eps)
        columns = _weighted(problem.a, (moved - f) / eps) @ kernel
        ahead = marginals.damped(g - eps * jnp.log(jnp.maximum(columns, least)), eps)
        return moved, ahead, earned(problem, right, moved, now, eps)

    return sweep


def _weighted(weights: Array, exponents: Array) -> Array:
    """`weights exp(exponents)`: nothing where there is no weight, whatever the exponent."""
    return jnp.where(weights > 0, weights * jnp.exp(exponents), 0.0)


def _block_rows(count: int, across: int) -> int:
    """Rows that are taken at a time: all, except of a large matrix on a processor."""
    if count * across < _LARGE or jax.default_backend() != "cpu":
        return count
    fitting = max(1, _CACHED // across)
    sizes = (*range(fitting, max(1, fitting // 8), -1), *range(fitting + 1, 4 * fitting))
    return next((size for size in sizes if count % size == 0), count)


__all__ = ["CostMatrix", "kernel_sweep", "solve_by_kernel"]
