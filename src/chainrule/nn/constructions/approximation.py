"""Universal approximation with a bound: a network for a given function and a given error.

One input: the piecewise-linear interpolant at equally spaced knots, one hidden ReLU layer. Its error is at most L h /
2 for a function of Lipschitz constant L and at most h² max|g''| / 8 for a twice differentiable one. Several inputs:
the value at the centre of each cell of a grid, two hidden layers of step units, error at most L h sqrt(n) / 2; the
number of units grows like (1/error)^n, so it is told before anything is built.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine
from chainrule.nn.constructions.piecewise import PiecewiseLinear, compile_piecewise

_LOOKS = 4096
"""Points at which a curvature that was not given is looked for."""


@final
@dataclass(frozen=True)
class Approximation:
    """A network, and how far it can be from the function on its domain."""

    network: Network
    bound: float
    kind: Literal["proved", "estimated"]
    """Proved from a constant that was given, or estimated from the largest second derivative seen on a fine grid."""
    spacing: float
    """Distance of neighbouring knots, or side of a cell."""
    units: int
    """Hidden units."""


def interpolate(g: Callable[[Any], Any], interval: tuple[float, float], pieces: int) -> PiecewiseLinear:
    """The piecewise-linear function through `pieces + 1` equally spaced points of g, constant outside the interval.

    >>> interpolate(lambda x: x**2, (0.0, 2.0), 2).slopes.tolist()
    [0.0, 1.0, 3.0, 0.0]
    """
    low, high = _interval(interval)
    if pieces < 1:
        raise ArgumentError(f"interpolate(pieces={pieces}): needs at least one")
    knots = np.linspace(low, high, pieces + 1)
    values = np.asarray([np.asarray(g(knot), dtype=np.float64) for knot in knots])
    if values.shape != knots.shape or not np.isfinite(values).all():
        raise ArgumentError(f"interpolate(g): g must give one finite number on all of {list(interval)}")
    slopes = np.diff(values) / np.diff(knots)
    return PiecewiseLinear(knots, np.concatenate([[0.0], slopes, [0.0]]), float(values[0]))


def approximate(
    g: Callable[[Any], Any],
    interval: tuple[float, float],
    eps: float,
    *,
    lipschitz: float | None = None,
    curvature: float | None = None,
    max_units: int = 100_000,
    announce: Callable[[str], None] | None = None,
) -> Approximation:
    """A network of one hidden ReLU layer within `eps` of g on an interval.

    The number of pieces is announced first where somebody listens, and refused beyond `max_units`. Give a Lipschitz
    constant or a bound of |g''|, and the error bound is proved. With neither, the largest |g''| on a fine grid stands
    in (g must be written in JAX then), and the bound is called estimated.

    >>> found = approximate(lambda x: x**2, (0.0, 1.0), 0.01, curvature=2.0)
    >>> found.network.units, round(found.bound, 6), found.kind
    (6, 0.01, 'proved')
    """
    low, high = _interval(interval)
    if not eps > 0:
        raise ArgumentError(f"approximate(eps={eps}): the error must be positive")
    kind: Literal["proved", "estimated"] = "proved"
    if lipschitz is None and curvature is None:
        curvature, kind = _steepest_bend(g, low, high), "estimated"
    spacings = []
    if lipschitz is not None:
        spacings.append(2 * eps / _positive("lipschitz", lipschitz))
    if curvature is not None:
        spacings.append(math.sqrt(8 * eps / _positive("curvature", curvature)))
    pieces = max(1, math.ceil((high - low) / max(spacings) - 1e-9))
    if announce is not None:
        announce(f"{pieces:,} pieces, at most {pieces + 3:,} hidden units")
    if pieces + 1 > max_units:
        raise _too_many(pieces + 1, max_units)
    spacing = (high - low) / pieces
    bounds = [lipschitz * spacing / 2] if lipschitz is not None else []
    bounds += [curvature * spacing**2 / 8] if curvature is not None else []
    network = compile_piecewise(interpolate(g, interval, pieces))
    return Approximation(network, min(bounds), kind, spacing, network.units)


def cell_units(cells: Sequence[int]) -> int:
    """Hidden units of the step network over a grid with so many cells along each axis.

    >>> cell_units([10, 10])
    118
    """
    return sum(count - 1 for count in cells) + math.prod(cells)


def approximate_cells(
    g: Callable[[np.ndarray], Any],
    box: Sequence[tuple[float, float]],
    eps: float,
    *,
    lipschitz: float,
    max_units: int = 100_000,
    announce: Callable[[str], None] = print,
) -> Approximation:
    """A network of two hidden step layers within `eps` of a Lipschitz function of n inputs on a box.

    Cells are half open, (low, high], and the outer ones reach to infinity; g is read at the cell centres. The number
    of units is announced first, and refused beyond `max_units`.

    >>> found = approximate_cells(lambda x: x[0] * x[1], [(0.0, 1.0)] * 2, 0.2, lipschitz=1.5)
    36 cells, 46 hidden units
    """
    if not eps > 0:
        raise ArgumentError(f"approximate_cells(eps={eps}): the error must be positive")
    sides = [_interval(one) for one in box]
    n = len(sides)
    side = 2 * eps / (_positive("lipschitz", lipschitz) * math.sqrt(n))
    cells = [max(1, math.ceil((high - low) / side - 1e-9)) for low, high in sides]
    units = cell_units(cells)
    announce(f"{math.prod(cells):,} cells, {units:,} hidden units")
    if units > max_units:
        raise _too_many(units, max_units)
    edges = [np.linspace(low, high, count + 1) for (low, high), count in zip(sides, cells, strict=True)]
    numbers = np.stack(np.meshgrid(*[np.arange(count) for count in cells], indexing="ij"), axis=-1).reshape(
        -1, n
    )
    weight = np.zeros((n, sum(count - 1 for count in cells)))
    bias = np.zeros(weight.shape[1])
    inside = np.zeros((weight.shape[1], len(numbers)))
    met = np.zeros(len(numbers))
    first = 0
    for axis, count in enumerate(cells):
        weight[axis, first : first + count - 1] = 1.0
        bias[first : first + count - 1] = -edges[axis][1:-1]
        for cell, number in enumerate(numbers[:, axis]):
            if number > 0:
                inside[first + number - 1, cell] += 1.0
            else:
                met[cell] += 1.0  # no edge below: the condition holds everywhere
            if number < count - 1:
                inside[first + number, cell] -= 1.0
        first += count - 1
    centres = np.stack([(e[:-1] + e[1:])[numbers[:, i]] / 2 for i, e in enumerate(edges)], axis=1)
    values = np.asarray([float(np.asarray(g(centre))) for centre in centres])
    layers = [affine(weight, bias), affine(inside, met - (n - 0.5)), affine(values[:, None], [0.0])]
    widest = max((high - low) / count for (low, high), count in zip(sides, cells, strict=True))
    bound = lipschitz * widest * math.sqrt(n) / 2
    return Approximation(Network(layers, ["step", "step", "identity"]), bound, "proved", widest, units)


def _steepest_bend(g: Callable[[Any], Any], low: float, high: float) -> float:
    second = jax.jit(jax.vmap(jax.grad(jax.grad(lambda x: jnp.sum(g(x))))))
    found = float(jnp.abs(second(jnp.linspace(low, high, _LOOKS))).max())
    if not math.isfinite(found) or found == 0:
        raise ArgumentError(
            f"approximate(g): the largest second derivative seen is {found}",
            remedy="give a Lipschitz constant of g: lipschitz=...",
        )
    return found


def _interval(interval: tuple[float, float]) -> tuple[float, float]:
    low, high = (float(end) for end in interval)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ArgumentError(f"interval={interval}: needs two finite ends, the lower one first")
    return low, high


def _positive(name: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ArgumentError(f"approximate({name}={value}): {name} must be positive")
    return value


def _too_many(units: int, max_units: int) -> ArgumentError:
    return ArgumentError(
        f"this accuracy takes {units:,} hidden units, more than max_units={max_units:,}",
        remedy="ask for a larger eps, or raise max_units",
    )


__all__ = ["Approximation", "approximate", "approximate_cells", "cell_units", "interpolate"]
