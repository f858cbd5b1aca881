"""Sum over paths: every path between two nodes, and its contribution to the derivative.

Between scalars the contribution of a path is the product of the local derivatives along it, and the sum over all
paths is the derivative. For arrays the products are matrices; shown is what a path carries from the tangent at its
start to the adjoint at its end, so the sum is the derivative of the weighted end along the start's direction.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.computation_graph.summaries import number, pairing
from chainrule.derive.jaxprs.equations import is_literal
from chainrule.derive.jaxprs.local import Operations

LIMIT = 1000
"""More paths than this are counted but not listed."""


@final
@dataclass(frozen=True)
class GraphPath:
    """One way through the graph."""

    nodes: tuple[Node, ...] = field(repr=False)
    contribution: float

    def __str__(self) -> str:
        return f"{' -> '.join(node.name for node in self.nodes)}: {number(self.contribution)}"


@final
@dataclass(frozen=True)
class GraphPaths:
    """All paths between two nodes; `total` is the derivative their contributions add up to.

    >>> from chainrule.derive.computation_graph import graph
    >>> import jax.numpy as jnp
    >>> print(graph(lambda x: jnp.sin(x) * x, 0.0).paths("x", "mul"))
    x -> sin -> mul: 0
    x -> mul: 0
    total: 0
    """

    paths: tuple[GraphPath, ...]
    total: float

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[GraphPath]:
        return iter(self.paths)

    def __getitem__(self, position: int) -> GraphPath:
        return self.paths[position]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.paths), f"total: {number(self.total)}"])


def find(graph: Record, start: Node, end: Node, limit: int) -> GraphPaths:
    """Count the paths, refuse if there are too many, then follow each."""
    ways = _count(graph, start, end)
    if ways[start.id] > limit:
        raise ArgumentError(
            f"graph.paths({start.name!r}, {end.name!r}): there are {ways[start.id]} paths, more than limit={limit}",
            remedy="raise limit= (--limit), take nodes closer together,\n"
            "or fold a repeated part into a function or scan",
        )
    found: list[GraphPath] = []
    follower = _Follower(graph, end, ways, found)
    follower.follow((start,), _seed(start))
    return GraphPaths(tuple(found), float(sum(path.contribution for path in found)))


def _count(graph: Record, start: Node, end: Node) -> list[int]:
    """For every node, in how many ways the end is reached from it; edges that carry no derivative do not count."""
    ways = [0] * len(graph.nodes)
    ways[end.id] = 1
    for position in range(end.id - 1, start.id - 1, -1):
        ways[position] = sum(
            ways[edge.target]
            for edge in graph.edges_from(graph.nodes[position])
            if edge.target is not None and edge.adjoint is not None
        )
    return ways


def _seed(start: Node) -> tuple[Any, ...]:
    """1 for a scalar, so that contributions are derivatives; the tangent found by the sweep otherwise."""
    return tuple(jnp.ones_like(value) for value in start.values) if _is_scalar(start) else start.tangents


def _is_scalar(node: Node) -> bool:
    return len(node.values) == 1 and node.values[0].size == 1 and node.tangents[0] is not None


@final
class _Follower:
    """Depth first along the edges, pushing the tangent through one operand at a time."""

    def __init__(self, graph: Record, end: Node, ways: list[int], found: list[GraphPath]) -> None:
        self.graph, self.end, self.ways, self.found = graph, end, ways, found
        self.operations = Operations(node.equation for node in graph.nodes if node.equation is not None)

    def follow(self, walked: tuple[Node, ...], tangents: tuple[Any, ...]) -> None:
        """Extend the path by every edge that leads to the end."""
        stack = [(walked, tangents)]
        while stack:
            walked, tangents = stack.pop()
            if walked[-1].id == self.end.id:
                self.found.append(GraphPath(walked, self._weigh(tangents)))
                continue
            for edge in reversed(self.graph.edges_from(walked[-1])):
                if edge.target is not None and edge.adjoint is not None and self.ways[edge.target]:
                    target = self.graph.nodes[edge.target]
                    stack.append(((*walked, target), self._push(edge, target, tangents)))

    def _push(self, edge: Edge, target: Node, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
        operands: list[Any] = [
            jnp.asarray(atom.val, atom.aval.dtype) if is_literal(atom) else None
            for atom in target.equation.invars
        ]
        moves: list[Any] = [None] * len(operands)
        for arriving in self.graph.edges_to(target):
            operands[arriving.operand] = self.graph.nodes[arriving.source].values[arriving.output]
        moves[edge.operand] = tangents[edge.output]
        _, slopes = self.operations.of(target.equation).push(operands, moves)
        return tuple(slopes)

    def _weigh(self, tangents: tuple[Any, ...]) -> float:
        scalar = _is_scalar(self.end)
        weights = [jnp.ones_like(self.end.value)] if scalar else self.end.adjoints
        return sum(pairing(weight, tangent) for weight, tangent in zip(weights, tangents, strict=True))


__all__ = ["LIMIT", "GraphPath", "GraphPaths", "find"]
