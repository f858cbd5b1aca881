"""Certification of a prepared derivative against plain products at random points in random directions.

An entry missing from the pattern makes its value turn up at another position of its row, or nowhere; either way the
decompressed matrix times a random vector differs from the true product with probability one wherever that entry is
not zero.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ChainruleError
from chainrule.core.types import Tree
from chainrule.derive.sparse.patterns import Pattern
from chainrule.derive.sparse.signature import Held

POINTS = 3
_STEPS = (0.1, 1e-3, 1e-6, 0.0)
_SHOWN = 8

Point: TypeAlias = tuple[Tree, Held]
"""Where a derivative is taken, and what is held there."""
Products = Callable[[Point, np.ndarray], np.ndarray]
"""A point and a direction -> the plain product."""


class PatternError(ChainruleError):
    """A sparsity pattern that misses entries of the derivative."""


@final
@dataclass(frozen=True)
class CertificateOutcome:
    """What was compared."""

    products: int
    unchecked: int
    """Rows or columns that were not finite and so could not be compared."""


def tolerance(dtype: Any) -> float:
    """Relative difference beyond which a row is wrong."""
    return 1e-8 if jnp.finfo(dtype).bits >= 64 else 1e-3 if jnp.finfo(dtype).bits >= 32 else 5e-2


def certify(
    where: str,
    pattern: Pattern,
    values: Callable[[Point], np.ndarray],
    products: dict[str, Products],
    points: Iterator[Point],
    dtype: Any,
    seed: int = 0,
) -> CertificateOutcome:
    """Compare at every point, or raise `PatternError` with the rows that differ.

    `products` has "rows" for products J v (one number per row) and "columns" for products u J.
    """
    draw = np.random.default_rng(seed)
    count = unchecked = 0
    for point in points:
        entries = _wide(values(point))
        for lines, product in products.items():
            inner, outer = (pattern.cols, pattern.rows) if lines == "rows" else (pattern.rows, pattern.cols)
            height, width = pattern.shape if lines == "rows" else pattern.shape[::-1]
            direction = _direction(draw, width).astype(dtype)
            true = _wide(product(point, direction))
            terms = entries * _wide(direction)[inner]
            wrong, skipped = differing(outer, terms, true, height, tolerance(dtype))
            count += 1
            unchecked = max(unchecked, skipped)
            if len(wrong):
                raise missing(where, lines, wrong)
    return CertificateOutcome(count, unchecked)


def differing(
    lines: np.ndarray, terms: np.ndarray, true: np.ndarray, count: int, allowed: float
) -> tuple[np.ndarray, int]:
    """Lines whose terms do not add up to the true product, and how many lines are not finite."""
    sums = np.bincount(lines, weights=terms.real, minlength=count)
    if np.iscomplexobj(terms):
        sums = sums + 1j * np.bincount(lines, weights=terms.imag, minlength=count)
    scale = np.bincount(lines, weights=np.abs(terms), minlength=count) + np.abs(true)
    finite = np.isfinite(true)
    with np.errstate(invalid="ignore"):
        good = np.abs(sums - true) <= allowed * scale
    return np.flatnonzero(finite & ~good), int((~finite).sum())


def missing(where: str, lines: str, wrong: np.ndarray) -> PatternError:
    """The error for lines that differ."""
    shown = ", ".join(map(str, wrong[:_SHOWN].tolist())) + (", ..." if len(wrong) > _SHOWN else "")
    return PatternError(
        f"{where}: the pattern misses entries in {len(wrong)} {lines}: {shown}",
        remedy="leave pattern= out to have it detected, or add the missing entries;\n"
        "a local pattern holds only near its point (local=False holds everywhere)",
    )


def points_around(
    point: Point, values: Callable[[Point], np.ndarray], *, local: bool, seed: int
) -> Iterator[Point]:
    """The point itself and points around it at which the derivative is finite wherever it is finite at the point.

    What is held moves, too, in proportion: its zeros stay, because a matrix that is held may well be sparse.
    """
    yield point
    if local:
        yield from [point] * (POINTS - 1)
        return
    finite = np.isfinite(np.asarray(values(point))).sum()
    draw = np.random.default_rng(seed + 1)
    for _ in range(POINTS - 1):
        for step in _STEPS:
            x = jax.tree.map(lambda a, step=step: _moved(a, step, 0.1, draw), point[0])
            held = tuple(_moved(a, step, 0.0, draw) if is_moved(a) else a for a in point[1])
            if np.isfinite(np.asarray(values((x, held)))).sum() >= finite:
                break
        yield x, held


def is_moved(leaf: Any) -> bool:
    """Whether what is held is of numbers that the certificate changes: neither whole numbers nor all zero."""
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.inexact)) and bool(np.any(_wide(leaf)))


def _moved(leaf: Any, step: float, least: float, draw: np.random.Generator) -> Any:
    array = _wide(leaf)
    steps = draw.standard_normal(array.shape)
    if np.iscomplexobj(array):
        steps = steps + 1j * draw.standard_normal(array.shape)
    moved = array + step * (least + np.abs(array)) * steps
    if jax.typeof(leaf).weak_type and not moved.ndim:
        return moved.item()  # one of Python's own numbers, which takes the precision of what it meets
    return jax.device_put(moved.astype(jnp.result_type(leaf)))


def _wide(numbers: Any) -> np.ndarray:
    """Numbers of any precision, real or complex, in double precision."""
    array = np.asarray(numbers)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _direction(draw: np.random.Generator, size: int) -> np.ndarray:
    """Random numbers between 0.5 and 1.5 in size, either sign: nothing drowns next to a larger one."""
    return draw.uniform(0.5, 1.5, size) * draw.choice([-1.0, 1.0], size)


__all__ = [
    "POINTS",
    "CertificateOutcome",
    "PatternError",
    "certify",
    "differing",
    "is_moved",
    "missing",
    "points_around",
    "tolerance",
]
