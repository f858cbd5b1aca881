"""Networks built by hand: an exact piecewise-linear function, every truth table of n inputs, a star."""

from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Polygons, Scatter, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn.constructions import (
    Network,
    PiecewiseLinear,
    compile_piecewise,
    corners,
    extract,
    polygon,
    truth_table,
)
from chainrule.nn.constructions.polygons import triangulate


@final
class ConstructionsSettings(Settings):
    """What is built."""

    knots: tuple[float, ...] = Field((-1.0, 0.0, 2.0), min_length=1, description="where the function bends")
    slopes: tuple[float, ...] = Field(
        (-1.0, 2.0, -0.5, 3.0), description="slopes before, between and after the knots"
    )
    value: float = Field(1.0, description="value at the first knot")
    inputs: int = Field(3, ge=1, le=10, description="inputs of the parity function")
    points: int = Field(5, ge=3, le=20, description="points of the star")
    table: tuple[int, ...] = Field(
        (),
        description="a truth table of your own instead of parity: 2^n values 1 or -1 over the inputs -1...-1 to 1...1, "
        "the last input first",
    )
    outline: tuple[float, ...] = Field(
        (), description="corners of a polygon of your own instead of the star, in order: x1,y1,x2,y2,x3,y3"
    )


def run(settings: ConstructionsSettings, listener: Listener) -> Outcome:
    """Build all three and compare them with what they should be."""
    del listener
    parts = [_piecewise(settings), _parity(settings), _star(settings)]
    return Outcome(
        [sentence for part in parts for sentence in part.findings],
        [picture for part in parts for picture in part.pictures],
        Table(
            "constructions-table",
            "Networks",
            ["what", "network", "check"],
            [row for part in parts if part.table is not None for row in part.table.rows],
        ),
        {name: value for part in parts for name, value in part.numbers.items()},
    )


def _piecewise(settings: ConstructionsSettings) -> Outcome:
    function = PiecewiseLinear(settings.knots, settings.slopes, settings.value)
    network = compile_piecewise(function)
    room = 0.5 * (function.knots[-1] - function.knots[0]) + 1
    x = np.linspace(function.knots[0] - room, function.knots[-1] + room, 401)
    said = np.asarray(network(jnp.asarray(x, jnp.float32)[:, None]))[:, 0]
    error = float(np.abs(said - function(x)).max())
    knots = ", ".join(f"{knot:g}" for knot in extract(network).knots)
    picture = Lines(
        "piecewise",
        "A piecewise-linear function and its network",
        "x",
        "f(x)",
        {"function": (x, function(x)), "network": (x, said)},
        marks=[(float(knot), "") for knot in function.knots],
    )
    return Outcome(
        [
            f"{len(function.knots)} knots take {network.units} hidden units; the largest difference from the function "
            f"is {error:.1e}, and its knots are read back as {knots}."
        ],
        [picture],
        _row("piecewise linear", network, f"largest error {error:.1e}"),
        {"units": network.units, "error": error},
    )


def _parity(settings: ConstructionsSettings) -> Outcome:
    own = bool(settings.table)
    size = len(settings.table)
    if own and (size & (size - 1) or size < 2 or set(settings.table) - {-1, 1}):
        raise ArgumentError(
            f"constructions(table): {size} values; it takes 2, 4, 8, ... values, each 1 or -1",
            remedy="xor: table=-1,1,1,-1",
        )
    table = corners(size.bit_length() - 1 if own else settings.inputs)
    wanted = np.asarray(settings.table) if own else table.prod(axis=1)
    name = "The truth table" if own else f"Parity of {settings.inputs} bits"
    network = truth_table(wanted)
    right = int((np.asarray(network(jnp.asarray(table, jnp.float32)))[:, 0] == wanted).sum())
    return Outcome(
        [f"{name} takes {network.units} sign units and is right at {right} of {len(table)} corners."],
        table=_row("truth table" if own else "parity", network, f"{right} of {len(table)} corners right"),
        numbers={"parity_units": network.units, "parity_right": right},
    )


def _star(settings: ConstructionsSettings) -> Outcome:
    outline, name = _outline(settings), "polygon" if settings.outline else "star"
    network, triangles = polygon(outline), triangulate(outline)
    low, high = outline.min(axis=0), outline.max(axis=0)
    middle, half = (low + high) / 2, 0.55 * (high - low).max()
    points = middle + np.random.default_rng(0).uniform(-half, half, (1500, 2))
    inside = np.asarray(network(jnp.asarray(points, jnp.float32)))[:, 0] > 0
    area = sum(abs(float(np.linalg.det(t[1:] - t[:1]))) / 2 for t in triangles)
    share, expected = 100 * inside.mean(), 100 * area / (2 * half) ** 2
    shades = np.arange(len(triangles), dtype=float)
    return Outcome(
        [
            f"The {name} is the union of {len(triangles)} triangles, {network.units} sign units in two hidden layers; "
            f"{share:.1f} % of random points fall inside, and by its area {expected:.1f} % should."
        ],
        [
            Polygons(
                "star-triangles", f"A {name} as {len(triangles)} triangles", "x", "y", triangles, shades
            ),
            Scatter(
                "star",
                "What the network says",
                "x",
                "y",
                {"inside": points[inside], "outside": points[~inside]},
            ),
        ],
        _row(name, network, f"{share:.1f} % of random points inside"),
        {"star_units": network.units, "inside": float(inside.mean()), "area": area},
    )


def _outline(settings: ConstructionsSettings) -> np.ndarray:
    """The corners of the polygon that was given, or of a star."""
    if settings.outline:
        if len(settings.outline) % 2 or len(settings.outline) < 6:
            raise ArgumentError(
                f"constructions(outline): {len(settings.outline)} numbers; it takes two for each of at least 3 corners",
                remedy="outline=0,0,2,0,1,2",
            )
        return np.asarray(settings.outline).reshape(-1, 2)
    number = np.arange(2 * settings.points)
    angles = np.pi * number / settings.points + np.pi / 2
    return np.asarray(
        np.where(number % 2, 0.4, 1.0)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    )


def _row(what: str, network: Network, check: str) -> Table:
    return Table(
        what, what, ["what", "network", "check"], [[what, str(network).removeprefix("network "), check]]
    )


experiment = Experiment(
    "Networks made on purpose, of your own too: exact piecewise-linear functions, truth tables, polygons.",
    ConstructionsSettings,
    run,
    toy={},
    reference="McCulloch and Pitts, 1943; Arora et al., 2018, arXiv:1611.01491",
)

__all__ = ["ConstructionsSettings", "experiment", "run"]
