"""The backward pass of a graph, one operation after another.

It starts with the adjoint of the result. Each operation, from the last to the first, sends its adjoint times its local
derivative to every operand, and an operand adds up what it is sent: that is all of reverse mode. Every step is written
with numbers and as an expression in the names of the graph; the expressions together are the gradient program.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Table
from chainrule.derive.computation_graph.drawing import DrawnStep
from chainrule.derive.computation_graph.local_derivatives import LocalDerivatives
from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.computation_graph.summaries import brief


@final
@dataclass(frozen=True)
class Message:
    """What one operand is sent: adjoint times local derivative."""

    edge: Edge = field(repr=False)
    to: str
    contribution: Any
    """Adjoint times local derivative."""
    so_far: Any
    """The operand's adjoint with this contribution."""
    locals_: LocalDerivatives = field(repr=False)

    @property
    def local(self) -> np.ndarray | None:
        """The local derivative, where it has few entries."""
        return self.locals_.of(self.edge)

    @cached_property
    def expression(self) -> str:
        """The local derivative in the names of the graph, for operations between scalars; else empty."""
        return self.locals_.expression(self.edge)


@final
@dataclass(frozen=True)
class BackwardStep:
    """One operation of the backward pass; the first step has none and gives the results their adjoints."""

    node: Node | None
    adjoint: Any
    messages: tuple[Message, ...]

    @property
    def title(self) -> str:
        """What happens."""
        if self.node is None:
            return "start: the adjoint of the result is given"
        return f"{self.node.name} = {self.node.formula}, adjoint {brief(self.adjoint)}"

    @property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """The operands that are sent something, each with the node that sends it."""
        edges = [message.edge for message in self.messages]
        return frozenset((edge.source, edge.target) for edge in edges if edge.target is not None)

    @property
    def lines(self) -> list[str]:
        """What each operand is sent, with numbers."""
        return [self._line(message) for message in self.messages]

    @property
    def expressions(self) -> list[str]:
        """The same in the names of the graph."""
        return [self._expression(message) for message in self.messages]

    def _line(self, message: Message) -> str:
        sent = brief(message.contribution)
        after = f"; {message.to} has {brief(message.so_far)} so far" if brief(message.so_far) != sent else ""
        if self.node is None:
            return f"{message.to} ← {sent}{after}"
        scalar = message.local is not None and message.local.size == 1
        spelled = f"{brief(self.adjoint)} · {brief(message.local)} = {sent}" if scalar else sent
        return f"{message.to} ← {spelled}{after}"

    def _expression(self, message: Message) -> str:
        if self.node is None:
            return f"r[{message.to}] += {brief(message.contribution)}"
        local = message.expression or f"d {self.node.name} / d {message.to}"
        if local == "1.0":
            return f"r[{message.to}] += r[{self.node.name}]"
        bracketed = f"({local})" if " " in local else local
        return f"r[{message.to}] += r[{self.node.name}] * {bracketed}"


@final
class BackwardPass:
    """The steps of a backward pass.

    >>> from chainrule.derive.computation_graph import graph
    >>> print(graph(lambda x: x + x**2, 3.0).backward())
    step 0  start: the adjoint of the result is given
              add ← 1                               r[add] += 1
    step 1  add = x + integer_pow, adjoint 1
              x ← 1 · 1 = 1                         r[x] += r[add]
              integer_pow ← 1 · 1 = 1               r[integer_pow] += r[add]
    step 2  integer_pow = x ** 2, adjoint 1
              x ← 1 · 6 = 6; x has 7 so far         r[x] += r[integer_pow] * (2.0 * x)
    """

    def __init__(self, graph: Record, locals_: LocalDerivatives) -> None:
        self.steps = tuple(_steps(graph, locals_))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[BackwardStep]:
        return iter(self.steps)

    def step(self, number: int) -> BackwardStep:
        """A step by its number."""
        if not 0 <= number < len(self):
            raise ArgumentError(f"step={number}: the backward pass has the steps 0 to {len(self) - 1}")
        return self.steps[number]

    def __str__(self) -> str:
        return "\n".join(self.text(number) for number in range(len(self)))

    def text(self, number: int) -> str:
        """One step as text: what it is about, then a line for each operand with numbers and as an expression."""
        indented = [f"          {line}" for line in self.notes(number)]
        return "\n".join([f"step {number:<2} {self.step(number).title}", *indented])

    def notes(self, number: int) -> list[str]:
        """A line for each operand of a step, with numbers and as an expression."""
        step = self.step(number)
        return [
            f"{numbers:<36}  {expression}"
            for numbers, expression in zip(step.lines, step.expressions, strict=True)
        ]

    def adjoints_after(self, number: int) -> dict[int, Any]:
        """By the number of a node, what it has been sent when a step is done; only nodes that something has reached."""
        return {
            message.edge.source: message.so_far
            for step in self.steps[: number + 1]
            for message in step.messages
            if message.edge.output == 0
        }

    def moment(self, number: int) -> DrawnStep:
        """What a picture of a step shows."""
        step = self.step(number)
        return DrawnStep(
            self.adjoints_after(number),
            None if step.node is None else step.node.id,
            step.pairs,
            frozenset().union(*(one.pairs for one in self.steps[: number + 1])),
            f"step {number} of {len(self) - 1}: {step.title}",
        )

    def table(self) -> Table:
        """One row for each operand of each step."""
        rows: list[list[str | float | int]] = [
            [
                number,
                "result" if step.node is None else step.node.name,
                brief(step.adjoint),
                message.to,
                "" if message.local is None else brief(message.local),
                brief(message.contribution),
                brief(message.so_far),
                expression,
            ]
            for number, step in enumerate(self.steps)
            for message, expression in zip(step.messages, step.expressions, strict=True)
        ]
        columns = [
            "step",
            "node",
            "adjoint",
            "operand",
            "local derivative",
            "sent",
            "operand's adjoint",
            "expression",
        ]
        return Table("backward-steps", "The backward pass, step by step", columns, rows)


def _steps(graph: Record, locals_: LocalDerivatives) -> Iterator[BackwardStep]:
    so_far: dict[tuple[int, int], Any] = {}

    def sent(edges: tuple[Edge, ...]) -> tuple[Message, ...]:
        messages = []
        for edge in edges:
            if edge.adjoint is None:
                continue
            slot = edge.source, edge.output
            so_far[slot] = so_far[slot] + edge.adjoint if slot in so_far else edge.adjoint
            name = graph.nodes[edge.source].name
            messages.append(Message(edge, name, edge.adjoint, so_far[slot], locals_))
        return tuple(messages)

    results = tuple(edge for edge in graph.edges if edge.target is None)
    first = sent(results)
    yield BackwardStep(None, first[0].contribution if len(first) == 1 else None, first)
    reached = {edge.source for edge in results if edge.adjoint is not None}
    for node in reversed(graph.nodes):
        if node.id not in reached or node.equation is None:
            continue
        messages = sent(graph.edges_to(node))
        reached |= {message.edge.source for message in messages}
        if messages:
            yield BackwardStep(node, node.adjoint, messages)


__all__ = ["BackwardPass", "BackwardStep", "Message"]
