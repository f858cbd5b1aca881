"""Programs whose solutions are known, all of one shape so that little is compiled."""

from typing import NamedTuple

import numpy as np

M, N = 3, 5

A = np.array([[1.0, 0, 1, 0, 0], [0, 2, 0, 1, 0], [3, 2, 0, 0, 1]])
b = np.array([4.0, 12, 18])
c = np.array([-3.0, -5, 0, 0, 0])


class Known(NamedTuple):
    """A linear program and its solution."""

    c: np.ndarray
    A: np.ndarray
    b: np.ndarray
    x: np.ndarray
    y: np.ndarray
    s: np.ndarray
    basis: np.ndarray


def nondegenerate(seed: int) -> Known:
    """A random program with a vertex chosen beforehand: M positive variables, positive reduced costs elsewhere."""
    rng = np.random.default_rng(seed)
    basis = np.sort(rng.permutation(N)[:M])
    rest = np.setdiff1d(np.arange(N), basis)
    matrix = rng.normal(size=(M, N))
    x, s, y = np.zeros(N), np.zeros(N), rng.normal(size=M)
    x[basis] = rng.uniform(0.5, 2.0, M)
    s[rest] = rng.uniform(0.5, 2.0, N - M)
    return Known(matrix.T @ y + s, matrix, matrix @ x, x, y, s, basis)


class Quadratic(NamedTuple):
    """A strictly convex quadratic program."""

    P: np.ndarray
    q: np.ndarray
    A: np.ndarray
    b: np.ndarray
    G: np.ndarray
    h: np.ndarray


def quadratic(seed: int, n: int = 4, p: int = 1, m: int = 5) -> Quadratic:
    """A random program with some inequalities active and some not."""
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, n))
    equations, bounds = rng.normal(size=(p, n)), rng.normal(size=(m, n))
    inside = rng.normal(size=n)
    return Quadratic(
        half @ half.T + 0.1 * np.eye(n),
        3.0 * rng.normal(size=n),
        equations,
        equations @ inside,
        bounds,
        bounds @ inside + rng.uniform(0.05, 0.5, m),
    )
