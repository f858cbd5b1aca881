"""What patterns are detected of, the same for everybody who speaks JAX."""

from collections.abc import Callable
from typing import Any

import numpy as np
import sparse_problems


def brusselator(jax: Any, size: int) -> Callable[[Any], Any]:
    """Two chemicals on a periodic grid."""
    return sparse_problems.brusselator(jax.numpy, size)


def scan(jax: Any, steps: int) -> Callable[[Any], Any]:
    """A hundred steps of diffusion on a line, as a loop."""
    jnp = jax.numpy

    def step(u: Any, _: None) -> tuple[Any, None]:
        return u + 0.1 * (jnp.pad(u[1:], (0, 1)) - 2.0 * u + jnp.pad(u[:-1], (1, 0))), None

    return lambda x: jax.lax.scan(step, x, None, length=steps)[0]


def rosenbrock(jax: Any, _: int) -> Callable[[Any], Any]:
    """Neighbours coupled in a chain."""
    return lambda x: jax.numpy.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


FUNCTIONS = {"brusselator": brusselator, "scan": scan, "rosenbrock": rosenbrock}
SECOND_ORDER = ("rosenbrock",)
"""Functions of which the Hessian is wanted."""


def length(problem: str, size: int) -> int:
    """Number of inputs; the size of a scan is its number of steps."""
    return {"brusselator": 2 * size * size, "scan": 2 * size}.get(problem, size)


def fingerprint(rows: np.ndarray, cols: np.ndarray) -> list[float]:
    """Numbers on which two agree only if they found the same places."""
    keys = np.unique(rows.astype(np.int64) * (1 << 31) + cols)
    mixed = np.random.default_rng(0).uniform(0.5, 1.5, 997)[keys % 997]
    return [float(len(keys)), float(mixed.sum())]
