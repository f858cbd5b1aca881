"""Exact solvers of the transport problem on the host, in double precision: each a function of (a, b, cost).

- `network-simplex`: the solver of POT, where that package is installed. The fastest.
- `assignment`: as many equal weights on both sides. A best plan is a permutation (Birkhoff), which SciPy finds; the
  potentials follow from it as shortest paths.
- `highs`: the linear program, by the dual simplex method of HiGHS in SciPy. Always there.

All return a vertex of the set of couplings, whose support is a forest: at most n + m - 1 entries.

References: Crouse, On implementing 2D rectangular assignment algorithms, 2016; Bonneel, van de Panne, Paris and
Heidrich, Displacement interpolation using Lagrangian mass transport, 2011 (network simplex); Huangfu and Hall,
Parallelizing the dual revised simplex method, 2018 (HiGHS).
"""

import importlib.util
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.optimize
import scipy.sparse

from chainrule.core.errors import ArgumentError

_TOLERANCE = 1e-10
"""How far HiGHS may be from feasible, where weights are of order one and costs at most one."""
_PIVOTS = 100_000_000
"""So many steps of the network simplex are never needed; POT counts them and stops at fewer by default."""

_WORTH = 4_000
"""The least number of costs for which potentials are looked for before the network simplex starts."""
_SHARPER, _SCALINGS = np.array([0.1, 0.02, 0.004, 0.001], np.float32), 10
"""Eps of that search beside the mean cost, and steps with each."""


class Vertex(NamedTuple):
    """A plan and potentials of the rows that prove it up to what rounding leaves; `finished` unless steps ran out."""

    plan: np.ndarray
    f: np.ndarray
    finished: bool = True


Solver: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], Vertex]


def assignment(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> Vertex:
    """A best permutation of equal weights, and its potentials.

    >>> assignment(np.full(2, 0.5), np.full(2, 0.5), np.array([[1.0, 0.0], [0.0, 3.0]])).plan.tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """
    if not even(a, b):
        raise ArgumentError(
            f"solver='assignment': {len(a)} and {len(b)} points with weights that are not all equal",
            remedy="use solver='auto'",
        )
    rows, columns = scipy.optimize.linear_sum_assignment(cost)
    plan = np.zeros_like(cost)
    plan[rows, columns] = a
    # Potentials must satisfy f_i - f_k <= C[i, s(k)] - C[k, s(k)] for the permutation s: lengths of shortest paths.
    steps = cost[:, columns] - cost[rows, columns][None, :]
    f = np.zeros(len(a))
    for _ in range(len(a)):
        shorter = np.minimum(f, (steps + f[None, :]).min(axis=1))
        if np.array_equal(shorter, f):
            break
        f = shorter
    return Vertex(plan, f)


def network_simplex(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> Vertex:
    """The plan by POT's network simplex method.

    >>> solver = network_simplex if installed() else highs
    >>> solver(np.array([1.0]), np.array([0.25, 0.75]), np.array([[1.0, 2.0]])).plan.tolist()
    [[0.25, 0.75]]
    """
    if not installed():
        raise ArgumentError(
            "solver='network-simplex' needs the package POT",
            remedy="install it: pip install POT; or use solver='highs'",
        )
    # Slow to load, and seldom needed; it has no types, and may not be there.
    import ot  # type: ignore[import-untyped, import-not-found, unused-ignore]

    f, g = _near(a, b, cost) if cost.size >= _WORTH else (np.zeros(len(a)), np.zeros(len(b)))
    left = cost - f[:, None] - g[None, :]
    size = max(-left.min(), left.max()) or 1.0  # what POT takes for zero does not depend on the costs
    left /= size
    plan, log = ot.lp.emd(a, b, left, numItermax=_PIVOTS, log=True, center_dual=False, check_marginals=False)
    return Vertex(plan, f + size * log["u"], log["warning"] is None)


def _near(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Potentials near the best ones, by a few scalings of kernels that sharpen.

    The best plan stays best when potentials are subtracted from the costs; with good ones, moves that are in it cost
    nearly nothing, and the simplex method finds them in fewer steps.
    """
    first = cost.min(axis=1)
    left = (cost - first[:, None]).astype(np.float32)
    f, g, spread = np.zeros_like(left[:, 0]), left.min(axis=0), left.mean()
    some, others = ((weights / weights.sum()).astype(np.float32) for weights in (a, b))
    least = np.finfo(np.float32).tiny
    for eps in spread * _SHARPER if spread > 0 else ():
        kernel = np.exp(np.minimum((f[:, None] + g[None, :] - left) / eps, 0.0))
        u, v = some, np.ones_like(others)
        for _ in range(_SCALINGS):
            u = some / np.maximum(kernel @ v, least)
            v = others / np.maximum(u @ kernel, least)
        f, g = f + eps * np.log(u), g + eps * np.log(v)
    return first + f, g.astype(np.float64)


def highs(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> Vertex:
    """The plan as a linear program, by HiGHS.

    >>> highs(np.array([1.0]), np.array([0.25, 0.75]), np.array([[1.0, 2.0]])).plan.tolist()
    [[0.25, 0.75]]
    """
    rows, columns = cost.shape
    weight, size = a.sum() / max(rows, columns), np.abs(cost).max() or 1.0
    sums = scipy.sparse.vstack(
        [
            scipy.sparse.kron(scipy.sparse.eye_array(rows), np.ones((1, columns))),
            scipy.sparse.kron(np.ones((1, rows)), scipy.sparse.eye_array(columns)),
        ],
        format="csc",
    )
    found = scipy.optimize.linprog(
        cost.ravel() / size,
        A_eq=sums,
        b_eq=np.concatenate([a, b]) / weight,
        method="highs-ds",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if found.x is None:  # stopped before it had any plan: the one that ignores costs is always there
        return Vertex(a[:, None] * b[None, :] / a.sum(), np.zeros(rows), finished=False)
    plan = weight * np.maximum(found.x, 0.0).reshape(cost.shape)
    return Vertex(plan, size * found.eqlin.marginals[:rows], found.status == 0)


def installed() -> bool:
    """Whether POT is there.

    >>> isinstance(installed(), bool)
    True
    """
    return importlib.util.find_spec("ot") is not None


def even(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether both sides have as many points, all of one weight.

    >>> even(np.full(2, 0.5), np.full(2, 0.5)), even(np.full(2, 0.5), np.ones(1))
    (True, False)
    """
    both = np.concatenate([a, b])
    return len(a) == len(b) and bool(np.ptp(both) <= 1e-12 * both.max())


SOLVERS: dict[str, Solver] = {"network-simplex": network_simplex, "assignment": assignment, "highs": highs}
"""By name, as `exact` takes them."""


def fastest(a: np.ndarray, b: np.ndarray) -> Solver:
    """The solver that `exact` chooses for these weights.

    >>> fastest(np.full(2, 0.5), np.full(2, 0.5)).__name__ in ("network_simplex", "assignment")
    True
    """
    if installed():
        return network_simplex
    return assignment if even(a, b) else highs


__all__ = [
    "SOLVERS",
    "Solver",
    "Vertex",
    "assignment",
    "even",
    "fastest",
    "highs",
    "installed",
    "network_simplex",
]
