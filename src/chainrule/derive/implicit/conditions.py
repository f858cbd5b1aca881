"""Conditions of the implicit function theorem: four numbers decide, and the error says which one fails.

1. **F = 0.** The residual is compared with what a small relative change of all arguments does to F.
2. **A = dF/dw is invertible.** Its reciprocal condition is estimated from the factor at hand, with a few solves.
3. **A stays invertible around the solution.** At a fold or a multiple root a solver finds only half of the digits, and
   the A it finds is small but not singular. So the root is moved by what its residual and the rounding of F leave open,
   and A must not change by more than a fraction over that distance (Kantorovich's condition for an isolated root).
4. **The factor belongs to A.** Held against one product, it gives away a matrix that was declared positive definite,
   banded or of a certain sparsity, and is not.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ImplicitFunctionError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.derive.implicit import host_callback
from chainrule.derive.implicit.linear.linear_solver import Factor, Product, System
from chainrule.derive.implicit.problem import ImplicitProblem, Values

FINE, NOT_A_SOLUTION, NOT_FINITE, WRONG_FACTOR, SINGULAR, FOLD, NOT_CONVERGED, INDEFINITE = range(8)
CONDITIONS = (
    "none",
    "not a solution",
    "not finite",
    "not the declared structure",
    "singular",
    "not isolated",
    "linear solve not converged",
    "not positive definite",
)
"""What a failure code stands for."""


class Diagnosis(NamedTuple):
    """The numbers, and the code of the first condition that fails (0: none does)."""

    code: Int[Array, "..."]
    residual: Float[Array, "..."]
    """Norm of F."""
    relative: Float[Array, "..."]
    """The same over what a relative change of 1 of all arguments does."""
    rcond: Float[Array, "..."]
    drift: Float[Array, "..."]
    direction: Float[Array, "... n"]
    """The change of the unknowns that F notices least, of length 1."""


def of_solution(problem: ImplicitProblem, x: Array, values: Values) -> Diagnosis:
    """The first condition alone, which needs no factor."""
    residual, response = jax.jvp(problem.equations.evaluate, (x, values), _wiggled((x, values), at_least=1.0))
    size, scale = jnp.linalg.norm(residual), jnp.linalg.norm(response)
    code = jnp.where(size <= problem.limits.tolerance_for(x.dtype) * scale, FINE, NOT_A_SOLUTION)
    code = jnp.where(jnp.isfinite(size) & jnp.isfinite(scale), code, NOT_FINITE)
    unknown = jnp.full((), jnp.nan, x.dtype)
    relative = size / jnp.where(scale > 0, scale, 1)
    return Diagnosis(code, size, relative, unknown, unknown, jnp.zeros_like(x))


def of_factor(problem: ImplicitProblem, factor: Factor, x: Array, values: Values) -> Diagnosis:
    """The other conditions, as far as the way of solving with A lets them be seen."""
    first = of_solution(problem, x, values)._replace(code=jnp.full((), FINE, jnp.int32))
    if not problem.linear.exact:
        return first
    system = problem.equations.system(x, values)
    drift, left = _drift(problem, factor, system, values)
    code = jnp.where(drift > problem.limits.drift, FOLD, FINE)
    if not problem.linear.factorises:
        code = jnp.where(jnp.isfinite(drift), code, NOT_FINITE)
        # What clearly does not converge is said here, before any derivative is asked for; every solve is checked too.
        limit = problem.linear.tolerance(x.dtype)
        stuck = jnp.asarray(limit is not None) & (left > math.sqrt(limit or 0.0))
        relative = jnp.where(stuck, left, first.relative)
        return first._replace(code=jnp.where(stuck, NOT_CONVERGED, code), relative=relative, drift=drift)
    norm_of_inverse, direction, defect = _probe(system, factor)
    rcond = _safe_ratio(1.0, factor.norm() * norm_of_inverse)
    eps = jnp.finfo(x.dtype).eps
    expected = jnp.maximum(jnp.minimum(1.0, _safe_ratio(100 * eps, rcond)), eps**0.4)
    code = jnp.where(defect > expected, WRONG_FACTOR, code)
    code = jnp.where(rcond < problem.limits.rcond_for(x.size, x.dtype), SINGULAR, code)
    # A factor that is not finite although A is: only Cholesky's gives up, and only for this reason.
    code = jnp.where(jnp.isfinite(norm_of_inverse) & jnp.isfinite(defect), code, INDEFINITE)
    code = jnp.where(jnp.isfinite(factor.norm()), code, NOT_FINITE)
    return first._replace(code=code, rcond=rcond, drift=drift, direction=direction)


def of_solve(found: Array, matvec: Product, b: Array, limit: float) -> Diagnosis:
    """Whether an iteration solved A x = b."""
    size = jnp.linalg.norm(b - matvec(found))
    relative = _safe_ratio(size, jnp.linalg.norm(b))
    code = jnp.where(relative <= limit, FINE, NOT_CONVERGED)
    unknown = jnp.full((), jnp.nan, b.dtype)
    return Diagnosis(code, size, relative, unknown, unknown, jnp.zeros_like(b))


def gate(problem: ImplicitProblem, found: Diagnosis) -> Scalar:
    """One where all is well; otherwise an error now, an error when the compiled program runs, or NaN.

    What depends on the theorem is multiplied by this number, so the check runs exactly where its outcome matters, also
    when nothing but derivatives are asked of a compiled program.
    """
    dtype = found.residual.dtype
    if problem.on_failure == "nan":
        return jnp.where(found.code == FINE, 1.0, jnp.nan).astype(dtype)
    if not isinstance(found.code, jax.core.Tracer):
        return jnp.asarray(_raise(problem, *found), dtype)
    return host_callback.call(partial(_raise, problem), jax.ShapeDtypeStruct((), dtype), *found)


def _probe(system: System, factor: Factor) -> tuple[Scalar, Array, Scalar]:
    """An estimate of the 1-norm of the inverse, the vector that attains it, and the error of solving A v = A v.

    The estimator of Hager and Higham with two starting vectors: the inverse's columns are sought where its transpose,
    applied to the signs of what was found so far, is largest. It is never above the norm, and rarely below a third.
    """
    n, dtype = system.x.size, system.x.dtype
    solve = jax.vmap(partial(factor.solve, system.matvec))
    back = jax.vmap(partial(factor.solve_transposed, system.vecmat))
    number = jnp.arange(n, dtype=dtype)
    starts = jnp.stack(
        [jnp.full(n, 1 / n, dtype), jnp.where(number % 2 == 0, 1, -1) * (1 + number / n) / (2 * n)]
    )
    first = solve(starts)
    peaks = jnp.argmax(jnp.abs(back(jnp.where(first < 0, -1, 1).astype(dtype))), axis=1)
    v = _multipliers(n, 0).astype(dtype)
    columns = solve(jnp.concatenate([jax.nn.one_hot(peaks, n, dtype=dtype), system.matvec(v)[None]]))
    candidates = jnp.concatenate([first, columns[:2]])
    sizes = jnp.sum(jnp.abs(candidates), axis=1)
    best = candidates[jnp.argmax(sizes)]
    defect = jnp.linalg.norm(columns[2] - v) / jnp.linalg.norm(v)
    return jnp.max(sizes), _safe_ratio(best, jnp.linalg.norm(best)), defect


def _drift(problem: ImplicitProblem, factor: Factor, system: System, values: Values) -> tuple[Scalar, Scalar]:
    """The relative change of A, as the solution sees it, over the distance by which the solution is uncertain.

    And the relative residual of the solve that gives this distance.
    """
    x = system.x
    residual, response = jax.jvp(problem.equations.evaluate, (x, values), _wiggled((x, values), at_least=0.0))
    rounding = jnp.finfo(x.dtype).eps * jnp.abs(response)
    uncertain = residual + jnp.where(residual < 0, -rounding, rounding)
    step = factor.solve(system.matvec, uncertain)
    left = jnp.linalg.norm(uncertain - system.matvec(step))
    moved = problem.equations.system(x - step, values)
    change = factor.solve(system.matvec, moved.matvec(step) - system.matvec(step))
    drift = _safe_ratio(jnp.linalg.norm(change), jnp.linalg.norm(step))
    return drift, _safe_ratio(left, jnp.linalg.norm(uncertain))


def _safe_ratio(a: Any, b: Array) -> Array:
    """a / b, and 0 for a vanishing b."""
    return jnp.where(b == 0, 0.0, a / jnp.where(b == 0, 1, b))


def _wiggled(tree: Any, at_least: float) -> Any:
    """A direction in which every number changes by about its own size, up or down; whole numbers do not."""

    def one(leaf: Array, number: int) -> Any:
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            return np.zeros(leaf.shape, jax.dtypes.float0)
        factors = _multipliers(leaf.size, number).reshape(leaf.shape)
        return (jnp.maximum(jnp.abs(leaf), at_least) * factors).astype(leaf.dtype)

    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [one(leaf, i) for i, leaf in enumerate(leaves)])


def _multipliers(n: int, seed: int) -> Array:
    """Numbers of magnitude 1/2 to 3/2 with either sign, spread by a multiplicative hash: they do not cancel."""
    hashed = (jnp.arange(n, dtype=jnp.uint32) + np.uint32(7919 * seed + 1)) * np.uint32(2654435761)
    share = hashed.astype(jnp.float32) / 2.0**32
    return jnp.where(share < 0.5, -0.5 - 2 * share, 2 * share - 0.5)


def _raise(problem: ImplicitProblem, *found: Any) -> np.ndarray:
    """On the host, with any leading axes: an error for the first case that fails, ones if there is none."""
    codes, *numbers, direction = (np.asarray(part) for part in found)
    shape = np.broadcast_shapes(codes.shape, *(part.shape for part in numbers), direction.shape[:-1])
    failed = np.flatnonzero(np.broadcast_to(codes, shape))
    if not len(failed):
        return np.ones(shape, numbers[0].dtype)
    code, *first = (np.broadcast_to(part, shape).reshape(-1)[failed[0]] for part in (codes, *numbers))
    n = direction.shape[-1]
    null = np.broadcast_to(direction, (*shape, n)).reshape(-1, n)[failed[0]]
    raise error(problem, int(code), null, *(float(number) for number in first))


def error(
    problem: ImplicitProblem,
    code: int,
    direction: np.ndarray,
    residual: float,
    relative: float,
    rcond: float,
    drift: float,
) -> ImplicitFunctionError:
    """The error for one case."""
    n, dtype = problem.equations.unknowns.size, problem.equations.unknowns.dtype
    what, remedy = {
        NOT_A_SOLUTION: (
            f"w is not a solution: the residual is {residual:.3g} ({relative:.1e} of the size of its terms, "
            f"limit {problem.limits.tolerance_for(dtype):.1e})",
            "start closer, let the solver take more steps, or allow more with tolerance=",
        ),
        NOT_FINITE: ("F or its Jacobian is not finite at the solution", "look for it with derive.nan_trace"),
        WRONG_FACTOR: (
            "the Jacobian of F is not what was declared: solving with its factor does not undo it",
            'declare no symmetry, bandwidth or pattern (linear="lu"), or the right one',
        ),
        INDEFINITE: (
            "the Jacobian of F, declared positive definite, has an eigenvalue that is not positive; for the gradient "
            "of an objective that means: no strict minimum",
            'differentiate the stationary point all the same with linear="lu"',
        ),
        NOT_CONVERGED: (
            f"a linear solve with the Jacobian stopped at a relative residual of {relative:.1e}",
            'precondition it or allow more steps (linear=Krylov(...)), or use a direct one (linear="sparse")',
        ),
        SINGULAR: (
            f"the Jacobian of F is singular at the solution: its reciprocal condition is {rcond:.1e}, "
            f"limit {problem.limits.rcond_for(n, dtype):.1e} (residual {residual:.1e})",
            _leave(direction),
        ),
        FOLD: (
            f"the solution is not isolated: the Jacobian changes by {100 * drift:.0f} % within the uncertainty of w, "
            f"as at a fold or a multiple root (residual {residual:.1e}, reciprocal condition {rcond:.1e})",
            _leave(direction),
        ),
    }[code]
    return ImplicitFunctionError(
        f"{problem.equations.name}: {what}",
        condition=CONDITIONS[code],
        residual=residual,
        rcond=rcond,
        null_direction=jax.tree.map(np.asarray, _in_structure(problem, direction)),
        remedy=remedy,
    )


def _leave(direction: np.ndarray) -> str:
    strongest = np.argsort(-np.abs(direction))[:3]
    shown = ", ".join(f"{direction[i]:+.2g} of unknown {i}" for i in strongest if direction[i])
    return (
        f"null direction: {shown or 'none found'}\n"
        'solve for other unknowns, or take the least-squares answer (on_singular="lstsq") or NaN (on_failure="nan")'
    )


def _in_structure(problem: ImplicitProblem, direction: np.ndarray) -> Any:
    parts, start = [], 0
    for shape, dtype in problem.equations.unknowns.leaves:
        stop = start + math.prod(shape)
        parts.append(direction[start:stop].reshape(shape).astype(dtype))
        start = stop
    return jax.tree.unflatten(problem.equations.unknowns.structure, parts)


__all__ = ["CONDITIONS", "Diagnosis", "gate", "of_factor", "of_solution"]
