"""Networks for a formula of one's own within an error: how many units, which bound, which error is measured.

One variable: one hidden ReLU layer through equally spaced points. Several: a grid of cells, two hidden layers of step
units. The number of units is said before anything is built.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.expressions import Expression
from chainrule.core.pictures import Heatmap, Lines, Picture
from chainrule.nn.constructions import approximate, approximate_cells
from chainrule.nn.constructions.approximation import Approximation

_LOOKS, _SIDE, _SHOWN = 20_000, 40, 401


@final
@dataclass(frozen=True)
class OwnApproximation:
    """What came out."""

    findings: list[str]
    pictures: list[Picture]
    numbers: dict[str, Any]


def approximate_formula(
    formula: Expression,
    interval: tuple[float, float],
    eps: float,
    *,
    lipschitz: float | None,
    curvature: float | None,
    max_units: int,
    announce: Callable[[str], None],
) -> OwnApproximation:
    """Build the network for a formula on an interval, or on the cube of it for several variables, and measure it."""
    count = len(formula.variables)
    if not count:
        raise ArgumentError(f"approximation(g={formula.text!r}): there is no variable", remedy="g='sin(3*x)'")
    if count == 1:
        found = approximate(
            formula,
            interval,
            eps,
            lipschitz=lipschitz,
            curvature=curvature,
            max_units=max_units,
            announce=announce,
        )
        how = f"one hidden ReLU layer of {found.units:,} units"
        kind: str = found.kind
    else:
        if curvature is not None:
            raise ArgumentError(
                "approximation(curvature=...): the grid of cells for several variables has a bound by slope only",
                remedy="give lipschitz=",
            )
        kind = "proved" if lipschitz is not None else "estimated"
        slope = lipschitz if lipschitz is not None else _steepest(formula, interval)
        found = approximate_cells(
            lambda x: formula(*x),
            [interval] * count,
            eps,
            lipschitz=slope,
            max_units=max_units,
            announce=announce,
        )
        how = f"a grid of cells with {found.units:,} step units in two hidden layers (slope at most {slope:.4g})"
    error, pictures = _measured(formula, interval, found)
    return OwnApproximation(
        [
            f"{formula.text} on [{interval[0]:g}, {interval[1]:g}]{f' in each of {count} inputs' * (count > 1)} within "
            f"{eps:g}: {how}; {kind} bound {found.bound:.4g}, largest error measured {error:.4g}."
        ],
        pictures,
        {
            **{"units": found.units, "bound": found.bound, "bound_is": kind, "error": error},
            **{"spacing": found.spacing, "inputs": count, "network": str(found.network)},
        },
    )


def _steepest(formula: Expression, interval: tuple[float, float]) -> float:
    """The largest slope seen at random points, which stands in for a Lipschitz constant that was not given."""
    count = len(formula.variables)
    points = np.random.default_rng(0).uniform(*interval, (_LOOKS, count))
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: formula(*x))))(jnp.asarray(points))
    found = float(jnp.linalg.norm(slopes, axis=1).max())
    if not math.isfinite(found) or found == 0:
        raise ArgumentError(
            f"approximation(g={formula.text!r}): the largest slope seen is {found}",
            remedy="give a Lipschitz constant: lipschitz=...",
        )
    return found


def _measured(
    formula: Expression, interval: tuple[float, float], found: Approximation
) -> tuple[float, list[Picture]]:
    """The largest error on the interval or at random points, and pictures of the two functions."""
    count = len(formula.variables)
    exact = jax.jit(jax.vmap(lambda x: formula(*x)))
    network = eqx.filter_jit(found.network)

    def both(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = jnp.asarray(points, jnp.float32)
        return np.asarray(exact(x), np.float64), np.asarray(network(x), np.float64)[:, 0]

    if count == 1:
        x = np.linspace(*interval, _SHOWN)
        g, values = both(x[:, None])
        lines = {formula.text: (x, g), "network": (x, values)}
        name = formula.variables[0]
        picture = Lines("own-approximation", f"{formula.text} and its network", name, "value", lines)
        return float(np.abs(g - values).max()), [picture]
    g, values = both(np.random.default_rng(1).uniform(*interval, (2000, count)))
    pictures: list[Picture] = []
    if count == 2:
        ticks = np.linspace(*interval, _SIDE)
        grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2)
        labels = [f"{tick:.2g}" for tick in ticks]
        first, second = formula.variables
        pictures = [
            Heatmap(
                f"own-approximation-{title}",
                f"{formula.text}, {title}",
                second,
                first,
                shown.reshape(_SIDE, _SIDE)[::-1],
                rows=labels[::-1],
                columns=labels,
            )
            for title, shown in zip(("exact", "network"), both(grid), strict=True)
        ]
    return float(np.abs(g - values).max()), pictures


__all__ = ["OwnApproximation", "approximate_formula"]
