"""Exact optimal transport: the cheapest way to move weights `a` to weights `b`, and a proof that none is cheaper.

    min <C, P>,  P >= 0,  P 1 = a,  P' 1 = b      (Kantorovich, 1942)

A linear program, solved on the host in double precision whatever the arrays around it are (`solvers.py`). Its
potentials are made feasible by c-transforms, so that the gap between both costs bounds the error of either. Derivatives
of the cost are those of the envelope theorem (dcost/dC = P, dcost/da = f), in forward and reverse mode. Plan and
potentials are constants to derivatives: a plan stays where it is for small changes of costs, and where it does not the
cost has a kink. Compiled code cannot call it and uses `sinkhorn`.

Reference: Peyré and Cuturi, Computational Optimal Transport, 2019, chapters 2 and 3.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning, check_choice
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.transport.costs import cost_matrix, two_sets, weights_of
from chainrule.probability.transport.marginals import Entries, check_totals
from chainrule.probability.transport.one_dimensional import wasserstein_1d
from chainrule.probability.transport.solvers import SOLVERS, Vertex, fastest

_ENTRIES = 25_000_000
"""Larger matrices of costs come with a warning."""
_GAP = 1e-9
"""A gap that counts as closed, beside the largest cost of all the mass."""


class ExactTransport(NamedTuple):
    """A cheapest plan, its cost, and the potentials that prove it."""

    plan: Float[Array, "some others"]
    entries: Entries
    """The entries of it that are not zero, n + m - 1 at most."""
    cost: Scalar
    """<C, P>, with derivatives; an upper bound of the optimum."""
    lower: Scalar
    """a·f + b·g, a lower bound."""
    potentials: tuple[Float[Array, " some"], Float[Array, " others"]]
    """f and g with f_i + g_j <= C_ij and a·f = b·g; equality where the plan has mass."""
    gap: float
    """How much cheaper any other plan could be: the difference of both bounds, in double precision."""
    converged: bool
    """Whether the gap is closed up to rounding."""


def exact(a: Any, b: Any, cost: Any, solver: str = "auto") -> ExactTransport:
    """The cheapest plan between weights `a` [n] and `b` [m] of equal totals (none: equal ones), for costs [n, m].

    `solver` is "network-simplex" (needs the package POT), "assignment" (equal weights on as many points), "highs", or
    "auto": the first of these that applies. It works on the host, outside of `jit` and `vmap`.

    >>> found = exact([0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [[0.0, 1, 4], [1, 0, 1], [4, 1, 0]])
    >>> round(float(found.cost), 6), bool(found.converged), float(found.gap) < 1e-6
    (0.9, True, True)
    >>> cheaper = jax.grad(lambda costs: exact([0.5, 0.5], [0.5, 0.5], costs).cost)
    >>> cheaper(jnp.array([[0.0, 1.0], [1.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    check_choice("exact", "solver", solver, ["auto", *SOLVERS])
    matrix = floating(cost)
    if matrix.ndim != 2 or not matrix.size:
        raise ArgumentError(
            f"exact(cost): needs a matrix, not shape {matrix.shape}",
            remedy="the costs of two sets of points: cost_matrix(x, y)",
        )
    a, b = (
        np.full(count, 1 / count) if weights is None else weights
        for weights, count in zip((a, b), matrix.shape, strict=True)
    )
    some, others = (floating(weights) for weights in (a, b))
    for name, weights, axis in (("a", some, 0), ("b", others, 1)):
        if weights.shape != (matrix.shape[axis],):
            raise ArgumentError(
                f"exact({name}): weights of shape {weights.shape} for costs of shape {matrix.shape}",
                remedy=f"give one weight for each {('row', 'column')[axis]}",
            )
    if matrix.size > _ENTRIES:
        warnings.warn(
            f"exact: {matrix.shape[0]} x {matrix.shape[1]} costs take long and much memory; sinkhorn(a, b, cost, eps) "
            "is the method for so many",
            ChainruleWarning,
            stacklevel=2,
        )
    found = _on_host(_known(a), _known(b), _known(cost), solver)
    if not found.converged:
        warnings.warn(
            f"exact: the plan found may cost {found.gap:.3g} more than the cheapest; another solver may find it",
            ChainruleWarning,
            stacklevel=2,
        )
    return found._replace(cost=_cost(some, others, matrix, found))


def wasserstein(x: Any, y: Any, p: float = 2, a: Any = None, b: Any = None) -> Scalar:
    """p-Wasserstein distance of two sets of rows, `(min <d^p, P>)^(1/p)` with Euclidean d, exactly; root taken.

    Weights `a` and `b` are equal by default. Points with one coordinate are sorted, others go to `exact`.

    >>> x = jnp.array([[0.0, 0.0], [1.0, 0.0]])
    >>> round(float(wasserstein(x, x + jnp.array([[3.0, 4.0]]))), 5)
    5.0
    """
    if not 1 <= p < float("inf"):
        raise ArgumentError(
            f"wasserstein(p={p}): p must be finite and at least 1; below 1 the triangle inequality fails",
            remedy="use p >= 1; for any other power of the distance: exact(a, b, cost_matrix(x, y, 'power', p))",
        )
    first, second = two_sets("wasserstein", x, y)
    if first.shape[1] == 1:
        return wasserstein_1d(first[:, 0], second[:, 0], p, a, b)
    some = weights_of("wasserstein", "a", a, len(first), first.dtype)
    others = weights_of("wasserstein", "b", b, len(second), first.dtype)
    unit: Array | float = 1.0
    if p > 2:  # a high power of a length may be too large or too small for its type: in units of the longest
        longest = jax.lax.stop_gradient(cost_matrix(first, second, "euclidean").max())
        unit = jnp.where(longest > 0, longest, 1.0)
    total = exact(some, others, cost_matrix(first / unit, second / unit, "power", p)).cost / some.sum()
    positive = total > 0  # the root has no slope at zero, where the distance has its minimum
    return unit * jnp.where(positive, jnp.where(positive, total, 1.0) ** (1 / p), 0.0)


def _known(array: Any) -> np.ndarray:
    """The numbers of an argument in double precision, as they were given."""
    value = jax.lax.stop_gradient(array) if isinstance(array, jax.Array) else array
    if isinstance(value, jax.core.Tracer):
        raise ArgumentError(
            "exact: works on the host and cannot be part of a function that jit or vmap traces",
            remedy="call it outside; inside, sinkhorn(a, b, cost, eps) comes as close as eps is small",
        )
    return np.asarray(value, np.float64)


@jax.custom_jvp
def _cost(_a: Array, _b: Array, _matrix: Array, found: ExactTransport) -> Scalar:
    """The cost that was found, with its derivative by the envelope theorem."""
    return found.cost


@_cost.defjvp
def _envelope(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Potentials are known up to a constant; as derivatives they have mean zero under the weights."""
    a, b, _, found = primals
    f, g = found.potentials
    slopes = (f - (a @ f) / a.sum(), g - (b @ g) / b.sum(), found.plan)
    changes = (
        (slope.astype(found.cost.dtype) * change).sum()
        for slope, change in zip(slopes, tangents[:3], strict=True)
    )
    return found.cost, sum(changes, jnp.zeros((), found.cost.dtype))


def _on_host(a: np.ndarray, b: np.ndarray, cost: np.ndarray, solver: str) -> ExactTransport:
    """The whole answer. Points without mass take no part in the solving; potentials reach them afterwards."""
    _check(a, b, cost)
    b = b * (a.sum() / b.sum())
    plan, f, finished = _solved(a, b, cost, solver)
    g = (cost[a > 0] - f[:, None]).min(axis=0)
    f = (cost - g[None, :]).min(axis=1)
    shift = (a @ f - b @ g) / (2 * a.sum())
    f, g = f - shift, g + shift
    rows, columns = np.nonzero(plan)
    mass = plan[rows, columns]
    value, lower = float(mass @ cost[rows, columns]), float(a @ f + b @ g)
    closed = value - lower <= _GAP * np.abs(cost).max() * a.sum()
    placed = jax.device_put((plan, rows, columns, mass, value, min(lower, value), f, g))
    return ExactTransport(
        plan=placed[0],
        entries=Entries(*placed[1:4]),
        cost=placed[4],
        lower=placed[5],
        potentials=placed[6:],
        gap=max(value - lower, 0.0),
        converged=bool(closed and finished),
    )


def _solved(a: np.ndarray, b: np.ndarray, cost: np.ndarray, solver: str) -> Vertex:
    """What the solver says of the points that have mass; the plan of all of them."""
    rows, columns = a > 0, b > 0
    if rows.all() and columns.all():
        return (fastest(a, b) if solver == "auto" else SOLVERS[solver])(a, b, cost)
    here = np.ix_(rows, columns)
    solved = _solved(a[rows], b[columns], np.ascontiguousarray(cost[here]), solver)
    plan = np.zeros_like(cost)
    plan[here] = solved.plan
    return solved._replace(plan=plan)


def _check(a: np.ndarray, b: np.ndarray, cost: np.ndarray) -> None:
    """Raise unless there is a coupling of the weights and every cost is a number."""
    for name, weights in (("a", a), ("b", b)):
        for at in np.flatnonzero(~((weights >= 0) & (weights < np.inf)))[:1]:
            raise ArgumentError(
                f"exact: {name}[{at}] is {weights[at]:.6g}; weights are finite and not negative"
            )
    if not np.isfinite(cost).all():
        row, column = np.argwhere(~np.isfinite(cost))[0]
        raise ArgumentError(
            f"exact: cost[{row}, {column}] is {cost[row, column]:.6g}; costs are finite",
            remedy="a move that is forbidden has a cost larger than all others together",
        )
    check_totals("exact", a, b)


__all__ = ["ExactTransport", "exact", "wasserstein"]
