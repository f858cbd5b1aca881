"""Text formats of a graph: table, JSON, Graphviz."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chainrule.core.formatting import memory_size
from chainrule.core.pictures import Table
from chainrule.derive.computation_graph import cuts
from chainrule.derive.computation_graph.folding import LIMIT, fold
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.computation_graph.summaries import brief, plain

ROWS = 60
"""Rows a table shows before it folds."""
_COLUMNS = ("id", "node", "formula", "type", "value", "tangent", "adjoint", "flops", "bytes", "line")


def table(graph: Record, limit: int) -> Table:
    """One row per node, or per folded group where there are too many nodes."""
    title = f"graph of {graph.title or 'a function'}: {len(graph.nodes)} nodes, u·Jv = {graph.derivative:.6g}"
    folded = fold(graph, limit)
    if not folded.statement:
        rows: list[list[str | float | int]] = [
            [
                node.id,
                node.name,
                node.formula,
                "; ".join(f"{one.dtype}{list(one.shape)}" for one in node.types),
                brief(node.value),
                brief(node.tangent),
                brief(node.adjoint),
                node.flops,
                node.bytes,
                str(node.source or ""),
            ]
            for node in graph.nodes
        ]
        return Table("graph", title, _COLUMNS, rows, caption=_outputs(graph))
    rows = [
        [group.title, len(group.nodes), group.operations, group.flops, memory_size(group.bytes)]
        for group in folded.groups
    ]
    columns = ("part", "nodes", "operations", "flops", "bytes")
    return Table("graph", title, columns, rows, caption=folded.statement)


def text(shown: Table) -> str:
    """A table in monospaced text.

    >>> print(text(Table("t", "two numbers", ("name", "value"), [["a", 1], ["long", 22]])))
    two numbers
    name  value
    a     1
    long  22
    """
    rows = [[str(cell) for cell in row] for row in [shown.columns, *shown.rows]]
    widths = [max(len(row[column]) for row in rows) for column in range(len(shown.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(
        [shown.title, *(line.rstrip() for line in lines), *([shown.caption] if shown.caption else [])]
    )


def json_text(graph: Record) -> str:
    """Everything a stepper needs to show both sweeps and the cuts."""
    invariant = cuts.invariant(graph)
    content: dict[str, Any] = {
        "title": graph.title,
        "outputs": list(graph.outputs),
        "derivative": plain_number(graph.derivative),
        "cuts": [plain_number(total) for total in invariant.sums.tolist()],
        "nodes": [
            {
                "id": node.id,
                "name": node.name,
                "operation": node.operation,
                "kind": node.kind,
                "formula": node.formula,
                "source": None
                if node.source is None
                else {"line": str(node.source), "code": node.source.text},
                "types": [f"{one.dtype}{list(one.shape)}" for one in node.types],
                "bytes": node.bytes,
                "flops": node.flops,
                "steps": node.steps,
                "branch": node.taken,
                "value": plain(node.value),
                "tangent": plain(node.tangent),
                "adjoint": plain(node.adjoint),
            }
            for node in graph.nodes
        ],
        "edges": [
            {
                "source": edge.source,
                "output": edge.output,
                "target": edge.target,
                "operand": edge.operand,
                "adjoint": plain(edge.adjoint),
                "product": plain_number(edge.product),
            }
            for edge in graph.edges
        ],
    }
    return json.dumps(content, indent=1, allow_nan=False)


def plain_number(number: float) -> float | str:
    """A number JSON can hold; not-finite ones as text.

    >>> plain_number(1.5), plain_number(float("inf"))
    (1.5, 'inf')
    """
    return number if abs(number) < float("inf") else str(number)


def dot_text(graph: Record) -> str:
    """The graph (folded if large) in the language of Graphviz."""
    folded = fold(graph, LIMIT)
    lines = ["digraph computation {", "  rankdir=LR;", '  node [shape=box, fontname="Helvetica"];']
    for index, group in enumerate(folded.groups):
        node = group.single
        parts = (
            [group.title, f"{len(group.nodes)} nodes", group.operations]
            if node is None
            else [
                node.name,
                node.formula,
                f"value {brief(node.value)}",
                f"t {brief(node.tangent)}",
                f"r {brief(node.adjoint)}",
            ]
        )
        lines.append(f"  n{index} [label={_quoted(parts)}];")
    for index, name in enumerate(graph.outputs):
        lines.append(f"  out{index} [label={_quoted([name])}, shape=plaintext];")
    owner = {node.id: index for index, group in enumerate(folded.groups) for node in group.nodes}
    lines += [f"  n{link.tail} -> n{link.head};" for link in folded.links if link.head is not None]
    lines += [f"  n{owner[edge.source]} -> out{edge.operand};" for edge in graph.edges if edge.target is None]
    if folded.statement:
        lines.append(f"  label={_quoted([folded.statement])};")
    return "\n".join([*lines, "}\n"])


def save(content: str, path: str | Path | None) -> str:
    """The content itself, also written to a file if a path is given."""
    if path is not None:
        Path(path).write_text(content, encoding="utf-8")
    return content


def _quoted(lines: Sequence[str]) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'


def _outputs(graph: Record) -> str:
    results = [
        f"{graph.outputs[edge.operand]} = {graph.nodes[edge.source].name}"
        for edge in graph.edges
        if edge.target is None
    ]
    return ", ".join(results)


__all__ = ["ROWS", "dot_text", "json_text", "plain_number", "save", "table", "text"]
