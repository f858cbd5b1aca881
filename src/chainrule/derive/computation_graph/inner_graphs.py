"""Inner graphs of a node: the program of a call, the branch that was taken, one step of a loop.

What flows into the inside is what flowed into the node; what flows back is the adjoint of the node's results. For a
step of a loop the state, its tangent and its adjoint at that step are computed first, all steps at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from chainrule.core.errors import ArgumentError
from chainrule.derive.computation_graph.node import Node
from chainrule.derive.computation_graph.record import Record
from chainrule.derive.computation_graph.summaries import is_numeric, to_host
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.jaxprs import loops
from chainrule.derive.jaxprs.formula import literal
from chainrule.derive.jaxprs.local import Operation
from chainrule.derive.jaxprs.tracing import is_inexact


@final
@dataclass(frozen=True)
class Inside:
    """Everything a graph is made from."""

    program: ClosedJaxpr
    inputs: list[str]
    outputs: list[str]
    values: list[Any]
    tangents: list[Any]
    cotangents: list[Any]
    title: str


def look_inside(graph: Record, node: Node, iteration: int) -> Inside:
    """The program inside a folded node with the numbers that flow through it."""
    if not node.folded:
        folded = [one.name for one in graph.nodes if one.folded]
        raise ArgumentError(
            f"graph.open({node.name!r}): {node.operation} is a single operation, there is nothing inside",
            remedy=f"folded nodes here: {', '.join(folded) or 'none'}",
        )
    names, values, tangents = _operands(graph, node)
    if node.kind == "loop":
        return _step(node, names, values, tangents, iteration)
    if node.kind == "branch":
        assert node.taken is not None
        branches = node.equation.params["branches"]
        program = eqs.closed(branches[node.taken])
        names, values, tangents = names[1:], values[1:], tangents[1:]
        title = f"{node.name}, branch {node.taken + 1} of {len(branches)}"
    else:
        inner = eqs.body(node.equation)
        assert inner is not None
        program = inner
        title = f"{node.name}: the code itself, without its custom rule" if node.custom else node.name
    outputs, cotangents = _outputs(len(node.adjoints)), list(node.adjoints)
    return Inside(eqs.open_trivial_calls(program), names, outputs, values, tangents, cotangents, title)


def _operands(graph: Record, node: Node) -> tuple[list[str], list[Any], list[Any]]:
    edges = {edge.operand: edge for edge in graph.edges_to(node)}
    names: list[str] = []
    values: list[Any] = []
    tangents: list[Any] = []
    for operand, atom in enumerate(node.equation.invars):
        if operand in edges:
            source = graph.nodes[edges[operand].source]
            output = edges[operand].output
            names.append(source.name)
            values.append(source.values[output])
            tangents.append(source.tangents[output])
        else:
            value = jnp.asarray(atom.val, atom.aval.dtype)
            names.append(literal(atom.val))
            values.append(value)
            tangents.append(jnp.zeros_like(value) if is_inexact(value) else None)
    return names, values, tangents


def _step(node: Node, names: list[str], values: list[Any], tangents: list[Any], iteration: int) -> Inside:
    loop = loops.of_equation(node.equation, values)
    if not 0 <= iteration < loop.length:
        raise ArgumentError(
            f"graph.open({node.name!r}, iteration={iteration}): the loop ran {loop.length} times",
            remedy=f"iterations are 0 to {loop.length - 1}"
            if loop.length
            else "there is no step to look into",
        )
    # What only the condition of a while loop reads does not enter the body.
    skip = 0 if node.operation == "scan" else node.equation.params["cond_nconsts"]
    names, values, tangents = names[skip:], values[skip:], tangents[skip:]
    first, second = len(loop.constants), len(loop.constants) + len(loop.state)
    index = loop.slice_index(iteration)
    entered, slopes = _states(loop, values, tangents)
    if iteration + 1 == loop.length:
        leaving = list(node.adjoints[: second - first])
    else:
        leaving = _at(_state_adjoints(node, loop, values), loop.slice_index(iteration + 1))
    return Inside(
        program=eqs.open_trivial_calls(loop.body),
        inputs=names,
        outputs=_outputs(len(node.adjoints)),
        values=[*values[:first], *_at(entered, index), *_at(values[second:], index)],
        tangents=[*tangents[:first], *_at(slopes, index), *_at(tangents[second:], index)],
        cotangents=[*leaving, *_at(node.adjoints[second - first :], index)],
        title=f"{node.name}, step {iteration + 1} of {loop.length}",
    )


def suspicious_step(graph: Record, node: Node, what: str) -> int | None:
    """The step of a loop at which its state (value, tangent or adjoint) stops being finite, if the state tells."""
    _, values, tangents = _operands(graph, node)
    loop = loops.of_equation(node.equation, values)
    skip = 0 if node.operation == "scan" else node.equation.params["cond_nconsts"]
    if what == "adjoint":
        stacked = _state_adjoints(node, loop, values[skip:])
    else:
        stacked = _states(loop, values[skip:], tangents[skip:])[what == "tangent"]
    finite = np.ones(loop.length, bool)
    for one in stacked:
        if one is not None and is_numeric(one):
            finite &= np.isfinite(to_host(one)).reshape(loop.length, -1).all(axis=1)
    entering = [bool(finite[loop.slice_index(step)]) for step in range(loop.length)]
    if all(entering):  # the state entering each step is fine: only the last step can have spoiled its result
        return loop.length - 1 if what != "adjoint" and loop.length else None
    if what == "adjoint":
        return max(step for step, fine in enumerate(entering) if not fine)
    return max(entering.index(False) - 1, 0)


def _at(stacked: Sequence[Any], index: int) -> list[Any]:
    return [None if one is None else one[index] for one in stacked]


def _outputs(count: int) -> list[str]:
    return ["output"] if count == 1 else [f"output.{i}" for i in range(count)]


def _states(loop: loops.Loop, flat: list[Any], moving: list[Any]) -> tuple[list[Any], list[Any]]:
    """The stacked states entering all steps, and their tangents."""
    run = loops.states(loop)
    nudges = loops.no_nudges(loop)

    def entering(*operands: Any) -> list[Any]:
        return run(*_split(loop, operands), nudges)[1]

    return Operation("loop", entering).push(flat, moving)


def _state_adjoints(node: Node, loop: loops.Loop, flat: list[Any]) -> list[Any]:
    """The stacked adjoints of the states entering all steps."""
    run = loops.states(loop)
    nudges = loops.no_nudges(loop)
    given = [nudge for nudge in nudges if nudge is not None]

    def results(*moved: Any) -> list[Any]:
        remaining = iter(moved)
        full = tuple(None if nudge is None else next(remaining) for nudge in nudges)
        last, _, produced = run(*_split(loop, flat), full)
        return [*last, *produced]

    shares = iter(Operation("loop", results).pull(given, list(node.adjoints)))
    return [None if nudge is None else next(shares) for nudge in nudges]


def _split(loop: loops.Loop, operands: Any) -> tuple[Any, Any, Any]:
    first, second = len(loop.constants), len(loop.constants) + len(loop.state)
    return operands[:first], operands[first:second], operands[second:]


__all__ = ["Inside", "look_inside", "suspicious_step"]
