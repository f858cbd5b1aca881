"""Folding of large graphs: operations of one source line, and repeated blocks, become one box.

A program with ten thousand operations comes from a few lines that ran often. Operations are grouped by the line they
were written on; lines that feed each other in turn (the body of a Python loop) become one group, which leaves a
graph without cycles. If that is still too much, the program is cut into equal slices. Nothing is dropped: every box
says how many operations it holds, and the caption says how they were folded.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from chainrule.derive.computation_graph.node import Node
from chainrule.derive.computation_graph.record import Record

LIMIT = 28
"""Boxes a picture can hold and still be read."""


@final
@dataclass(frozen=True)
class NodeGroup:
    """Some nodes drawn as one box."""

    title: str
    nodes: tuple[Node, ...] = field(repr=False)

    @property
    def single(self) -> Node | None:
        """The node, where there is only one."""
        return self.nodes[0] if len(self.nodes) == 1 else None

    @property
    def operations(self) -> str:
        """What is inside, the most frequent first.

        >>> NodeGroup("empty", ()).operations
        ''
        """
        counts = Counter(node.operation for node in self.nodes).most_common()
        shown = [f"{name} ×{count}" if count > 1 else name for name, count in counts[:4]]
        return ", ".join(shown) + (f" and {len(counts) - 4} more" if len(counts) > 4 else "")

    @property
    def flops(self) -> int:
        """Floating-point operations inside."""
        return sum(node.flops for node in self.nodes)

    @property
    def bytes(self) -> int:
        """Bytes of all results inside."""
        return sum(node.bytes for node in self.nodes)


@final
@dataclass(frozen=True)
class Link:
    """The variables that go from one group to another, or to the function's result."""

    tail: int
    head: int | None
    variables: int
    product: float
    """Their share of u·Jv."""


@final
@dataclass(frozen=True)
class Folded:
    """Groups, the links between them, and a sentence that says what was folded."""

    groups: tuple[NodeGroup, ...]
    links: tuple[Link, ...] = field(repr=False)
    statement: str


def fold(graph: Record, limit: int) -> Folded:
    """Group the nodes of a graph into at most about `limit` boxes."""
    nodes = graph.nodes
    if len(nodes) <= limit:
        groups = [NodeGroup(node.name, (node,)) for node in nodes]
        return Folded(tuple(groups), _links(graph, list(range(len(nodes)))), "")
    leaves = [node.kind if node.kind in ("input", "constant") else "" for node in nodes]
    counts = Counter(leaves)
    keys: list[object] = []
    for node, leaf in zip(nodes, leaves, strict=True):
        if leaf:
            keys.append((leaf,) if counts[leaf] > limit // 4 else (leaf, node.id))
        else:
            keys.append((str(node.source.file), node.source.line) if node.source else (node.operation,))
    labels = _acyclic(graph, keys)
    how = "operations of one source line, and lines that repeat in turn, share a box"
    if len(set(labels)) > limit:
        labels = _slices(
            labels, [bool(leaf) for leaf in leaves], limit - len(set(labels[: sum(map(bool, leaves))]))
        )
        how = "the program is cut into slices of successive operations"
    order = {label: index for index, label in enumerate(dict.fromkeys(labels))}
    groups_of = [order[label] for label in labels]
    members: list[list[Node]] = [[] for _ in order]
    for node, group in zip(nodes, groups_of, strict=True):
        members[group].append(node)
    return Folded(
        tuple(NodeGroup(_title(some), tuple(some)) for some in members),
        _links(graph, groups_of),
        f"{len(nodes)} nodes in {len(members)} boxes: {how}.",
    )


def _acyclic(graph: Record, keys: Sequence[object]) -> list[int]:
    numbers = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    group = np.array([numbers[key] for key in keys])
    inner = [(edge.source, edge.target) for edge in graph.edges if edge.target is not None]
    pairs = group[np.array(inner, dtype=int).reshape(-1, 2)]
    size = len(numbers)
    matrix = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    _, component = connected_components(matrix.tocsr(), connection="strong")
    return [int(component[one]) for one in group]


def _slices(labels: Sequence[int], leaf: Sequence[bool], limit: int) -> list[int]:
    total = len(leaf) - sum(leaf)
    per_slice = -(-total // max(limit, 1))
    first = max(labels) + 1
    found, seen = [], 0
    for label, is_leaf in zip(labels, leaf, strict=True):
        found.append(label if is_leaf else first + seen // per_slice)
        seen += not is_leaf
    return found


def _links(graph: Record, group: Sequence[int]) -> tuple[Link, ...]:
    found: dict[tuple[int, int | None], list[float]] = {}
    for edge in graph.edges:
        head = None if edge.target is None else group[edge.target]
        if head != group[edge.source]:
            found.setdefault((group[edge.source], head), []).append(edge.product)
    return tuple(Link(tail, head, len(some), sum(some)) for (tail, head), some in found.items())


def _title(nodes: Sequence[Node]) -> str:
    if len(nodes) == 1:
        return nodes[0].name
    if nodes[0].kind in ("input", "constant"):
        return f"{len(nodes)} {nodes[0].kind}s"
    lines = sorted({(one.source.file, one.source.line) for one in nodes if one.source})
    files = {file for file, _ in lines}
    if len(files) != 1:
        return f"operations {nodes[0].id} to {nodes[-1].id}"
    first = next(one.source for one in nodes if one.source)
    name = str(first).rpartition(":")[0]
    span = f"{lines[0][1]}" if len(lines) == 1 else f"{lines[0][1]}–{lines[-1][1]}"
    return f"{name}:{span}"


__all__ = ["LIMIT", "Folded", "Link", "NodeGroup", "fold"]
