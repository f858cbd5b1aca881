"""Functions and patterns with sparse derivatives, the same for everybody: only NumPy and SciPy are needed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse


def brusselator(xp: Any, size: int) -> Callable[[Any], Any]:
    """Two chemicals on a periodic grid; `xp` is `numpy` or `jax.numpy`."""

    def f(z: Any) -> Any:
        u, v = z.reshape(2, size, size)

        def around(w: Any) -> Any:
            return xp.roll(w, 1, 0) + xp.roll(w, -1, 0) + xp.roll(w, 1, 1) + xp.roll(w, -1, 1) - 4.0 * w

        reaction = u * u * v
        du = 1.0 + reaction - 4.4 * u + 0.02 * around(u)
        dv = 3.4 * u - reaction + 0.02 * around(v)
        return xp.concatenate([du.ravel(), dv.ravel()])

    return f


def diffusion(xp: Any, _: int) -> Callable[[Any], Any]:
    """Nonlinear diffusion on a line."""

    def f(u: Any) -> Any:
        inner = u[1:-1]
        middle = u[:-2] - 2.0 * inner + u[2:] + inner * inner
        return xp.concatenate([u[:1] * u[:1], middle, u[-1:] * u[-1:]])

    return f


def diagonal(xp: Any, _: int) -> Callable[[Any], Any]:
    """Every output depends on one input."""
    return lambda x: xp.sin(x) * x


def scan(jax: Any, steps: int) -> Callable[[Any], Any]:
    """Steps of diffusion on a line, as a loop; `jax` is the module."""
    jnp = jax.numpy

    def step(u: Any, _: None) -> tuple[Any, None]:
        return u + 0.1 * (jnp.pad(u[1:], (0, 1)) - 2.0 * u + jnp.pad(u[:-1], (1, 0))), None

    return lambda x: jax.lax.scan(step, x, None, length=steps)[0]


def rosenbrock(jax: Any, _: int) -> Callable[[Any], Any]:
    """Neighbours coupled in a chain."""
    return lambda x: jax.numpy.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


FUNCTIONS = {"brusselator": brusselator, "diffusion": diffusion, "diagonal": diagonal}
"""To be evaluated; made from `numpy` or `jax.numpy` and a size."""
PROGRAMS = {
    "brusselator": lambda jax, size: brusselator(jax.numpy, size),
    "scan": scan,
    "rosenbrock": rosenbrock,
}
"""To be looked into; made from `jax` and a size (for the scan: its number of steps)."""
SECOND_ORDER = ("rosenbrock",)
"""Programs of which the Hessian is wanted."""


def length(name: str, size: int) -> int:
    """Number of inputs."""
    return {"brusselator": 2 * size * size, "scan": 2 * size}.get(name, size)


def positions(rows: np.ndarray, cols: np.ndarray) -> list[float]:
    """Numbers on which two agree only if they found the same positions."""
    keys = np.unique(rows.astype(np.int64) * (1 << 31) + cols)
    mixed = np.random.default_rng(0).uniform(0.5, 1.5, 997)[keys % 997]
    return [float(len(keys)), float(mixed.sum())]


def point(name: str, size: int, dtype: str = "float64") -> np.ndarray:
    """Where derivatives are taken."""
    return np.random.default_rng(0).uniform(0.5, 1.5, length(name, size)).astype(dtype)


def brusselator_pattern(size: int) -> scipy.sparse.csr_matrix:
    """Its Jacobian's pattern."""
    at = np.arange(2 * size * size).reshape(2, size, size)
    rows, cols = [], []
    for field in range(2):
        for shift in [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]:
            rows.append(at[field].ravel())
            cols.append(np.roll(at[field], shift, (0, 1)).ravel())
        rows.append(at[field].ravel())
        cols.append(at[1 - field].ravel())
    return _matrix(rows, cols, 2 * size * size)


def diffusion_pattern(size: int) -> scipy.sparse.csr_matrix:
    """Its Jacobian's pattern."""
    i = np.arange(1, size - 1)
    ends = np.array([0, size - 1])
    return _matrix([i, i, i, ends], [i - 1, i, i + 1, ends], size)


def band_with_hubs(n: int, width: int = 5, hubs: int = 5) -> scipy.sparse.csr_matrix:
    """A symmetric band with some dense rows and columns."""
    i = np.arange(n)
    rows, cols = [], []
    for k in range(-width, width + 1):
        inside = (i + k >= 0) & (i + k < n)
        rows.append(i[inside])
        cols.append(i[inside] + k)
    for hub in range(hubs):
        rows += [np.full(n, hub), i]
        cols += [i, np.full(n, hub)]
    return _matrix(rows, cols, n)


def arrow(n: int) -> scipy.sparse.csr_matrix:
    """First row, first column, diagonal."""
    i, zero = np.arange(n), np.zeros(n, dtype=int)
    return _matrix([i, i, zero], [i, zero, i], n)


def network(n: int) -> scipy.sparse.csr_matrix:
    """A random network of three edges for every vertex, with its diagonal."""
    ends = np.random.default_rng(0).integers(0, n, (2, 3 * n))
    return _matrix([*ends, np.arange(n)], [*ends[::-1], np.arange(n)], n)


PATTERNS = {
    "brusselator": brusselator_pattern,
    "diffusion": diffusion_pattern,
    "band": band_with_hubs,
    "arrow": arrow,
    "network": network,
}
SYMMETRIC = ("band", "network")
"""Patterns of which the star colouring is wanted."""


def summary(product: np.ndarray) -> list[float]:
    """Numbers that everybody with the same Jacobian arrives at, from its product with `direction`."""
    product = np.asarray(product, dtype=float)
    return [float(np.linalg.norm(product)), float(product[0]), float(product[len(product) // 2])]


def direction(n: int) -> np.ndarray:
    """A vector to multiply Jacobians with."""
    return 1.0 + 0.5 * np.cos(np.arange(n))


def _matrix(rows: list[np.ndarray], cols: list[np.ndarray], n: int) -> scipy.sparse.csr_matrix:
    row, col = np.concatenate(rows), np.concatenate(cols)
    made = scipy.sparse.csr_matrix((np.ones(len(row)), (row, col)), shape=(n, n))
    made.data[:] = 1.0
    return made
