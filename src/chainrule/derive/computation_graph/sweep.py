"""Forward and reverse sweep over a program: values and tangents, then adjoints.

Forward, an operation turns the tangents of its operands into those of its results. Backward, each operation sends a
contribution along every edge it came from; a value used several times adds up the contributions of all its uses,
starting from zero.
"""

from collections.abc import Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar

from chainrule.derive.computation_graph.node import Edge, Node, NodeKind
from chainrule.derive.jaxprs import cost, loops
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.formula import formula, literal
from chainrule.derive.jaxprs.local import Operations
from chainrule.derive.jaxprs.source import of_equation
from chainrule.derive.jaxprs.tracing import is_inexact


def sweep(
    program: ClosedJaxpr,
    names: Sequence[str],
    values: Sequence[Any],
    tangents: Sequence[Any],
    cotangents: Sequence[Any],
) -> tuple[list[Node], list[Edge]]:
    """Nodes in the order of the program and the edges between them."""
    sweeper = _Sweep(program, names)
    sweeper.forward(values, tangents)
    sweeper.backward(cotangents)
    return sweeper.nodes(), sweeper.edges


@final
class _Sweep:
    """The working state of the sweeps: slot (node, output) -> value, tangent, adjoint."""

    def __init__(self, program: ClosedJaxpr, names: Sequence[str]) -> None:
        self.program = program
        self.leaves = [*program.jaxpr.constvars, *program.jaxpr.invars]
        self.first = len(self.leaves)
        self.equations = list(program.eqns)
        operations = Operations(self.equations)
        self.operations = [operations.of(equation) for equation in self.equations]
        constants = ["constant"] * len(program.consts)
        self.names = _unique([*constants, *names, *(eqs.label(equation) for equation in self.equations)])
        self.producer: dict[Any, tuple[int, int]] = {leaf: (i, 0) for i, leaf in enumerate(self.leaves)}
        for position, equation in enumerate(self.equations, start=self.first):
            for output, variable in enumerate(equation.outvars):
                if not isinstance(variable, DropVar):
                    self.producer[variable] = (position, output)
        self.values: list[tuple[Any, ...]] = []
        self.tangents: list[tuple[Any, ...]] = []
        self.adjoints: list[list[Any]] = []
        self.used: set[int] = set()
        self.edges: list[Edge] = []
        self._nothing: dict[Any, Any] = {}

    def forward(self, values: Sequence[Any], tangents: Sequence[Any]) -> None:
        """Evaluate, pushing tangents; constants of the program do not move."""
        still = [jnp.zeros_like(c) if is_inexact(jnp.asarray(c)) else None for c in self.program.consts]
        self.values = [(jnp.asarray(value),) for value in [*self.program.consts, *values]]
        self.tangents = [(tangent,) for tangent in [*still, *tangents]]
        for equation, operation in zip(self.equations, self.operations, strict=True):
            operands, moves = self._operands(equation)
            outs, slopes = operation.push(operands, moves)
            self.values.append(tuple(outs))
            self.tangents.append(tuple(slopes))

    def backward(self, cotangents: Sequence[Any]) -> None:
        """Pull adjoints back from the outputs, recording what travels along every edge."""
        self.adjoints = [
            [self._zeros(value) if is_inexact(value) else None for value in results]
            for results in self.values
        ]
        for operand, (atom, share) in enumerate(zip(self.program.jaxpr.outvars, cotangents, strict=True)):
            self._arrive(atom, None, operand, share)
        for position in range(len(self.values) - 1, self.first - 1, -1):
            equation = self.equations[position - self.first]
            operands, _ = self._operands(equation)
            used = position in self.used
            weights = self.adjoints[position] if used else [None] * len(equation.outvars)
            shares = self.operations[position - self.first].pull(operands, weights)
            for operand, (atom, share) in enumerate(zip(equation.invars, shares, strict=True)):
                self._arrive(atom, position, operand, share)
        last = len(self.values)
        self.edges.sort(key=lambda edge: (last if edge.target is None else edge.target, edge.operand))

    def nodes(self) -> list[Node]:
        """The records of all nodes."""
        leaves = [self._leaf(position) for position in range(self.first)]
        return leaves + [self._node(position) for position in range(self.first, len(self.values))]

    def _operands(self, equation: Any) -> tuple[list[Any], list[Any]]:
        values: list[Any] = []
        tangents: list[Any] = []
        for atom in equation.invars:
            if eqs.is_literal(atom):
                values.append(np.asarray(atom.val, atom.aval.dtype))
                tangents.append(None)
            else:
                node, output = self.producer[atom]
                values.append(self.values[node][output])
                tangents.append(self.tangents[node][output])
        return values, tangents

    def _zeros(self, value: Any) -> Any:
        key = value.shape, value.dtype
        if key not in self._nothing:
            self._nothing[key] = jnp.zeros(*key)
        return self._nothing[key]

    def _arrive(self, atom: Any, target: int | None, operand: int, share: Any) -> None:
        if eqs.is_literal(atom):
            return
        node, output = self.producer[atom]
        if self.adjoints[node][output] is not None and share is not None:
            self.adjoints[node][output] = self.adjoints[node][output] + share
            self.used.add(node)
        self.edges.append(Edge(node, output, target, operand, self.tangents[node][output], share))

    def _leaf(self, position: int) -> Node:
        constant = position < len(self.program.consts)
        return self._record(
            position, "constant" if constant else "input", "constant" if constant else "input", "", None, None
        )

    def _node(self, position: int) -> Node:
        equation = self.equations[position - self.first]
        operands = [
            literal(atom.val) if eqs.is_literal(atom) else self._variable(atom) for atom in equation.invars
        ]
        return self._record(
            position,
            equation.primitive.name,
            eqs.kind(equation),
            formula(equation, operands),
            of_equation(equation),
            equation,
        )

    def _variable(self, atom: Any) -> str:
        node, output = self.producer[atom]
        several = len(self.values[node]) > 1
        return f"{self.names[node]}.{output}" if several else self.names[node]

    def _record(
        self, position: int, operation: str, kind: NodeKind, text: str, source: Any, equation: Any
    ) -> Node:
        atoms = [self.leaves[position]] if equation is None else equation.outvars
        steps, taken = self._ran(equation) if equation is not None else (None, None)
        return Node(
            id=position,
            name=self.names[position],
            operation=operation,
            kind=kind,
            formula=text,
            source=source,
            types=tuple(jax.ShapeDtypeStruct(value.shape, value.dtype) for value in self.values[position]),
            bytes=cost.nbytes(atoms),
            flops=0 if equation is None else cost.flops(equation, steps),
            values=self.values[position],
            tangents=self.tangents[position],
            adjoints=tuple(self.adjoints[position]),
            steps=steps,
            taken=taken,
            custom=equation is not None and eqs.is_custom(equation),
            equation=equation,
        )

    def _ran(self, equation: Any) -> tuple[int | None, int | None]:
        if eqs.kind(equation) == "operation":
            return None, None
        operands, _ = self._operands(equation)
        if equation.primitive.name == "scan":
            return int(equation.params["length"]), None
        if equation.primitive.name == "while":
            return loops.count_steps(equation, operands), None
        if equation.primitive.name == "cond":
            last = len(equation.params["branches"]) - 1
            return None, min(max(int(operands[0]), 0), last)
        return None, None


def _unique(proposals: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    taken: set[str] = set()
    names = []
    for proposal in proposals:
        name = proposal
        while name in taken or not name:
            counts[proposal] = counts.get(proposal, 1) + 1
            name = f"{proposal}_{counts[proposal]}"
        taken.add(name)
        names.append(name)
    return names


__all__ = ["sweep"]
