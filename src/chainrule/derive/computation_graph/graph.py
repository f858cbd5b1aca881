"""The computation graph of a function at a point: every operation with its value, tangent and adjoint."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.core import notebook
from chainrule.core.pictures import Slides, Table
from chainrule.derive.computation_graph import cuts, drawing, export, folding, inner_graphs, paths
from chainrule.derive.computation_graph.backward import BackwardPass
from chainrule.derive.computation_graph.local_derivatives import LocalDerivatives
from chainrule.derive.computation_graph.node import Edge, Node
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.computation_graph.sweep import sweep
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs.tracing import directions, require_some_inexact, trace


def graph(f: Callable[..., Any], *args: Any, tangent: Any = None, cotangent: Any = None) -> "Graph":
    """Run `f` and both of its derivative sweeps, and keep everything.

    Nodes are operations, edges the variables between them. A forward sweep carries `tangent` (a direction with the
    structure of the arguments, by default all ones), a reverse sweep carries `cotangent` (weights with the structure
    of the result, by default all ones, so 1 for a scalar). Calls, loops and branches are single nodes that
    `Graph.open` looks into. Any JAX function of any arguments; integer arguments are shown but do not move. Complex
    numbers follow JAX: the product of an adjoint and a tangent is the real part of the sum of entrywise products.
    Where `f` branches in Python on values, the graph is of the branch taken at these arguments, and its title says so.

    >>> g = graph(lambda x: x + x**2, 3.0)
    >>> [(node.name, float(node.tangent), float(node.adjoint)) for node in g.nodes]
    [('x', 1.0, 7.0), ('integer_pow', 6.0, 1.0), ('add', 7.0, 1.0)]
    >>> g.cut(["x", "integer_pow"]).terms
    (1.0, 6.0)
    """
    traced = trace("graph", f, args, follow=True)
    require_some_inexact("graph", traced.inputs, traced.leaves)
    if tangent is not None and len(args) == 1:
        tangent = (tangent,)
    moves = directions(
        "graph(tangent=...)", "the arguments", tangent, traced.in_tree, traced.inputs, traced.leaves
    )
    outs = traced.program.out_avals
    weights = directions(
        "graph(cotangent=...)", "the result", cotangent, traced.out_tree, traced.outputs, outs
    )
    program = eqs.open_trivial_calls(traced.program)
    title = "the branch taken at these arguments" if traced.followed else ""
    return Graph(program, traced.inputs, traced.outputs, traced.leaves, moves, weights, title=title)


@final
class Graph:
    """Operations, the variables between them, and the numbers of both sweeps."""

    def __init__(
        self,
        program: ClosedJaxpr,
        inputs: Sequence[str],
        outputs: Sequence[str],
        values: Sequence[Any],
        tangents: Sequence[Any],
        cotangents: Sequence[Any],
        *,
        title: str = "",
    ) -> None:
        nodes, edges = sweep(program, inputs, values, tangents, cotangents)
        self._record = Record(nodes, edges, outputs, title)
        self._locals = LocalDerivatives(self._record)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Inputs first, then operations in the order they run."""
        return self._record.nodes

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The variables, each from the node that makes it to one that uses it."""
        return self._record.edges

    @property
    def title(self) -> str:
        """What a graph opened from a node shows, e.g. "scan, step 2 of 10"."""
        return self._record.title

    @property
    def derivative(self) -> float:
        """u·Jv: the derivative of the weighted output along the direction."""
        return self._record.derivative

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __str__(self) -> str:
        return export.text(self.table())

    def node(self, which: int | str | Node) -> Node:
        """A node by its id or name."""
        return self._record.node(which)

    def edges_from(self, which: int | str | Node) -> tuple[Edge, ...]:
        """The uses of a node's results."""
        return self._record.edges_from(self.node(which))

    def edges_to(self, which: int | str | Node) -> tuple[Edge, ...]:
        """The operands of a node."""
        return self._record.edges_to(self.node(which))

    def local_derivative(self, edge: Edge) -> np.ndarray | None:
        """d target / d source of an edge, axes of the target first; none where it has more than 64 entries.

        >>> g = graph(lambda x, y: x * y**2, 3.0, 2.0)
        >>> [float(g.local_derivative(edge)) for edge in g.edges_to("mul")]
        [4.0, 3.0]
        """
        return self._locals.of(edge)

    def backward(self) -> BackwardPass:
        """The backward pass step by step: what each operation sends to its operands, as numbers and expressions."""
        return self._backward

    def open(self, which: int | str | Node, iteration: int = 0) -> "Graph":
        """The graph inside a call, the branch taken, or one step of a loop (counted from 0)."""
        inside = inner_graphs.look_inside(self._record, self.node(which), iteration)
        return Graph(
            inside.program,
            inside.inputs,
            inside.outputs,
            inside.values,
            inside.tangents,
            inside.cotangents,
            title=inside.title,
        )

    def suspicious_step(self, which: int | str | Node, what: str) -> int | None:
        """The step at which a loop's state (its "value", "tangent" or "adjoint") stops being finite, if it tells."""
        return inner_graphs.suspicious_step(self._record, self.node(which), what)

    def paths(
        self, start: int | str | Node, end: int | str | Node, *, limit: int = paths.LIMIT
    ) -> paths.GraphPaths:
        """Every way from one node to another with its share of the derivative; see `Paths`."""
        return paths.find(self._record, self.node(start), self.node(end), limit)

    def cut(self, nodes: Iterable[int | str | Node]) -> cuts.Cut:
        """The variables leaving the given nodes and everything before them: their products sum to u·Jv."""
        return cuts.cut(self._record, [self.node(one) for one in nodes])

    def invariant(self) -> cuts.Invariant:
        """The sum across every cut between two successive operations, all equal to u·Jv."""
        return cuts.invariant(self._record)

    def fold(self, limit: int = folding.LIMIT) -> folding.Folded:
        """At most `limit` boxes: whole source lines and repeated blocks folded together when there are more nodes."""
        return folding.fold(self._record, limit)

    def table(self, limit: int = export.ROWS) -> Table:
        """One row per node; a graph of more than `limit` nodes has one row per folded group."""
        return export.table(self._record, limit)

    def to_json(self, path: str | Path | None = None) -> str:
        """Nodes, edges and invariant as JSON; arrays of more than 16 entries as statistics."""
        return export.save(export.json_text(self._record), path)

    def to_dot(self, path: str | Path | None = None) -> str:
        """The graph in the language of Graphviz."""
        return export.save(export.dot_text(self._record), path)

    def to_svg(
        self,
        path: str | Path | None = None,
        *,
        limit: int = folding.LIMIT,
        focus: int | str | Node | None = None,
        radius: int = 2,
        step: int | None = None,
    ) -> str:
        """A picture.

        A graph of more than `limit` nodes is folded and the picture says how. `focus` shows the neighbourhood of one
        node instead, `radius` edges deep. `step` shows a step of the backward pass: the adjoints that have arrived
        when it is done, and what it sends.
        """
        centre = None if focus is None else self.node(focus)
        moment = None if step is None else self.backward().moment(step)
        return export.save(drawing.svg(self._record, self._locals, limit, centre, radius, moment), path)

    def slides(self) -> Slides:
        """The backward pass as a picture for every step, for a page that steps through them."""
        passed = self.backward()
        last = len(passed) - 1
        drawn = [
            drawing.svg(self._record, self._locals, folding.LIMIT, None, 0, passed.moment(number))
            for number in range(last + 1)
        ]
        notes = ["\n".join([f"step {number} of {last}", *passed.notes(number)]) for number in range(last + 1)]
        return Slides("backward", "The backward pass, step by step", drawn, notes)

    @cached_property
    def _backward(self) -> BackwardPass:
        return BackwardPass(self._record, self._locals)

    def _repr_html_(self) -> str:
        return notebook.drawing(self.to_svg())


__all__ = ["Graph", "graph"]
