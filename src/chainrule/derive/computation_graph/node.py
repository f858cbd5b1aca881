"""Nodes and edges of a graph: operations and the variables between them."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, final

import jax

from chainrule.derive.computation_graph.summaries import pairing
from chainrule.derive.jaxprs.source import SourceLine

NodeKind: TypeAlias = Literal["input", "constant", "operation", "call", "loop", "branch"]


@final
@dataclass(frozen=True, eq=False)
class Node:
    """An operation (or an input) with what the two sweeps found there.

    An operation with one result has plain `value`, `tangent` and `adjoint`; one with several has tuples. Integer
    and boolean results have neither tangent nor adjoint: `None`.
    """

    id: int
    name: str
    """Unique in the graph: the operation, numbered from the second on (`sin`, `sin_2`)."""
    operation: str
    """The primitive."""
    kind: NodeKind
    formula: str
    source: SourceLine | None
    types: tuple[jax.ShapeDtypeStruct, ...]
    bytes: int
    flops: int
    values: tuple[Any, ...] = field(repr=False)
    tangents: tuple[Any, ...] = field(repr=False)
    adjoints: tuple[Any, ...] = field(repr=False)
    steps: int | None = None
    """How often a loop ran."""
    taken: int | None = None
    """Which branch was taken."""
    custom: bool = False
    """Whether its derivative is a rule written by a person."""
    equation: Any = field(default=None, repr=False)

    @property
    def value(self) -> Any:
        """The result, or a tuple of results."""
        return self.values[0] if len(self.values) == 1 else self.values

    @property
    def tangent(self) -> Any:
        """The derivative of the result along the given direction of the inputs."""
        return self.tangents[0] if len(self.tangents) == 1 else self.tangents

    @property
    def adjoint(self) -> Any:
        """The derivative of the weighted output with respect to the result."""
        return self.adjoints[0] if len(self.adjoints) == 1 else self.adjoints

    @property
    def shape(self) -> Any:
        """The shape of the result, or a tuple of shapes."""
        shapes = tuple(one.shape for one in self.types)
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def dtype(self) -> Any:
        """The type of the result's entries, or a tuple of types."""
        dtypes = tuple(one.dtype for one in self.types)
        return dtypes[0] if len(dtypes) == 1 else dtypes

    @property
    def folded(self) -> bool:
        """Whether there is a graph inside: `Graph.open` shows it."""
        return self.kind in ("call", "loop", "branch")


@final
@dataclass(frozen=True, eq=False)
class Edge:
    """A variable on its way from the operation that made it to one that uses it, or to the function's result."""

    source: int
    """The node that made the variable."""
    output: int
    """Which of that node's results it is."""
    target: int | None
    """The node that uses it; none for a result of the function."""
    operand: int
    """Which operand of the target, or which output of the function, it is."""
    tangent: Any = field(repr=False)
    adjoint: Any = field(repr=False)
    """What this use contributes to the adjoint of the source."""

    @cached_property
    def product(self) -> float:
        """adjoint · tangent: this edge's share of u·Jv."""
        return pairing(self.adjoint, self.tangent)


__all__ = ["Edge", "Node", "NodeKind"]
