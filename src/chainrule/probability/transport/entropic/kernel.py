"""Sinkhorn iterations without exponentials: products with a kernel in which potentials are absorbed.

With `E_ij = exp((f_i + g_j - C_ij) / eps)` at some potentials f and g, others near them are `f + eps log u` and
`g + eps log v`, and a sweep is two matrix-vector products: `u = 1 / (E (b v))`, `v = 1 / (Eᵀ (a u))`. E is computed
anew only where u or v leave what floating-point numbers hold, and when eps falls (Schmitzer, 2019).

Nothing that matters underflows. Every row and every column has an entry with `f_i + g_j >= C_ij`, at first by
c-transforms and later because their sums are right, and that entry is large whatever eps becomes.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.probability.transport.entropic.costs import Block, Costs, Problem, beginning
from chainrule.probability.transport.entropic.iteration import Limits, State, Sweep
from chainrule.probability.transport.entropic.stages import solve_in_stages

_FAR = 40.0
"""Logarithm of u and v at which they are absorbed: a product of both and an entry still is no zero."""
_TOP = 60.0
"""Largest exponent: entries of the kernel stay finite, and so do sums of them."""
_CACHED = 2**18
"""Entries of a block of rows that stay in a core's cache between the two products."""
_LARGE = 2**22
"""Entries of a kernel that does not stay there anyhow."""

Weigh: TypeAlias = Callable[..., tuple[Array, Array]]
"""From sums of rows, and what else is known of rows, to what is found for them and their weights in sums of columns."""


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
        """All rows at once."""
        return block(self.matrix, rows, start)

    def transposed(self) -> "CostMatrix":
        """The transposed matrix."""
        return CostMatrix(self.matrix.T)

    def solve(self, problem: Problem, limits: Limits, depth: int) -> State:
        """By products with a kernel."""
        return solve_by_kernel(self.matrix, problem, limits, depth)

    def turn(self, problem: Problem) -> tuple[Float[Array, " some"], Callable[[Array], Array]]:
        """By one product; half the cost of staying is a potential that leaves the diagonal of the kernel at one."""
        stay = jnp.diagonal(self.matrix) / 2
        kernel = _kernel_at(self.matrix, stay, stay, problem.eps)

        def right(f: Array) -> Array:
            sums = kernel @ (problem.a * jnp.exp((f - stay) / problem.eps))
            return stay - problem.eps * jnp.log(sums)

        return stay, right

    def matrix_of(self, where: str) -> Float[Array, "some others"]:
        """The matrix."""
        del where
        return self.matrix


def solve_by_kernel(
    matrix: Float[Array, "some others"], problem: Problem, limits: Limits, depth: int
) -> State:
    """Potentials of the best plan."""

    def sweep_at(f: Array, g: Array, eps: Array) -> tuple[Sweep, Callable[[Array, Array], Array]]:
        def near(f_now: Array, g_now: Array) -> Array:
            return jnp.maximum(jnp.abs(f_now - f).max(), jnp.abs(g_now - g).max()) <= _FAR * eps

        return kernel_sweep(_kernel_at(matrix, f, g, eps), f, g, problem, eps), near

    g, mean = beginning(CostMatrix(matrix))
    f = (matrix - g[None]).min(axis=1)
    return solve_in_stages(problem, limits, depth, sweep_at, f, g, mean)


def _kernel_at(matrix: Array, f: Array, g: Array, eps: Any) -> Array:
    return jnp.exp(jnp.minimum((f[:, None] + g[None] - matrix) / eps, _TOP))


def kernel_sweep(kernel: Array, f: Array, g: Array, problem: Problem, eps: Any) -> Sweep:
    """A sweep by two products with the kernel at potentials f and g."""
    marginals, least = problem.marginals, jnp.finfo(kernel.dtype).tiny

    def weigh(sums: Array, f: Array, a: Array) -> tuple[Array, Array]:
        moved = marginals.damped(f - eps * jnp.log(jnp.maximum(sums, least)), eps)
        return moved, a * jnp.exp((moved - f) / eps)

    def sweep(now: Array) -> tuple[Array, Array]:
        moved, columns = _both_products(kernel, problem.b * jnp.exp((now - g) / eps), weigh, (f, problem.a))
        return moved, marginals.damped(g - eps * jnp.log(jnp.maximum(columns, least)), eps)

    return sweep


def _both_products(
    kernel: Array, right: Array, weigh: Weigh, rows: tuple[Array, ...]
) -> tuple[Float[Array, " some"], Float[Array, " others"]]:
    """What is found for rows from `kernel @ right`, and the sums of columns by the weights that follow from it.

    A row needs its own sum only. So processors read a large kernel once, some rows at a time, while accelerators take
    one product after the other.
    """
    if kernel.size < _LARGE:
        return _one_by_one(kernel, right, weigh, rows)
    return jax.lax.platform_dependent(
        kernel,
        right,
        *rows,
        cpu=lambda kernel, right, *rows: _in_one_pass(kernel, right, weigh, rows),
        default=lambda kernel, right, *rows: _one_by_one(kernel, right, weigh, rows),
    )


def _one_by_one(kernel: Array, right: Array, weigh: Weigh, rows: tuple[Array, ...]) -> tuple[Array, Array]:
    found, weights = weigh(kernel @ right, *rows)
    return found, weights @ kernel


def _in_one_pass(kernel: Array, right: Array, weigh: Weigh, rows: tuple[Array, ...]) -> tuple[Array, Array]:
    count, across = kernel.shape
    size = max(1, _CACHED // across)

    def block(number: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        found, columns = carry
        start = jnp.minimum(number * size, count - size)  # the last block overlaps the one before
        part = jax.lax.dynamic_slice_in_dim(kernel, start, size)
        own = [jax.lax.dynamic_slice_in_dim(row, start, size) for row in rows]
        moved, weights = weigh(part @ right, *own)
        fresh = jnp.where(start + jnp.arange(size) >= number * size, weights, 0.0)
        return jax.lax.dynamic_update_slice_in_dim(found, moved, start, 0), columns + fresh @ part

    nothing = (jnp.zeros_like(rows[0]), jnp.zeros_like(right))
    return jax.lax.fori_loop(0, -(-count // size), block, nothing)


__all__ = ["CostMatrix", "kernel_sweep", "solve_by_kernel"]
