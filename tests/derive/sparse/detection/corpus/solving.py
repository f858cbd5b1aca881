"""Linear and nonlinear solves of lineax and optimistix, whose matrices have a structure."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx

from tests.derive.sparse.detection.corpus.case import Case, sound, tight

N = 4
_VECTOR = jax.ShapeDtypeStruct((N,), np.float64)


def solve(operator: Any, vector: Any, solver: Any = None) -> Any:
    return lx.linear_solve(
        operator, vector, lx.AutoLinearSolver(well_posed=None) if solver is None else solver
    ).value


def blocks(x: Any) -> Any:
    """Two blocks of two, as a plain matrix."""
    even = jnp.arange(0, N, 2)
    return jnp.diag(3 + x).at[even, even + 1].set(x[::2]).at[even + 1, even].set(0.5)


def rooted(residual: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    solver = optx.Newton(1e-10, 1e-10)
    return lambda x: optx.root_find(residual, solver, jnp.zeros(N), args=x).value


def _bidiagonal(y: Any, x: Any) -> Any:
    return (y**3 + 4 * y - x).at[1:].add(0.1 * y[:-1])


def _fixed(x: Any) -> Any:
    iteration = optx.FixedPointIteration(1e-10, 1e-10)
    return optx.fixed_point(lambda y, a: 0.5 * a * jnp.cos(y), iteration, jnp.zeros(N), args=x).value


def _minimum(x: Any) -> Any:
    objective = lambda y, a: jnp.sum((y - a) ** 4 + (y - a) ** 2)  # noqa: E731
    return optx.minimise(objective, optx.BFGS(1e-10, 1e-10), jnp.zeros(N), args=x).value


def _tall(x: Any) -> Any:
    """Least squares with two independent columns."""
    matrix = jnp.zeros((N, 2)).at[:2, 0].set(1 + x[:2]).at[2:, 1].set(1 + x[2:])
    return solve(lx.MatrixLinearOperator(matrix), x, lx.AutoLinearSolver(well_posed=False))


_ONES = np.ones((N, N), dtype=bool)
DIAGONAL, LOWER = np.eye(N, dtype=bool), np.tril(_ONES)
BLOCKS = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
TALL = np.array([[1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool)

SOLVES: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "diagonal operator": (lambda x: solve(lx.DiagonalLinearOperator(1 + x), x**2), DIAGONAL),
    "diagonal matrix": (lambda x: solve(lx.MatrixLinearOperator(jnp.diag(1 + x)), x), DIAGONAL),
    "block matrix": (lambda x: solve(lx.MatrixLinearOperator(blocks(x)), x), BLOCKS),
    "tridiagonal operator": (
        lambda x: solve(lx.TridiagonalLinearOperator(4 + x, 0.1 * x[1:], 0.1 * x[1:]), x),
        _ONES,
    ),
    "triangular matrix": (
        lambda x: solve(lx.MatrixLinearOperator(jnp.tril(3 * jnp.eye(N) + jnp.outer(x, x))), x),
        LOWER,
    ),
    "function": (lambda x: solve(lx.FunctionLinearOperator(lambda v: v * (1 + x), _VECTOR), x), DIAGONAL),
    "Jacobian": (lambda x: solve(lx.JacobianLinearOperator(lambda y, _: y**3 + y, x), x), DIAGONAL),
    "least squares": (_tall, TALL),
    "root": (rooted(lambda y, x: y**3 + y - x), DIAGONAL),
    "root of a bidiagonal system": (rooted(_bidiagonal), LOWER),
    "fixed point": (_fixed, DIAGONAL),
    "minimum": (_minimum, DIAGONAL),
}
"""Function and its exact pattern."""

CASES: list[Case] = [
    *(tight(f"solve: {name}", f, (N,), low=0.3, high=1.2, mode="forward") for name, (f, _) in SOLVES.items()),
    sound(
        "solve: singular matrix by singular values",
        lambda x: solve(lx.MatrixLinearOperator(jnp.outer(x, x)), x, lx.SVD()),
        (N,),
        low=0.3,
        high=1.2,
        mode="forward",
    ),
]
