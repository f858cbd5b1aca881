"""Drawing of a linear program in two variables: polygon, optimal vertex, its derivative, and the central path."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.derive.implicit.optimization.quadratic import quadratic_program
from chainrule.derive.svg import Canvas

_SIDE, _LEFT, _TOP = 400.0, 64.0, 130.0
_PATH = np.geomspace(1e2, 1e-4, 25)


def draw_program(c: Any, G: Any, h: Any) -> str:
    """Minimise c'x subject to Gx <= h, as SVG, for two variables and a bounded polygon.

    The disc is the solution. An arrow of colour leaves it for each active constraint: where the solution goes while
    that entry of h grows (its derivative, to scale). The curve is the smoothed solution for mu from large to small, and
    the grey arrow is the direction in which the objective falls.

    >>> draw_program([-3.0, -5.0], [[1, 0], [0, 2], [3, 2], [-1, 0], [0, -1]], [4.0, 12, 18, 0, 0])[:4]
    '<svg'
    """
    c, G, h = (jnp.asarray(part, float) for part in (c, G, h))
    if c.shape != (2,) or G.ndim != 2 or G.shape[1] != 2:
        raise ArgumentError(
            f"draw_program: c has shape {c.shape} and G {G.shape}; only two variables can be drawn"
        )
    flat = jnp.zeros((2, 2))
    found = quadratic_program(flat, c, G=G, h=h)
    corners = _corners(np.asarray(G), np.asarray(h))
    moves = np.asarray(jax.jacrev(lambda h: quadratic_program(flat, c, G=G, h=h).x)(h))
    path = np.stack([np.asarray(quadratic_program(flat, c, G=G, h=h, mu=mu).x) for mu in _PATH])
    low, high = corners.min(axis=0), corners.max(axis=0)
    reach = float((high - low).max()) or 1.0

    def pixel(point: np.ndarray) -> tuple[float, float]:
        x, y = _SIDE * (point - low) / reach
        return _LEFT + float(x), _TOP + _SIDE - float(y)

    canvas = Canvas(2 * _LEFT + _SIDE, _TOP + _SIDE + 104, "A linear program in two variables")
    canvas.text(_LEFT, 30, "A linear program in two variables", "f-ink bold", size=15)
    best = np.asarray(found.x)
    shown = f"best corner ({best[0]:.4g}, {best[1]:.4g}), value {float(found.value):.4g}"
    canvas.text(_LEFT, 50, shown, "f-soft", size=12)
    canvas.path(_line([pixel(corner) for corner in corners]) + "z", "f-box s-ink thick")
    canvas.path(_line([pixel(point) for point in path]), "none s-residual thick", dash="5 3")
    middle = corners.mean(axis=0)
    fall = -np.asarray(c) / max(float(np.linalg.norm(c)), 1e-300) * reach / 6
    canvas.path(_line([pixel(middle), pixel(middle + fall)]), "none s-axis thick", arrow=True)
    stretch = reach / 6 / max(float(np.linalg.norm(moves, axis=0).max()), 1e-300)
    for i in np.flatnonzero(np.asarray(found.stats.active)):
        canvas.open(
            f"constraint {i}: the solution moves by ({moves[0, i]:.4g}, {moves[1, i]:.4g}) for each unit of h"
        )
        canvas.path(
            _line([pixel(best), pixel(best + moves[:, i] * stretch)]), "none s-adjoint thick", arrow=True
        )
        canvas.close()
    canvas.circle(*pixel(best), 5, "f-adjoint")
    foot = _TOP + _SIDE + 52
    canvas.text(_LEFT, foot, "arrows from the corner: its derivatives in h", "f-adjoint", size=12)
    canvas.text(
        _LEFT, foot + 18, "dashed: the smoothed solution, mu from 100 to 0.0001", "f-residual", size=12
    )
    canvas.text(_LEFT, foot + 36, "grey: where the objective falls", "f-soft", size=12)
    return canvas.render()


def _corners(G: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The corners of the polygon, counter-clockwise."""
    tolerance = 1e-6 * (1.0 + np.abs(h).max(initial=0.0))
    points = []
    for i in range(len(h)):
        for j in range(i):
            pair = G[[i, j]]
            if abs(np.linalg.det(pair)) > 1e-9 * np.abs(pair).max() ** 2:
                point = np.linalg.solve(pair, h[[i, j]])
                if (G @ point <= h + tolerance).all():
                    points.append(point)
    if len(points) < 3:
        raise ArgumentError("draw_program: the constraints enclose no polygon", remedy="bound both variables")
    found = np.array(points)
    around = found - found.mean(axis=0)
    return found[np.argsort(np.arctan2(around[:, 1], around[:, 0]))]


def _line(points: list[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in points)


__all__ = ["draw_program"]
