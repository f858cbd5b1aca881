"""Is it a kernel? Symmetric, and positive semi-definite on the points at hand, or a few points that show it is not.

Semi-definite and not definite: duplicates, and more points than features, give eigenvalues of zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.precision import widened


@final
@dataclass(frozen=True)
class Check:
    """What `check` found; it counts as true where nothing speaks against a kernel."""

    value: bool
    """Whether the function is a kernel as far as these points tell."""
    smallest_eigenvalue: float
    tolerance: float
    """N eps times the largest eigenvalue: what rounding may do."""
    asymmetry: float
    """The largest `|k(x, y) - k(y, x)|`."""
    witness: tuple[int, ...]
    """Points that show it is no kernel, by number: two that are not symmetric, or a set with a negative square."""
    coefficients: tuple[float, ...]
    """Weights of the witness with `a' K a` negative; none for asymmetry."""

    def __bool__(self) -> bool:
        return self.value


def check(kernel: Kernel | Callable[[Any, Any], Any], x: Any) -> Check:
    """Whether a function of two points (a `Kernel`, or any function of two) is one on these points.

    >>> from chainrule.kernels import RBF
    >>> bool(check(RBF(1.0), [[0.0], [1.0], [1.0]]))
    True
    >>> found = check(lambda a, b: -((a - b) ** 2).sum(), [[0.0], [1.0], [5.0]])
    >>> found.value, found.witness
    (False, (0, 2))
    """
    given: Any = kernel
    if not callable(given):
        raise ArgumentError(
            f"check(kernel={kernel!r}): a kernel or a function of two points is needed",
            remedy="for a matrix of similarities: check(Precomputed(matrix), range(len(matrix)))",
        )
    if len(x) == 0:
        raise ArgumentError("check(x): no points to check a kernel on")
    matrix = _matrix(kernel, x)
    if matrix.shape != (len(x), len(x)) or not np.isfinite(matrix).all():
        raise ArgumentError(
            f"check(kernel): the values of {len(x)} points are not finite numbers, one for each pair"
        )
    apart = np.abs(matrix - matrix.T)
    values = np.linalg.eigvalsh((matrix + matrix.T) / 2)
    tolerance = len(matrix) * np.finfo(np.float64).eps * max(abs(values[0]), abs(values[-1]))
    witness: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    if apart.max() > max(tolerance, 1e-12 * np.abs(matrix).max()):
        i, j = sorted(int(k) for k in np.unravel_index(np.argmax(apart), apart.shape))
        witness = (i, j)
    elif values[0] < -tolerance:
        witness, weights = _smallest_witness(matrix, tolerance)
    return Check(not witness, float(values[0]), float(tolerance), float(apart.max()), witness, weights)


def _matrix(kernel: Kernel | Callable[[Any, Any], Any], x: Any) -> np.ndarray:
    with jax.enable_x64(True):
        if isinstance(kernel, Kernel):
            return np.asarray(widened(kernel).gram(np.asarray(x, np.float64)), np.float64)
        rows = [np.asarray(a) if isinstance(a, list | tuple) else a for a in x]
        return np.array([[_number(kernel(a, b)) for b in rows] for a in rows])


def _number(value: Any) -> float:
    if np.shape(value) != ():
        raise ArgumentError(
            f"check(kernel): two points gave an array of shape {np.shape(value)}, not one number",
            remedy="a kernel of two points is a number, such as lambda x, y: (x * y).sum()",
        )
    return float(value)


def _smallest_witness(matrix: np.ndarray, tolerance: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Points are left out, those with the least weight first, as long as a negative eigenvalue remains."""
    kept = list(range(len(matrix)))
    vector = np.linalg.eigh(matrix)[1][:, 0]
    while len(kept) > 1:
        for least in np.argsort(np.abs(vector)):
            fewer = kept[:least] + kept[least + 1 :]
            values, vectors = np.linalg.eigh(matrix[np.ix_(fewer, fewer)])
            if values[0] < -tolerance:
                kept, vector = fewer, vectors[:, 0]
                break
        else:
            break
    return tuple(kept), tuple(float(weight) for weight in vector)


__all__ = ["Check", "check"]
