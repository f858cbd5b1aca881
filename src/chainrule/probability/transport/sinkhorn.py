"""Entropic optimal transport: plans that are smooth in everything they depend on, for sets of any size (Cuturi, 2013).

    OT_eps(a, b) = min over plans P of <C, P> + eps KL(P | a b')

Solved for two potentials by Sinkhorn's iterations, in a form that neither overflows nor underflows whatever eps is: by
matrix-vector products with a kernel that absorbs the potentials now and then (Schmitzer, 2019), accelerated by
combining the last few iterations (Anderson, 1965). Costs of many points are never all there (`point_costs`).
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import machine
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, ChainruleWarning, check_choice
from chainrule.core.formatting import memory_size
from chainrule.core.types import Array, Scalar
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.transport.costs import weights_of
from chainrule.probability.transport.entropic.costs import Costs, EntropicProblem, beginning
from chainrule.probability.transport.entropic.iteration import DEPTH, StoppingRule
from chainrule.probability.transport.entropic.kernel import CostMatrix
from chainrule.probability.transport.entropic.marginals import Balanced
from chainrule.probability.transport.entropic.result import EntropicTransport
from chainrule.probability.transport.entropic.solving import (
    EntropicSolution,
    rounding,
    solved,
    solved_by_unrolling,
    tolerance_of,
)
from chainrule.probability.transport.scaling import solved_by_scaling

MOST = 2000
"""Iterations, unless a number is given."""
SHARE = 0.05
"""The usual eps over the mean cost."""

_COARSE = 10.0
"""An error of no more than so many roundings of potentials, beside eps, is one of rounding, not of iterations."""

_beginning = jax.jit(beginning)


def sinkhorn(
    a: Any,
    b: Any,
    cost: Any,
    eps: Any = None,
    *,
    method: str = "auto",
    tolerance: float | None = None,
    max_iterations: int = MOST,
    acceleration: int = DEPTH,
    derivative: str = "envelope",
) -> EntropicTransport:
    """The entropic plan between weights `a` of rows and `b` of columns (none: equal ones) of a cost matrix.

    `cost` is a matrix, or `point_costs` of two sets. `eps` is a twentieth of the mean cost by default, a constant to
    derivatives. Iterations end when the mass in wrong columns is at most `tolerance` (1e-3 in single precision, 1e-6 in
    double). A call from compiled code says in `converged` whether that was reached; any other call warns.

    `method="auto"` multiplies with a stabilised kernel, "log" stays in the log domain, and "scaling" is the textbook
    iteration with `exp(-C / eps)`, which refuses an eps that makes entries vanish. `acceleration` is how many
    iterations a step combines; 0 is Sinkhorn's own.

    Derivatives of the value come from the envelope theorem, all others from the implicit function theorem;
    `derivative="implicit"` takes those of the value from there as well, and "unroll" differentiates exactly
    `max_iterations` iterations.

    >>> found = sinkhorn([0.5, 0.5], [0.5, 0.5], [[0.0, 1.0], [1.0, 0.0]], 0.5)
    >>> round(float(found.value), 4), round(float(found.cost), 4), bool(found.converged)
    (0.2831, 0.1192, True)
    """
    check_choice("sinkhorn", "method", method, ("auto", "log", "scaling"))
    check_choice("sinkhorn", "derivative", derivative, ("envelope", "implicit", "unroll"))
    costs = as_costs("sinkhorn", cost)
    rows, columns = checked_weights("sinkhorn", a, b, costs)
    problem = EntropicProblem(rows, columns, strength("sinkhorn", eps, costs), Balanced())
    limits = limits_of("sinkhorn", tolerance, max_iterations, costs.dtype)
    depth = whole("sinkhorn", "acceleration", acceleration, least=0)
    if derivative == "unroll":
        answer = solved_by_unrolling(costs, problem, int(limits.most))
    elif method == "scaling":
        answer = solved_by_scaling(costs, problem, limits)
    else:
        answer = solved(costs, problem, limits, depth, method)
    result = as_result(costs, problem, answer, limits, follows=derivative == "unroll")
    warn_unless_converged("sinkhorn", result)
    if derivative == "implicit":
        f, g = result.potentials
        return with_value(result, rows @ f + columns @ g)
    return result


def as_costs(where: str, cost: Any) -> Costs:
    """A matrix of costs, refused before anything is allocated where the solver would not fit into memory."""
    if isinstance(cost, Costs):
        return cost
    matrix = floating(cost)
    if matrix.ndim != 2 or not matrix.size:
        raise ArgumentError(
            f"{where}(cost): a matrix of costs has two axes, not shape {matrix.shape}",
            remedy="make one of two sets of points: cost_matrix(x, y), or point_costs(x, y) where it would be large",
        )
    needed, free = 2 * matrix.size * matrix.dtype.itemsize, machine.memory()
    if needed > free:
        block = max(1, free // (12 * matrix.shape[1] * matrix.dtype.itemsize))
        raise ArgumentError(
            f"{where}(cost): {matrix.shape[0]:,} x {matrix.shape[1]:,} costs and as much again take "
            f"{memory_size(needed)}, and this machine has {memory_size(free)}",
            remedy=f"give points instead of the matrix: cost=point_costs(x, y, block={block})",
        )
    return CostMatrix(matrix)


def strength(where: str, eps: Any, costs: Costs) -> Scalar:
    """The entropic strength: positive; a twentieth of the mean cost where none is given, and a constant then."""
    if eps is None:
        mean = jax.lax.stop_gradient(_beginning(costs)[1])
        # Costs that are all zero leave nothing to choose.
        return jnp.where(mean > 0, SHARE * mean, 1.0).astype(costs.dtype)
    given = jnp.asarray(eps, costs.dtype)
    if given.ndim:
        raise ArgumentError(
            f"{where}(eps): one number, not shape {given.shape}", remedy="use jax.vmap for several"
        )
    known = jax.lax.stop_gradient(given)
    if not isinstance(known, jax.core.Tracer) and not 0 < float(known) < np.inf:
        raise ArgumentError(
            f"{where}(eps={float(known):g}): the entropic strength is positive and finite",
            remedy="for transport without it use exact(a, b, cost)",
        )
    return given


def limits_of(where: str, tolerance: float | None, max_iterations: int, dtype: Any) -> StoppingRule:
    """When to stop, checked."""
    wanted = tolerance_of(dtype) if tolerance is None else tolerance
    if not wanted > 0:
        raise ArgumentError(
            f"{where}(tolerance={wanted}): the error of the marginals gets small, never zero",
            remedy="use 1e-6",
        )
    return StoppingRule(wanted, whole(where, "max_iterations", max_iterations))


def as_result(
    costs: Costs,
    problem: EntropicProblem,
    answer: EntropicSolution,
    limits: StoppingRule,
    *,
    follows: bool = False,
) -> EntropicTransport:
    """What was solved as an object that answers questions."""
    return EntropicTransport(
        answer.value,
        answer.error,
        answer.error <= limits.tolerance,
        answer.sweeps,
        costs,
        problem,
        (answer.f, answer.g),
        follows,
    )


def with_value(result: EntropicTransport, value: Scalar) -> EntropicTransport:
    """The same result with another value."""
    return EntropicTransport(
        value,
        result.error,
        result.converged,
        result.iterations,
        result.costs,
        result.problem,
        result.found,
        result.follows,
    )


def warn_unless_converged(where: str, result: EntropicTransport) -> None:
    """Say what was not reached, and what to do; compiled code has the flag instead."""
    # A call that is differentiated but not compiled has all numbers, and warns as any other.
    known = jax.lax.stop_gradient((result.error, result.costs, result.problem, result.found))
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(known))
    if traced or bool(np.all(result.converged)):
        return
    misplaced, costs, problem, found = known
    error = float(np.max(misplaced))
    if not np.isfinite(error):
        _refuse_costs(where, costs)
    eps, digits = float(np.min(problem.eps)), float(rounding(problem, *found))
    finer = _finer(costs.dtype)
    kept = f"{costs.dtype} keeps potentials to {digits:.2g} only"
    if eps < digits:  # rounding alone changes the plan several times over: what was found is no answer
        raise ArgumentError(f"{where}(eps={eps:.3g}): {kept}, which is more than eps", remedy=f"use {finer}")
    if error * eps < _COARSE * digits:
        warnings.warn(
            f"{where}: {error:.2g} of the mass is misplaced: {kept}, too coarse for eps={eps:.3g}; use {finer}",
            ChainruleWarning,
            stacklevel=3,
        )
        return
    warnings.warn(
        f"{where}: {error:.2g} of the mass is in wrong columns after {int(np.max(result.iterations))} iterations "
        f"with eps={eps:.3g}; use a larger eps, more max_iterations, or a larger tolerance",
        ChainruleWarning,
        stacklevel=3,
    )


def _finer(dtype: Any) -> str:
    """What helps where numbers are too coarse for eps."""
    double = "" if jnp.finfo(dtype).bits > 32 else "double precision (jax.enable_x64(True)), "
    return f"a larger eps, {double}or exact(a, b, cost)"


def _refuse_costs(where: str, costs: Costs) -> None:
    """Raise, naming the cost that is not finite where there is one."""
    if isinstance(costs, CostMatrix):
        wrong = np.argwhere(~np.isfinite(np.asarray(costs.matrix)))
        if len(wrong):
            i, j = (int(n) for n in wrong[0])
            raise ArgumentError(
                f"{where}(cost): cost[{i}, {j}] is {float(costs.matrix[i, j])}",
                remedy="costs must be finite; a large one keeps mass away as well",
            )
    raise ArgumentError(
        f"{where}: potentials are not finite",
        remedy="use a larger eps, scale the costs, or use double precision: jax.enable_x64(True)",
    )


def checked_weights(where: str, a: Any, b: Any, costs: Costs) -> tuple[Array, Array]:
    """Weights of rows and of columns, none negative, each with sum one; equal ones where none are given."""
    double, checked = jnp.finfo(costs.dtype).bits > 32, []
    for name, weights, count in zip("ab", (a, b), costs.shape, strict=True):
        mass = weights_of(where, name, weights, count, costs.dtype)
        if not isinstance(mass, jax.core.Tracer):
            total = float(np.asarray(mass, np.float64).sum())
            if abs(total - 1) > (1e-6 if double else 1e-4):
                raise ArgumentError(
                    f"{where}({name}): weights sum to {total:.8g} instead of 1",
                    remedy=f"divide them by their sum, {name} / {name}.sum(), or let mass disappear: unbalanced(...)",
                )
            if double and abs(total - 1) > 1e-8:  # their sum was one in single precision
                mass = mass / total
        checked.append(mass)
    rows, columns = checked
    return rows, columns


__all__ = ["sinkhorn"]
