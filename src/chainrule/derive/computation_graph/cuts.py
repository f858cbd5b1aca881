"""Cuts of the graph: across any of them, adjoint · tangent sums to u·Jv.

At the inputs the sum is the reverse result times the direction, at the outputs the weights times the forward result;
every cut in between says the same number. A cut that does not is proof of a wrong derivative rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.record import Record


@final
@dataclass(frozen=True)
class Cut:
    """The edges from one side to the other and their products."""

    edges: tuple[Edge, ...] = field(repr=False)
    terms: tuple[float, ...]
    """adjoint · tangent of each edge."""
    total: float


@final
@dataclass(frozen=True)
class Invariant:
    """The sums across the cuts after the inputs, after the first operation, and so on to the last."""

    sums: np.ndarray = field(repr=False)
    expected: float
    """u·Jv, read at the outputs."""

    @property
    def deviation(self) -> float:
        """The largest distance of a sum from what is expected, relative to the larger of it and one."""
        if not self.sums.size:
            return 0.0
        return float(np.max(np.abs(self.sums - self.expected)) / max(1.0, abs(self.expected)))


def cut(graph: Record, nodes: Sequence[Node]) -> Cut:
    """The cut behind some nodes, everything they depend on, and all inputs."""
    inside = [node.kind in ("input", "constant") for node in graph.nodes]
    for node in nodes:
        inside[node.id] = True
    for edge in reversed(graph.edges):
        if edge.target is not None and inside[edge.target]:
            inside[edge.source] = True
    crossing = tuple(
        edge
        for edge in graph.edges
        if edge.adjoint is not None
        and inside[edge.source]
        and (edge.target is None or not inside[edge.target])
    )
    terms = tuple(edge.product for edge in crossing)
    return Cut(crossing, terms, float(sum(terms)))


def invariant(graph: Record) -> Invariant:
    """Sums across all cuts in program order; each operation trades its operands' terms for its results'."""
    arriving = np.zeros(len(graph.nodes))
    leaving = np.zeros(len(graph.nodes))
    for edge in graph.edges:
        leaving[edge.source] += edge.product
        if edge.target is not None:
            arriving[edge.target] += edge.product
    leaves = sum(node.kind in ("input", "constant") for node in graph.nodes)
    with np.errstate(invalid="ignore"):  # infinities make NaN, which is what a cut through them is worth
        sums = np.cumsum(leaving - arriving)[max(leaves - 1, 0) :]
    return Invariant(sums, graph.derivative)


__all__ = ["Cut", "Invariant", "cut", "invariant"]
