"""Which route computes a tangent kernel, and in what blocks: the compiler's own account of each program decides.

Every route is compiled for the shapes at hand. Its work is the larger of its operations and of its memory traffic, the
latter counted at ten operations a byte; blocks become smaller until the program's scratch memory fits the budget.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.formatting import memory_size
from chainrule.core.types import Tree
from chainrule.derive.memory_budget import check_output, parse, refuse
from chainrule.kernels.empirical.routes import ByProducts, Route
from chainrule.kernels.empirical.subjects import Arrays, Subject, count, no_forward_mode

PER_BYTE = 10.0
"""Operations that a processor does in the time in which it moves a byte, roughly, on CPUs and GPUs."""


@final
@dataclass(frozen=True)
class RouteCost:
    """What the compiler says about one route, for the whole kernel."""

    flops: float
    traffic: float
    """Bytes moved."""
    scratch: int
    """Bytes of one block's program besides arguments and result."""
    rows: int
    columns: int
    """Examples of one block."""
    program: Any
    """The compiled program of one block."""

    @property
    def work(self) -> float:
        """The larger of operations and traffic, in operations."""
        return max(self.flops, PER_BYTE * self.traffic)


@final
@dataclass(frozen=True)
class KernelPlan:
    """The route chosen, and what every route that was looked at would cost."""

    route: str
    costs: Mapping[str, RouteCost]
    budget: int

    @property
    def chosen(self) -> RouteCost:
        """The cost of the route chosen."""
        return self.costs[self.route]

    def __str__(self) -> str:
        lines = [
            f"{'*' if name == self.route else ' '} {name:10s} {cost.flops:9.3g} flops  {cost.traffic:9.3g} bytes moved"
            f"  {memory_size(cost.scratch):>9s} scratch  blocks of {cost.rows} x {cost.columns}"
            for name, cost in self.costs.items()
        ]
        return "\n".join(lines)


def plan(
    subject: Subject,
    arrays: Arrays,
    x: Tree,
    y: Tree | None,
    *,
    full: bool,
    routes: Sequence[Route],
    memory: str | int | None = None,
) -> KernelPlan:
    """The cheapest of these routes that the function has and that fits the budget; refused where there is none."""
    budget = parse("empirical_ntk", memory)
    if not subject.has_forward_mode(arrays, x):
        routes = [route for route in routes if not route.goes_forward]
        if not routes:
            raise no_forward_mode('empirical_ntk(route="products")', 'use route="jacobian"')
    outputs = jax.eval_shape(subject.outputs, arrays.chosen, arrays.others, x)
    n, m = count(x), count(x if y is None else y)
    check_output(
        "empirical_ntk",
        n * m * (outputs.shape[1] ** 2 if full else 1),
        outputs.dtype.itemsize,
        budget,
        'allow more with memory=, take fewer examples, or output="trace"; ntk_product needs no matrix',
    )
    costs = {route.name: _fitted(route, subject, arrays, x, y, full, budget) for route in routes}
    fitting = {name: cost for name, cost in costs.items() if cost.scratch <= budget}
    if not fitting:
        least = min(cost.scratch for cost in costs.values())
        refuse(
            "empirical_ntk",
            "one pair of examples",
            least,
            budget,
            "allow more with memory=, or fewer parameters: where=",
        )
    return KernelPlan(min(fitting, key=lambda name: fitting[name].work), costs, budget)


def _fitted(
    route: Route, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, full: bool, budget: int
) -> RouteCost:
    """The cost of a route in blocks as large as the budget allows."""
    n, m = count(x), count(x if y is None else y)
    rows, columns = n, m
    while True:
        cost = _cost(route, subject, arrays, x, y, (rows, columns), full)
        if cost.scratch <= budget or rows == columns == 1:
            return cost
        share = min(0.9 * budget / cost.scratch, 0.7)
        if y is None:
            rows = columns = max(1, int(rows * share))
        else:
            rows, columns = (
                (max(1, int(rows * share)), columns)
                if rows >= columns
                else (rows, max(1, int(columns * share)))
            )


def _cost(
    route: Route, subject: Subject, arrays: Arrays, x: Tree, y: Tree | None, size: tuple[int, int], full: bool
) -> RouteCost:
    rows, columns = size
    n, m = count(x), count(x if y is None else y)
    one = (rows, columns) == (n, m)
    left, right = _shapes(x, rows), None if y is None and one else _shapes(x if y is None else y, columns)
    lowered = jax.jit(_tile(route, subject, full)).lower(_shapes(arrays), left, right)
    program = lowered.compile()
    flops, traffic = _counted(program)
    if isinstance(route, ByProducts):
        # The compiler counts a loop once: what is done before it is counted apart, the rest happens for every pair.
        forward = jax.jit(lambda arrays, x: subject.each(arrays.chosen, arrays.others, x))
        before = _counted(forward.lower(_shapes(arrays), left).compile())
        outputs = jax.eval_shape(subject.outputs, arrays.chosen, arrays.others, left).shape[1]
        flops, traffic = (
            b + max(a - b, 0.0) * columns * outputs for a, b in zip((flops, traffic), before, strict=True)
        )
    tiles = math.ceil(n / rows) * math.ceil(m / columns)
    if y is None and not one:
        tiles = math.ceil(n / rows) * (math.ceil(n / rows) + 1) // 2
    memory = program.memory_analysis()
    scratch = int(getattr(memory, "temp_size_in_bytes", 0) or 0)
    return RouteCost(tiles * flops, tiles * traffic, scratch, rows, columns, program)


def _tile(route: Route, subject: Subject, full: bool) -> Any:
    def tile(arrays: Arrays, x: Tree, y: Tree | None) -> Any:
        # Kernels are solved with: products rounded to half precision, the default on GPUs, would spoil them.
        with jax.default_matmul_precision("highest"):
            return route.tile(subject, arrays, x, y, full=full)

    return tile


def _counted(program: Any) -> tuple[float, float]:
    found = program.cost_analysis() or {}
    flops = float(found.get("flops", 0.0)) + 10.0 * float(found.get("transcendentals", 0.0))
    return flops, float(found.get("bytes accessed", 0.0))


def _shapes(tree: Tree, examples: int | None = None) -> Tree:
    def shape(a: Any) -> jax.ShapeDtypeStruct:
        array = jnp.asarray(a) if not hasattr(a, "aval") else a
        size = array.shape if examples is None else (examples, *array.shape[1:])
        return jax.ShapeDtypeStruct(size, array.dtype)

    return jax.tree.map(shape, tree)


__all__ = ["PER_BYTE", "KernelPlan", "RouteCost", "plan"]
