"""Costs of points that are never all there: made block by block of rows, used, and forgotten.

Memory grows with the number of points instead of the number of pairs, so that a hundred thousand points can be moved to
as many others. Reverse passes make the blocks again.
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core import machine
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import memory_size
from chainrule.core.types import Array, Float
from chainrule.probability.transport.costs import Pairwise, pairwise, two_sets
from chainrule.probability.transport.entropic.costs import Block, Costs, EntropicProblem, soft_minimum
from chainrule.probability.transport.entropic.iteration import StoppingRule, SweepState
from chainrule.probability.transport.entropic.log_domain import solve_by_sweeps

_PAIRS = {True: 2**19, False: 2**26}
"""Pairs of a block where none is given: on processors, whose caches hold a few arrays of them, and on accelerators."""
_ARRAYS = 6
"""Arrays of the size of a block that are there at once, at most."""


def point_costs(
    x: Any, y: Any, cost: Any = "sqeuclidean", p: float = 2.0, *, block: int | None = None
) -> "PointCosts":
    """The costs of moving rows of `x` to rows of `y`, computed `block` rows at a time: no matrix of all pairs.

    `cost` is a name or a function of two points, as in `cost_matrix`. What is returned stands wherever a matrix of
    costs may stand.

    >>> from chainrule.probability.transport import sinkhorn
    >>> x = jnp.linspace(0, 1, 5)[:, None]
    >>> round(float(sinkhorn(None, None, point_costs(x, x + 2.0, block=2), 0.1).value), 2)
    4.1
    """
    first, second = two_sets("point_costs", x, y)
    if not isinstance(cost, str) and not callable(cost):
        raise ArgumentError(
            "point_costs(cost): costs of points have a name or are a function of two points",
            remedy="give a matrix of costs to sinkhorn as it is",
        )
    rows, columns = len(first), len(second)
    pairs = _PAIRS[jax.default_backend() == "cpu"]
    size = max(1, pairs // columns) if block is None else whole("point_costs", "block", block)
    size = min(rows, size)
    one = _ARRAYS * columns * first.dtype.itemsize
    free = machine.memory() // 2
    if size * one > free:
        raise ArgumentError(
            f"point_costs(block={size}): blocks of {size:,} x {columns:,} costs take {memory_size(size * one)}, "
            f"and {memory_size(free)} may be used",
            remedy=f"use block={max(1, free // one)}, or leave block out",
        )
    return PointCosts(first, second, size, pairwise(cost, p))


@final
class PointCosts(Costs):
    """Costs of two sets of points, made some rows at a time."""

    x: Float[Array, "some dim"]
    y: Float[Array, "others dim"]
    block: int = eqx.field(static=True)
    between: Pairwise = eqx.field(static=True)
    exchanged: bool = eqx.field(static=True, default=False)
    """Whether the cost is that of moving y to x."""

    @property
    def shape(self) -> tuple[int, int]:
        """How many points both sets have."""
        return len(self.x), len(self.y)

    @property
    def dtype(self) -> Any:
        """Of the points."""
        return self.x.dtype

    def costs_of(self, x: Float[Array, "rows dim"]) -> Float[Array, "rows others"]:
        """The costs of some rows."""
        return self.between(self.y, x).T if self.exchanged else self.between(x, self.y)

    def by_rows(self, block: Block, rows: tuple[Array, ...], start: Any) -> tuple[Any, Any]:
        """Some rows at a time; rows that fill the last block have zeros for everything."""
        count = self.shape[0]
        blocks = -(-count // self.block)

        def cut(array: Array) -> Array:
            filled = jnp.pad(array, [(0, blocks * self.block - count)] + [(0, 0)] * (array.ndim - 1))
            return filled.reshape(blocks, self.block, *array.shape[1:])

        @jax.checkpoint
        def step(sums: Any, some: Any) -> tuple[Any, Any]:
            x, own = some
            return block(self.costs_of(x), own, sums)

        sums, found = jax.lax.scan(step, start, (cut(self.x), tuple(cut(row) for row in rows)))
        return sums, jax.tree.map(lambda of: of.reshape(-1, *of.shape[2:])[:count], found)

    def transposed(self) -> "PointCosts":
        """The sets exchanged, in blocks of about as many pairs."""
        size = max(1, min(len(self.y), self.block * len(self.y) // len(self.x)))
        return PointCosts(self.y, self.x, size, self.between, not self.exchanged)

    def solve(self, problem: EntropicProblem, limits: StoppingRule, depth: int) -> SweepState:
        """By sweeps in the log domain that make every cost once."""
        return solve_by_sweeps(self, problem, limits, depth)

    def turn(self, problem: EntropicProblem) -> tuple[Float[Array, " some"], Callable[[Array], Array]]:
        """In the log domain, from zero."""
        return jnp.zeros_like(problem.a), lambda f: soft_minimum(self, f, problem.a, problem.eps)

    def matrix_of(self, where: str) -> Float[Array, "some others"]:
        """All costs at once, where they fit into memory."""
        needed, free = 3 * len(self.x) * len(self.y) * self.x.dtype.itemsize, machine.memory() // 2
        if needed > free:
            raise ArgumentError(
                f"{where}: {len(self.x):,} x {len(self.y):,} pairs take {memory_size(needed)}, and "
                f"{memory_size(free)} may be used",
                remedy="use potentials, cost, value or bounds, which are computed in blocks",
            )
        return self.costs_of(self.x)


__all__ = ["PointCosts", "point_costs"]
