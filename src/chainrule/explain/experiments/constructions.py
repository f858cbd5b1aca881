"""Networks made on purpose: an exact piecewise-linear function, every truth table of n inputs, a star."""

from typing import final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Polygons, Scatter, Table
from chainrule.explain.base import Experiment, Listener, Outcome, Settings
from chainrule.nn.constructions import (
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


def run(settings: ConstructionsSettings, listener: Listener) -> Outcome:
    """Build all three and compare them with what they should be."""
    del listener
    function = PiecewiseLinear(settings.knots, settings.slopes, settings.value)
    network = compile_piecewise(function)
    room = 0.5 * (function.knots[-1] - function.knots[0]) + 1
    x = np.linspace(function.knots[0] - room, function.knots[-1] + room, 401)
    said = np.asarray(network(jnp.asarray(x, jnp.float32)[:, None]))[:, 0]
    back = extract(network)
    error = float(np.abs(said - function(x)).max())
    table = corners(settings.inputs)
    parity = truth_table(table.prod(axis=1))
    right = int((np.asarray(parity(jnp.asarray(table, jnp.float32)))[:, 0] == table.prod(axis=1)).sum())
    angles = np.pi * np.arange(2 * settings.points) / settings.points + np.pi / 2
    radius = np.where(np.arange(2 * settings.points) % 2, 0.4, 1.0)
    outline = radius[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    star = polygon(outline)
    triangles = triangulate(outline)
    points = np.random.default_rng(0).uniform(-1.1, 1.1, (1500, 2))
    inside = np.asarray(star(jnp.asarray(points, jnp.float32)))[:, 0] > 0
    area = sum(abs(float(np.linalg.det(t[1:] - t[:1]))) / 2 for t in triangles)
    rows = [
        ["piecewise linear", str(network).removeprefix("network "), f"largest error {error:.1e}"],
        ["parity", str(parity).removeprefix("network "), f"{right} of {len(table)} corners right"],
        ["star", str(star).removeprefix("network "), f"{100 * inside.mean():.1f} % of random points inside"],
    ]
    return Outcome(
        [
            f"{len(function.knots)} knots take {network.units} hidden units; the largest difference from the "
            "function is "
            f"{error:.1e}, and its knots are read back as {', '.join(f'{knot:g}' for knot in back.knots)}.",
            f"Parity of {settings.inputs} bits takes {parity.units} sign units and is right at {right} of "
            f"{len(table)} corners.",
            f"The star is the union of {len(triangles)} triangles, {star.units} sign units in two hidden "
            "layers; its area is "
            f"{area:.4f}, and {100 * inside.mean():.1f} % of random points fall inside (expected "
            f"{100 * area / 4.84:.1f} %).",
        ],
        [
            Lines(
                "piecewise",
                "A piecewise-linear function and its network",
                "x",
                "f(x)",
                {"function": (x, function(x)), "network": (x, said)},
                marks=[(float(knot), "") for knot in function.knots],
            ),
            Polygons(
                "star-triangles",
                f"A star as {len(triangles)} triangles",
                "x",
                "y",
                triangles,
                np.arange(len(triangles), dtype=float),
            ),
            Scatter(
                "star",
                "What the network says",
                "x",
                "y",
                {"inside": points[inside], "outside": points[~inside]},
            ),
        ],
        Table("constructions-table", "Networks", ["what", "network", "check"], rows),
        {
            "units": network.units,
            "error": error,
            "parity_units": parity.units,
            "parity_right": right,
            "star_units": star.units,
            "inside": float(inside.mean()),
        },
    )


experiment = Experiment(
    "Networks made on purpose: exact piecewise-linear functions, truth tables, polygons.",
    ConstructionsSettings,
    run,
    toy={},
    reference="McCulloch and Pitts, 1943; Arora et al., 2018, arXiv:1611.01491",
)

__all__ = ["ConstructionsSettings", "experiment", "run"]
