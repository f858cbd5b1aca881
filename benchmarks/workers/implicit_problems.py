"""The problems of the `derive-implicit` benchmark, in NumPy or JAX (`xp`), and their exact Jacobians in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 1_000
DIRECTIONS = 100
RANK = 20
LAYER = 200
RATE = 0.95
"""At which plain iteration of the layer contracts, about."""


def bottleneck_data() -> dict[str, np.ndarray]:
    """F(w, q) = w + U tanh(V w) - q: every unknown depends on every other through a few."""
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(SIZE, RANK)), rng.normal(size=(RANK, SIZE)) / SIZE
    return {"U": U, "V": V, "q": rng.normal(size=SIZE)}


def bottleneck(xp: Any, w: Any, U: Any, V: Any, q: Any) -> Any:
    """F."""
    return w + U @ xp.tanh(V @ w) - q


def bottleneck_jacobian(w: np.ndarray, U: np.ndarray, V: np.ndarray, q: np.ndarray) -> np.ndarray:
    """dF/dw."""
    return np.eye(len(q)) + (U * (1 - np.tanh(V @ w) ** 2)[None, :]) @ V


def dense_data() -> dict[str, np.ndarray]:
    """F(w, q) = M w + tanh(w) - q."""
    rng = np.random.default_rng(0)
    return {"M": 40 * np.eye(SIZE) + rng.normal(size=(SIZE, SIZE)), "q": rng.normal(size=SIZE)}


def dense(xp: Any, w: Any, M: Any, q: Any) -> Any:
    """F."""
    return M @ w + xp.tanh(w) - q


def dense_jacobian(w: np.ndarray, M: np.ndarray, **_: np.ndarray) -> np.ndarray:
    """dF/dw."""
    return M + np.diag(1 - np.tanh(w) ** 2)


ROOTS: dict[
    str, tuple[Callable[[], dict[str, np.ndarray]], Callable[..., Any], Callable[..., np.ndarray]]
] = {
    "bottleneck": (bottleneck_data, bottleneck, bottleneck_jacobian),
    "dense": (dense_data, dense, dense_jacobian),
}
"""Data (q last), F and its Jacobian."""


def directions() -> np.ndarray:
    """As rows."""
    return np.random.default_rng(1).normal(size=(DIRECTIONS, SIZE))


def solution(problem: str) -> np.ndarray:
    """The root, by Newton's method."""
    data, f, jacobian = ROOTS[problem]
    given = data()
    w = np.zeros(SIZE)
    for _ in range(30):
        w = w - np.linalg.solve(jacobian(w, **given), f(np, w, **given))
    return w


def layer_data() -> tuple[np.ndarray, np.ndarray]:
    """W and q of the equilibrium x = tanh(W x + q), with small q so that tanh hardly flattens."""
    rng = np.random.default_rng(2)
    W = rng.normal(size=(LAYER, LAYER))
    return W * RATE / np.abs(np.linalg.eigvals(W)).max(), 0.01 * rng.normal(size=LAYER)


def layer(xp: Any, x: Any, W: Any, q: Any) -> Any:
    """The right-hand side."""
    return xp.tanh(W @ x + q)


def chain(xp: Any, w: Any, q: Any) -> Any:
    """A banded root: 3 w + w^3 less the two neighbours = q."""
    zero = xp.zeros(1)
    return 3 * w + w**3 - xp.concatenate([zero, w[:-1]]) - xp.concatenate([w[1:], zero]) - q


def summary(*arrays: np.ndarray) -> list[float]:
    """A few numbers that tell arrays apart: weighted sums."""
    found = []
    for array in arrays:
        flat = np.asarray(array, dtype=np.float64).ravel()
        found += [float(flat @ np.cos(np.arange(flat.size))), float(np.linalg.norm(flat))]
    return found
