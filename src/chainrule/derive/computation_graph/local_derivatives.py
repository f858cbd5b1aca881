"""Local derivatives: of one operation in one of its operands, as a number and as an expression.

They are what stands on the edges of the graph. Along a path they are multiplied, over paths the products are added;
an operation of the backward pass sends its adjoint times its local derivative to each operand.
"""

import re
from functools import cached_property
from typing import Any, final

import jax
import numpy as np

from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.formula import formula, literal
from chainrule.derive.jaxprs.local import Operations, function_of
from chainrule.derive.jaxprs.tracing import is_inexact
from chainrule.derive.source_transformation import program

ENTRIES = 64
"""A Jacobian of more entries than this is named by its shape and not computed."""
_LONGEST = 60
"""Characters of an expression that can still be read."""

_CALL = re.compile(r"\w+\(")


@final
class LocalDerivatives:
    """The local derivatives of a graph, each computed when it is first asked for."""

    def __init__(self, graph: Record) -> None:
        self._graph = graph
        self._found: dict[int, dict[int, Any]] = {}

    def of(self, edge: Edge) -> np.ndarray | None:
        """d result / d operand, axes of the result first; none where there is none or it has too many entries."""
        source = self._graph.nodes[edge.source].values[edge.output]
        if not self.exists(edge):
            return None
        if edge.target is None:
            identity = np.eye(source.size) if source.size**2 <= ENTRIES else None
            return None if identity is None else identity.reshape(source.shape * 2)
        target = self._graph.nodes[edge.target]
        if len(target.values) != 1 or target.values[0].size * source.size > ENTRIES:
            return None
        if target.id not in self._found:
            self._found[target.id] = self._of_operands(target)
        return self._found[target.id].get(edge.operand)

    def exists(self, edge: Edge) -> bool:
        """Whether the operation has a derivative in this operand: comparisons and integers have none."""
        target = None if edge.target is None else self._graph.nodes[edge.target]
        return edge.adjoint is not None and (target is None or any(map(is_inexact, target.values)))

    def shape(self, edge: Edge) -> str:
        """Rows and columns of the Jacobian, as they are written where it is too large to show."""
        columns = self._graph.nodes[edge.source].values[edge.output].size
        values = self._graph.nodes[edge.source if edge.target is None else edge.target].values
        return f"{sum(value.size for value in values if is_inexact(value))}×{columns}"

    def expression(self, edge: Edge) -> str:
        """The local derivative in the names of the graph, for operations between scalars; else empty.

        The result of the operation stands under its own name, as the backward pass reads what the forward pass kept.
        """
        if edge.target is None or not self.exists(edge):
            return ""
        target = self._graph.nodes[edge.target]
        scalar = len(target.values) == 1 and all(
            value.shape == () for value in [*self._operands(target), *target.values]
        )
        if not scalar or target.kind != "operation":
            return ""
        written = _derivative(target, edge.operand, self._names(target))
        return written if len(written) <= _LONGEST else ""

    def _of_operands(self, target: Node) -> dict[int, Any]:
        operands = self._operands(target)
        result = target.values[0]
        rows = []
        for entry in range(result.size):
            unit = np.zeros(result.size, result.dtype)
            unit[entry] = 1
            weights = unit.reshape(result.shape)
            rows.append(self._operations.of(target.equation).pull(operands, [weights]))
        return {
            operand: np.stack([np.asarray(row[operand]) for row in rows]).reshape(result.shape + value.shape)
            for operand, value in enumerate(operands)
            if rows and rows[0][operand] is not None
        }

    def _operands(self, target: Node) -> list[Any]:
        operands: list[Any] = [
            np.asarray(atom.val, atom.aval.dtype) if eqs.is_literal(atom) else None
            for atom in target.equation.invars
        ]
        for edge in self._graph.edges_to(target):
            operands[edge.operand] = self._graph.nodes[edge.source].values[edge.output]
        return operands

    def _names(self, target: Node) -> list[str]:
        names = [literal(atom.val) if eqs.is_literal(atom) else "" for atom in target.equation.invars]
        for edge in self._graph.edges_to(target):
            names[edge.operand] = self._graph.nodes[edge.source].name
        return names

    @cached_property
    def _operations(self) -> Operations:
        return Operations(node.equation for node in self._graph.nodes if node.equation is not None)


def _derivative(node: Node, operand: int, names: list[str]) -> str:
    """The derivative program of one operation, written as one line."""
    apply = function_of(node.equation)
    shapes = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in node.equation.invars]
    found = program(lambda *values: apply(*values)[0], *shapes, argnums=operand).simplify().jaxpr
    texts: dict[Any, str] = dict(zip(found.jaxpr.invars, names, strict=True))
    texts |= {
        variable: literal(value) for variable, value in zip(found.jaxpr.constvars, found.consts, strict=True)
    }
    compound: set[Any] = set()
    itself = formula(node.equation, names)

    def read(atom: Any, *, alone: bool) -> str:
        if eqs.is_literal(atom):
            return literal(atom.val)
        return f"({texts[atom]})" if atom in compound and not alone else texts[atom]

    for equation in found.eqns:
        called = _CALL.match(formula(equation, ["x"] * len(equation.invars))) is not None
        result = equation.outvars[0]
        texts[result] = formula(equation, [read(atom, alone=called) for atom in equation.invars])
        if texts[result] == itself:
            texts[result] = node.name
        elif not called:
            compound.add(result)
    return read(found.jaxpr.outvars[0], alone=True)


__all__ = ["ENTRIES", "LocalDerivatives"]
