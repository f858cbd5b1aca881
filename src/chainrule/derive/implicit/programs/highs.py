"""Linear programs by HiGHS, on the host: the simplex code inside SciPy, for programs too large for dense matrices.

Where HiGHS says that there is no solution, a second program that always has one yields the proof: the smallest change
of b that makes the first feasible, or the direction in a box along which its objective falls fastest.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from chainrule.derive.implicit.programs.forms import Point, Standard
from chainrule.derive.implicit.programs.results import Status

_OPTIMAL = 0
_TOLERANCE = 1e-7


def solve(form: Standard) -> tuple[Point, Array]:
    """A vertex (or a ray), and which of the two it is."""
    m, n = form.A.shape
    dtype = form.q.dtype
    shapes = [jax.ShapeDtypeStruct((k,), dtype) for k in (n, m, n)] + [jax.ShapeDtypeStruct((), jnp.int32)]
    x, y, z, status = jax.pure_callback(_run, shapes, form.q, form.A, form.b, vmap_method="sequential")
    return Point(x, y, z, x), status


def _run(*data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    c, A, b = (np.asarray(one, np.float64) for one in data)
    x, y, z, status = vertex(c, A, b)
    dtype = np.asarray(data[0]).dtype
    return x.astype(dtype), y.astype(dtype), z.astype(dtype), np.asarray(int(status), np.int32)


def vertex(c: np.ndarray, A: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, Status]:
    """x, minus y, and the reduced costs; or a ray in the same places."""
    from scipy.optimize import linprog

    m, n = A.shape
    nothing = np.zeros(n), np.zeros(m), np.zeros(n)
    if not all(np.isfinite(one).all() for one in (c, A, b)):
        return *nothing, Status.STUCK
    found = linprog(c, A_eq=A, b_eq=b, bounds=(0, None), method="highs")
    if found.status == _OPTIMAL:
        y = found.eqlin.marginals
        return found.x, -y, c - A.T @ y, Status.SOLVED
    change = linprog(
        np.concatenate([np.zeros(n), np.ones(2 * m)]),
        A_eq=np.concatenate([A, np.eye(m), -np.eye(m)], axis=1),
        b_eq=b,
        bounds=(0, None),
        method="highs",
    )
    if change.status == _OPTIMAL and change.fun > _TOLERANCE * (1.0 + np.abs(b).max(initial=0.0)):
        y = change.eqlin.marginals / change.fun
        return nothing[0], -y, -A.T @ y, Status.INFEASIBLE
    fall = linprog(c, A_eq=A, b_eq=np.zeros(m), bounds=(0, 1), method="highs")
    if fall.status == _OPTIMAL and fall.fun < -_TOLERANCE * (1.0 + np.abs(c).max(initial=0.0)):
        return fall.x / -fall.fun, nothing[1], nothing[2], Status.UNBOUNDED
    return *nothing, Status.STUCK


__all__ = ["solve", "vertex"]
