"""Linear programs by HiGHS, on the host: the simplex code in SciPy, for programs too large for dense matrices.

Where HiGHS says that there is no solution, a second program that always has one yields the proof: the smallest change
of b that makes the first feasible, or the direction in a box along which its objective falls fastest.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Array, Float

from chainrule.derive.implicit import host_callback
from chainrule.derive.implicit.optimization.forms import PrimalDualPoint
from chainrule.derive.implicit.optimization.results import Status

_OPTIMAL = 0
_TOLERANCE = 1e-7


def solve(
    q: Float[Array, "n"], entries: Array, b: Float[Array, "m"], assemble: Callable[[np.ndarray], Any]
) -> tuple[PrimalDualPoint, Array]:
    """A vertex (or a ray), and which of the two it is; `assemble` makes the matrix of its entries."""
    shapes = tuple(jax.ShapeDtypeStruct(one.shape, one.dtype) for one in (q, b, q))
    shapes += (jax.ShapeDtypeStruct((), jnp.int32),)
    x, y, z, status = host_callback.call(partial(_run, assemble), shapes, q, entries, b)
    return PrimalDualPoint(x, y, z, x), status


def _run(assemble: Callable[[np.ndarray], Any], c: np.ndarray, entries: np.ndarray, b: np.ndarray) -> Any:
    """One program after the other; what does not differ between them has leading axes of length one."""
    lead = c.ndim - 1
    batch = np.broadcast_shapes(*(one.shape[:lead] for one in (c, entries, b)))
    c, entries, b = (np.broadcast_to(one, (*batch, *one.shape[lead:])) for one in (c, entries, b))
    results = (np.empty_like(c), np.empty_like(b), np.empty_like(c), np.empty(batch, np.int32))
    for index in np.ndindex(batch):
        one, other = c[index].astype(np.float64), b[index].astype(np.float64)
        found = vertex(one, assemble(entries[index].astype(np.float64)), other)
        for result, part in zip(results, found, strict=True):
            result[index] = part
    return results


def vertex(c: np.ndarray, A: Any, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, Status]:
    """x, minus y, and the reduced costs; or a ray in the same positions. A may be sparse."""
    from scipy.optimize import linprog

    m, n = A.shape
    nothing = np.zeros(n), np.zeros(m), np.zeros(n)
    if not all(np.isfinite(one.data if scipy.sparse.issparse(one) else one).all() for one in (c, A, b)):
        return *nothing, Status.STUCK
    found = linprog(c, A_eq=A, b_eq=b, bounds=(0, None), method="highs")
    if found.status == _OPTIMAL:
        y = found.eqlin.marginals
        return found.x, -y, c - A.T @ y, Status.SOLVED
    eye = scipy.sparse.eye_array(m)
    change = linprog(
        np.concatenate([np.zeros(n), np.ones(2 * m)]),
        A_eq=scipy.sparse.hstack([scipy.sparse.csr_array(A), eye, -eye]),
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
