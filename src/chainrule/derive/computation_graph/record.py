"""Record of the two sweeps over a program: nodes and edges, found by name and by neighbourhood."""

from collections.abc import Sequence
from functools import cached_property
from typing import final

from chainrule.core.errors import ArgumentError, suggest
from chainrule.derive.computation_graph.node import Edge, Node


@final
class Record:
    """Nodes in the order of the program and the edges between them."""

    def __init__(
        self, nodes: Sequence[Node], edges: Sequence[Edge], outputs: Sequence[str], title: str
    ) -> None:
        self.nodes = tuple(nodes)
        self.edges = tuple(edges)
        self.outputs = tuple(outputs)
        self.title = title

    def node(self, which: int | str | Node) -> Node:
        """A node by its id or name."""
        if isinstance(which, Node):
            which = which.id
        if isinstance(which, int) and 0 <= which < len(self.nodes):
            return self.nodes[which]
        if isinstance(which, str) and which in self._by_name:
            return self._by_name[which]
        hint = suggest(which, self._by_name) if isinstance(which, str) else ""
        raise ArgumentError(
            f"graph.node({which!r}): there is no such node{hint}",
            remedy=f"nodes have ids 0 to {len(self.nodes) - 1} and the names in graph.table()",
        )

    def edges_from(self, node: Node) -> tuple[Edge, ...]:
        """The uses of a node's results."""
        return self._uses[node.id]

    def edges_to(self, node: Node) -> tuple[Edge, ...]:
        """The operands of a node."""
        return self._operands[node.id]

    @cached_property
    def derivative(self) -> float:
        """u·Jv, read at the outputs."""
        return sum(edge.product for edge in self.edges if edge.target is None)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _uses(self) -> list[tuple[Edge, ...]]:
        found: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            found[edge.source].append(edge)
        return [tuple(one) for one in found]

    @cached_property
    def _operands(self) -> list[tuple[Edge, ...]]:
        found: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            if edge.target is not None:
                found[edge.target].append(edge)
        return [tuple(one) for one in found]


__all__ = ["Record"]
