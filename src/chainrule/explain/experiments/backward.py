"""A backward pass taken apart: the value and adjoint of every node, and the derivative as a sum over paths."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Bars, Table
from chainrule.derive.computation_graph import Graph, graph
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings


@final
class BackwardSettings(Settings):
    """y = tanh(w1 x) + tanh(w2 x): one input that reaches the output on two paths."""

    w1: float = Field(0.5, description="first weight")
    w2: float = Field(-1.0, description="second weight")
    x: float = Field(2.0, description="input")


def network(w1: jax.Array, w2: jax.Array, x: jax.Array) -> jax.Array:
    """Two units that share their input."""
    return jnp.tanh(w1 * x) + jnp.tanh(w2 * x)


def run(settings: BackwardSettings, listener: Listener) -> Outcome:
    """Record both sweeps of the graph and list every path from the input to the output."""
    del listener
    with jax.enable_x64(True):
        numbers = [jnp.float64(value) for value in (settings.w1, settings.w2, settings.x)]
        found = graph(network, *numbers)
        slopes = {name: float(found.node(name).adjoint) for name in ("w1", "w2", "x")}
        paths = found.paths("x", found.nodes[-1])
        rows = _steps(found)
    names = [" → ".join(node.name for node in path.nodes) for path in paths]
    shares = np.array([path.contribution for path in paths])
    return Outcome(
        [
            f"y = {float(found.nodes[-1].value):.6f}; dy/dw1 = {slopes['w1']:.6f}, dy/dw2 = {slopes['w2']:.6f}, "
            f"dy/dx = {slopes['x']:.6f}.",
            f"x reaches y on {len(paths)} paths; the products of the local derivatives along them are "
            f"{' and '.join(f'{share:.6f}' for share in shares)}, and their sum is dy/dx.",
        ],
        [
            Bars(
                "backward-paths",
                "What each path adds to dy/dx",
                "path",
                "product of local derivatives",
                [*names, "sum"],
                {"share": np.append(shares, shares.sum())},
            )
        ],
        Table(
            "backward-table",
            "Forward values (downwards) and adjoints (upwards)",
            ["node", "computes", "value", "adjoint", "passes on"],
            rows,
        ),
        {"value": float(found.nodes[-1].value), **{f"d_{name}": slope for name, slope in slopes.items()}},
    )


def _steps(found: Graph) -> list[list[str | float]]:
    """One row for each node: what it computes, its value, its adjoint, and the adjoint each operand gets from it."""
    rows: list[list[str | float]] = []
    for node in found.nodes:
        gives = [
            f"{found.node(edge.source).name}: {float(edge.adjoint):.6g}"
            for edge in found.edges_to(node)
            if edge.adjoint is not None
        ]
        value, adjoint = (float(np.asarray(v)) for v in (node.value, node.adjoint))
        rows.append([node.name, node.formula or "input", value, adjoint, ", ".join(gives)])
    return rows


experiment = Experiment(
    "A backward pass taken apart: adjoints node by node, and the derivative as a sum over paths.",
    BackwardSettings,
    run,
    toy={},
    reference="Griewank and Walther, Evaluating Derivatives, 2nd edition, 2008",
)

__all__ = ["BackwardSettings", "experiment", "network", "run"]
