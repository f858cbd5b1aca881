"""From a problem to its optimum: room for kernel rows, single precision where it will do, and a judgement in double.

Programs are compiled for shapes, so problems are filled up to sizes of which there are few; examples that fill up have
both bounds at zero. Kernel rows are first kept in single precision, twice as many and several times as fast; what comes
out is judged with rows in double precision, and where that is not yet within the tolerance the solver goes on from
there in double precision throughout.
"""

import warnings
from dataclasses import dataclass
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.formatting import short_number
from chainrule.core.types import Array, Float
from chainrule.kernels.kernel import TILE, Kernel, Points
from chainrule.kernels.precision import widened
from chainrule.kernels.support_vectors.problem import DualProblem, DualProgress, good_enough, progress
from chainrule.kernels.support_vectors.solver import WORKING, minimised

FINE = 1e-4
"""Tolerances below this one are worked towards in double precision from the start."""
CLOSER = 0.8
"""Share of the tolerance to reach in single precision, so that rounding seldom makes a second part necessary."""


@final
@dataclass(frozen=True)
class Limits:
    """When to stop, and how much memory to take."""

    tolerance: float = 1e-3
    memory: int = 2**28
    steps: int = 10_000

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ArgumentError(
                f"tolerance={self.tolerance}: it must lie between 0 and 1", remedy="1e-3 is usual"
            )
        if self.memory < 1:
            raise ArgumentError(f"memory={self.memory}: it must be a positive number of bytes")
        if self.steps < 1:
            raise ArgumentError(f"steps={self.steps}: at least one step is needed")

    def slots(self, rows: int, itemsize: int) -> int:
        """Rows that fit; those of two working sets are kept in any case."""
        return min(rows, max(2 * WORKING, self.memory // (rows * itemsize)))


@final
@dataclass(frozen=True)
class DualOptimum:
    """The coefficients found, and how good they are."""

    coefficients: Float[np.ndarray, " rows"]
    """Signed; zero for all but support vectors."""
    thresholds: Float[np.ndarray, " groups"]
    objective: float
    """Of the dual, which is minimised: minus the primal one, up to the gap."""
    gap: float
    """Duality gap."""
    violation: float
    steps: int
    pairs: int
    """Moves of two coefficients."""
    converged: bool


def optimum(
    kernel: Kernel,
    x: Float[np.ndarray, "rows features"],
    problem: DualProblem,
    start: Float[np.ndarray, " rows"],
    limits: Limits,
    *,
    groups: int = 1,
    unit: float = 1.0,
    size: int | None = None,
) -> DualOptimum:
    """The optimum of a problem on these points, from a start that satisfies its constraints.

    `unit` is the size of decision values, which violations are measured in; `size` is what to fill up to.
    """
    rows = len(x)
    size = filled(rows) if size is None else size
    with jax.enable_x64(True):
        kernel, points = widened(kernel), jnp.asarray(with_zeros(x, size))
        whole = DualProblem(*(jnp.asarray(with_zeros(np.asarray(part), size)) for part in problem))
        b = jnp.asarray(with_zeros(start, size))
        gradient = whole.linear
        if start.any():
            gradient = gradient + _products(kernel, x, start, size)
        steps = pairs = 0
        ends = jnp.asarray(limits.tolerance), jnp.asarray(float(unit))
        for narrow in (True, False) if limits.tolerance >= FINE else (False,):
            kept, at_points = jax.tree.map(_narrowed, (kernel, points)) if narrow else (kernel, points)
            slots = limits.slots(size, at_points.dtype.itemsize)
            goal = ends[0] * CLOSER if narrow else ends[0]
            # Rounding may keep single precision from ever getting there: half of the steps are left for double.
            left = jnp.asarray((limits.steps - steps) // (2 if narrow else 1), jnp.int32)
            b, gradient, more, moved = minimised(
                kept, at_points, whole, b, gradient, goal, ends[1], left, slots, groups
            )
            steps, pairs = steps + int(more), pairs + int(moved)
            if narrow:
                gradient = whole.linear + _products(kernel, x, np.asarray(b)[:rows], size)
            at, enough = _judged(whole, b, gradient, *ends, groups)
            done = bool(enough)
            if done:
                break
        found = _found(b, at, steps, pairs, rows, done)
    if not done:
        warn_of_gap(found, limits)
    return found


def warn_of_gap(found: DualOptimum, limits: Limits) -> None:
    """Say that an optimum is not within the tolerance."""
    warnings.warn(
        f"fit: after {found.steps} steps the duality gap is {short_number(found.gap)} at an objective of "
        f"{short_number(found.objective)}; the tolerance is {short_number(limits.tolerance)} of it. "
        "Scale the columns, lower C, or allow more steps",
        ChainruleWarning,
        stacklevel=5,
    )


def _found(b: Array, at: DualProgress, steps: int, pairs: int, rows: int, done: bool) -> DualOptimum:
    return DualOptimum(
        np.array(b)[:rows],
        np.asarray(at.thresholds),
        float(at.objective),
        float(at.gap),
        float(at.violation),
        steps,
        pairs,
        done,
    )


@eqx.filter_jit
def _judged(
    problem: DualProblem, b: Array, gradient: Array, tolerance: Array, unit: Array, groups: int
) -> tuple[DualProgress, Array]:
    at = progress(problem, b, gradient, groups)
    return at, good_enough(at, tolerance, unit)


def _narrowed(leaf: Any) -> Any:
    return leaf.astype(jnp.float32) if eqx.is_inexact_array(leaf) else leaf


def with_zeros(values: np.ndarray, size: int, axis: int = 0) -> np.ndarray:
    """With zeros up to the size along an axis; a number as it is.

    >>> with_zeros(np.ones(2), 3).tolist()
    [1.0, 1.0, 0.0]
    """
    if not values.ndim:
        return values
    missing = [(0, size - length if number == axis else 0) for number, length in enumerate(values.shape)]
    return np.pad(values, missing)


def _products(kernel: Kernel, x: np.ndarray, b: np.ndarray, size: int) -> Array:
    """`K b`, from the points whose coefficient is not zero."""
    return jnp.asarray(with_zeros(kernel_sums(kernel, x, x[b != 0], b[b != 0][:, None], size)[:, 0], size))


def kernel_sums(
    kernel: Kernel,
    x: Float[np.ndarray, "rows features"],
    points: Float[np.ndarray, "points features"],
    coefficients: Float[np.ndarray, "points sums"],
    largest: int = 0,
) -> Float[np.ndarray, "rows sums"]:
    """`sum_j k(x_i, points_j) c_j` in double precision, a block at a time; both are filled up to one of few sizes."""
    rows = filled(len(x), largest)
    support = filled(len(points), largest)
    with jax.enable_x64(True):
        found = _summed(
            widened(kernel),
            jnp.asarray(with_zeros(x, rows)),
            jnp.asarray(with_zeros(points, support)),
            jnp.asarray(with_zeros(coefficients, support)),
        )
        return np.asarray(found)[: len(x)]


@eqx.filter_jit
def _summed(kernel: Kernel, x: Points, points: Array, coefficients: Array) -> Array:
    block = max(1, min(len(x), TILE // len(points)))
    count = -(-len(x) // block)
    starts = jnp.minimum(jnp.arange(count) * block, len(x) - block)

    def put(i: Array, sums: Array) -> Array:
        tile = kernel.tile(jax.lax.dynamic_slice_in_dim(x, starts[i], block), points)
        return jax.lax.dynamic_update_slice_in_dim(sums, tile @ coefficients, starts[i], axis=0)

    return jax.lax.fori_loop(0, count, put, jnp.zeros((len(x), coefficients.shape[1]), coefficients.dtype))


def filled(count: int, largest: int = 0) -> int:
    """A size of at least this many rows, of which there are few: powers of two, and quarters between large ones.

    Where a largest one is given, it is that or a half, a quarter... of it.

    >>> [filled(n) for n in (3, 100, 1000, 10_000)], filled(700, 2560), filled(1900, 2560)
    ([16, 128, 1024, 10240], 1280, 2560)
    """
    if largest < max(count, 1):
        power = 2 ** max(4, (count - 1).bit_length())
        return power if power <= 1024 else -(-count // (power // 8)) * (power // 8)
    size = largest
    while size % 2 == 0 and size // 2 >= max(count, 16):
        size //= 2
    return size


__all__ = ["DualOptimum", "Limits", "filled", "kernel_sums", "optimum", "warn_of_gap", "with_zeros"]
