"""A backward pass taken apart: value, local derivative and adjoint of every node, and the derivative over paths."""

from collections.abc import Sequence
from dataclasses import replace
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import expressions
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Table
from chainrule.derive.computation_graph import Graph, graph
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_MOST = 28
"""Nodes of a picture that can be stepped through."""


@final
class BackwardSettings(Settings):
    """A formula and where it is differentiated."""

    f: str = Field(
        "tanh(w1*x) + tanh(w2*x)",
        description="formula of your own: numbers, variables, + - * / ** and functions",
    )
    w1: float = Field(0.5, description="first weight")
    w2: float = Field(-1.0, description="second weight")
    x: float = Field(2.0, description="input")
    at: dict[str, float] = Field(
        default_factory=dict, description="values of the formula's other variables: at.y=3 at.z=0.5"
    )
    paths: str = Field("x", description="variable whose paths to the result are listed")
    step: int | None = Field(None, ge=0, description="the table of the backward pass shows only this step")


def run(settings: BackwardSettings, listener: Listener) -> Outcome:
    """Record both sweeps of the graph, step through the reverse one, and list every path from the input."""
    del listener
    formula = expressions.read(settings.f)
    values = _values(formula.variables, settings)
    if settings.paths not in values:
        known = ", ".join(values)
        raise ArgumentError(
            f"backward(paths={settings.paths!r}): the variables are {known}", remedy="choose one of them"
        )
    with jax.enable_x64(True):
        found = graph(formula, *(jnp.float64(value) for value in values.values()))
        if len(found) > _MOST:
            raise ArgumentError(
                f"backward(f): {len(found)} operations are too many to step through, at most {_MOST}",
                remedy="a function in a file: chainrule derive FILE:FUNCTION --at POINT --steps",
            )
        slopes = {name: float(found.node(name).adjoint) for name in values}
        result = next(found.node(edge.source) for edge in found.edges if edge.target is None)
        paths = found.paths(settings.paths, result)
        steps = found.backward()
        if settings.step is not None:
            steps.step(settings.step)
        table = steps.table()
        shown = replace(table, rows=[row for row in table.rows if settings.step in (None, row[0])])
        slides, rows = found.slides(), _nodes(found)
    names = [" → ".join(node.name for node in path.nodes) for path in paths]
    shares = np.array([path.contribution for path in paths])
    derivatives = ", ".join(f"df/d{name} = {slope:.6f}" for name, slope in slopes.items())
    return Outcome(
        [
            f"f = {settings.f} = {float(result.value):.6f}; {derivatives}.",
            f"{settings.paths} reaches the result on {len(paths)} path{'s' * (len(paths) != 1)}; the products of the "
            f"local derivatives along them are {' and '.join(f'{share:.6f}' for share in shares)}, and their sum is "
            f"df/d{settings.paths} = {slopes[settings.paths]:.6f}.",
        ],
        [
            slides,
            Bars(
                "backward-paths",
                f"What each path adds to df/d{settings.paths}",
                "path",
                "product of local derivatives",
                [*names, "sum"],
                {"share": np.append(shares, shares.sum())},
            ),
            Table(
                "backward-table",
                "Forward values (downwards) and adjoints (upwards)",
                ["node", "computes", "value", "local derivatives", "adjoint"],
                rows,
            ),
            shown,
        ],
        numbers={
            "value": float(result.value),
            **{f"d_{name}": slope for name, slope in slopes.items()},
            "paths": dict(zip(names, shares.tolist(), strict=True)),
            "steps": [steps.text(n) for n in range(len(steps))],
        },
    )


def _values(variables: Sequence[str], settings: BackwardSettings) -> dict[str, float]:
    """Where the formula is differentiated."""
    known = {"w1": settings.w1, "w2": settings.w2, "x": settings.x, **settings.at}
    for name in settings.at:
        if name not in variables:
            raise ArgumentError(f"backward(at.{name}): not a variable of {settings.f}")
    missing = [name for name in variables if name not in known]
    if missing or not variables:
        values = " ".join(f"at.{name}=1.0" for name in missing)
        what = f"no value for {', '.join(missing)}" if missing else "there is no variable to differentiate in"
        raise ArgumentError(
            f"backward(f={settings.f!r}): {what}", remedy=f"give it: {values}" if missing else "f='x**2'"
        )
    return {name: known[name] for name in variables}


def _nodes(found: Graph) -> list[list[str | float]]:
    """One row for each node: what it computes, its value, local derivatives and adjoint."""
    rows: list[list[str | float]] = []
    for node in found.nodes:
        edges = [edge for edge in found.edges_to(node) if edge.adjoint is not None]
        names = [found.node(edge.source).name for edge in edges]
        slopes = [
            f"d/d{name} = {float(local):.6g}"
            for name, local in zip(names, map(found.local_derivative, edges), strict=True)
            if local is not None
        ]
        value, adjoint = float(np.asarray(node.value)), node.adjoint
        rows.append(
            [
                node.name,
                node.formula or "input",
                value,
                ", ".join(slopes),
                0.0 if adjoint is None else float(np.asarray(adjoint)),
            ]
        )
    return rows


experiment = Experiment(
    "A backward pass taken apart, of your own formula too: step by step, and the derivative as a sum over paths.",
    BackwardSettings,
    run,
    toy={},
    reference="Griewank and Walther, Evaluating Derivatives, 2nd edition, 2008",
)

__all__ = ["BackwardSettings", "experiment", "run"]
