"""Does the implicit function theorem hold here? Four numbers decide, and an honest error says which one does not.

1. **F = 0.** The residual is compared with what a small relative change of all arguments does to F.
2. **A = dF/dw is invertible.** Its reciprocal condition is estimated from the factor at hand, with a few solves.
3. **A stays invertible around the solution.** At a fold or a multiple root a solver finds only half of the digits, and
   the A it finds is small but not singular. So the root is moved by what its residual and the rounding of F leave open,
   and A must not change by more than a fraction over that distance (Kantorovich's condition for an isolated root).
4. **The factor belongs to A.** Held against one product, it gives away a matrix that was declared positive definite,
   banded or sparse in certain places, and is not.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ImplicitFunctionError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.derive.implicit.linear.base import Factor, System
from chainrule.derive.implicit.problem import Problem, Values

FINE, NOT_A_SOLUTION, NOT_FINITE, WRONG_FACTOR, SINGULAR, FOLD = range(6)
CONDITIONS = (
    "none",
    "not a solution",
    "not finite",
    "not the declared structure",
    "singular",
    "not isolated",
)
"""What a failure code stands for."""
_MOST_DRIFT = 0.25


@final
@dataclass(frozen=True)
class Conditions:
    """Limits for the numbers above; `None` stands for the default.

    `tolerance`: of the residual, relative to what changing every argument by its own size (at least 1) does to F; by
    default the square root of the machine epsilon. `rcond`: least reciprocal condition of A, by default 10 n eps.
    `drift`: most relative change of A within the uncertainty of the solution.
    """

    tolerance: float | None = None
    rcond: float | None = None
    drift: float = _MOST_DRIFT

    def tolerance_for(self, dtype: Any) -> float:
        """The limit of the residual."""
        return math.sqrt(jnp.finfo(dtype).eps) if self.tolerance is None else self.tolerance

    def rcond_for(self, n: int, dtype: Any) -> float:
        """The limit of the reciprocal condition."""
        return 10 * n * float(jnp.finfo(dtype).eps) if self.rcond is None else self.rcond


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


def of_solution(problem: Problem, limits: Conditions, x: Array, values: Values) -> Diagnosis:
    """The first condition alone, which needs no factor."""
    residual, response = jax.jvp(problem.evaluate, (x, values), _wiggled((x, values), at_least=1.0))
    size, scale = jnp.linalg.norm(residual), jnp.linalg.norm(response)
    code = jnp.where(size <= limits.tolerance_for(x.dtype) * scale, FINE, NOT_A_SOLUTION)
    code = jnp.where(jnp.isfinite(size) & jnp.isfinite(scale), code, NOT_FINITE)
    unknown = jnp.full((), jnp.nan, x.dtype)
    relative = size / jnp.where(scale > 0, scale, 1)
    return Diagnosis(code, size, relative, unknown, unknown, jnp.zeros_like(x))


def of_factor(problem: Problem, limits: Conditions, factor: Factor, x: Array, values: Values) -> Diagnosis:
    """All conditions but the first."""
    first = of_solution(problem, limits, x, values)
    if not problem.linear.exact:
        return first._replace(code=jnp.where(first.code == NOT_A_SOLUTION, FINE, first.code))
    system = problem.system(x, values)
    norm_of_inverse, direction, defect = _probe(system, factor)
    rcond = _safe_ratio(1.0, factor.norm() * norm_of_inverse)
    drift = _drift(problem, factor, system, values)
    eps = jnp.finfo(x.dtype).eps
    known = ~jnp.isnan(factor.norm())
    healthy = jnp.where(known, jnp.minimum(1.0, 100 * eps / rcond), math.sqrt(eps))
    finite = jnp.isfinite(norm_of_inverse) & jnp.isfinite(defect) & (jnp.isfinite(factor.norm()) | ~known)
    code = jnp.where(drift > limits.drift, FOLD, FINE)
    code = jnp.where(defect > jnp.maximum(healthy, eps**0.4), WRONG_FACTOR, code)
    code = jnp.where(known & (rcond < limits.rcond_for(x.size, x.dtype)), SINGULAR, code)
    code = jnp.where(finite, code, NOT_FINITE)
    return first._replace(code=code, rcond=rcond, drift=drift, direction=direction)


def gate(problem: Problem, limits: Conditions, on_failure: str, found: Diagnosis) -> Scalar:
    """One where all is well; otherwise an error now, an error when the compiled program runs, or NaN.

    What depends on the theorem is multiplied by this number, so the check runs exactly where its outcome matters, also
    when nothing but derivatives are asked of a compiled program.
    """
    dtype = found.residual.dtype
    if on_failure == "nan":
        return jnp.where(found.code == FINE, 1.0, jnp.nan).astype(dtype)
    if not isinstance(found.code, jax.core.Tracer):
        return jnp.asarray(_raise(problem, limits, *found), dtype)
    run = partial(_raise, problem, limits)
    return jax.pure_callback(run, jax.ShapeDtypeStruct((), dtype), *found, vmap_method="expand_dims")


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


def _drift(problem: Problem, factor: Factor, system: System, values: Values) -> Scalar:
    """The relative change of A, as the solution sees it, over the distance by which the solution is uncertain."""
    x = system.x
    residual, response = jax.jvp(problem.evaluate, (x, values), _wiggled((x, values), at_least=0.0))
    rounding = jnp.finfo(x.dtype).eps * jnp.abs(response)
    step = factor.solve(system.matvec, residual + jnp.where(residual < 0, -rounding, rounding))
    moved = problem.system(x - step, values)
    change = factor.solve(system.matvec, moved.matvec(step) - system.matvec(step))
    return _safe_ratio(jnp.linalg.norm(change), jnp.linalg.norm(step))


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
    share = hashed.astype(jnp.float32) / 2**32
    return jnp.where(share < 0.5, -0.5 - 2 * share, 2 * share - 0.5)


def _raise(problem: Problem, limits: Conditions, *found: Any) -> np.ndarray:
    """On the host, with any leading axes: an error for the first case that fails, ones if there is none."""
    got = Diagnosis(*(np.asarray(part) for part in found))
    failed = np.flatnonzero(got.code)
    if not len(failed):
        return np.ones(got.code.shape, got.residual.dtype)
    shape = got.code.shape
    worst = [np.broadcast_to(part, shape).reshape(-1)[failed[0]] for part in got[:5]]
    n = problem.unknowns.size
    direction = np.broadcast_to(got.direction, (*shape, n)).reshape(-1, n)[failed[0]]
    raise error(problem, limits, int(worst[0]), *(float(part) for part in worst[1:]), direction=direction)


def error(
    problem: Problem,
    limits: Conditions,
    code: int,
    residual: float,
    relative: float,
    rcond: float,
    drift: float,
    direction: np.ndarray,
) -> ImplicitFunctionError:
    """The error for one case."""
    n, dtype = problem.unknowns.size, problem.unknowns.dtype
    what, remedy = {
        NOT_A_SOLUTION: (
            f"w is not a solution: the residual is {residual:.3g} ({relative:.1e} of the size of its terms, "
            f"limit {limits.tolerance_for(dtype):.1e})",
            "start closer, let the solver take more steps, or allow more with tolerance=",
        ),
        NOT_FINITE: ("F or its Jacobian is not finite at the solution", "look for it with derive.nan_trace"),
        WRONG_FACTOR: (
            "the Jacobian of F is not what was declared: solving with its factor does not undo it",
            'declare no symmetry, bandwidth or pattern (linear="lu"), or the right one',
        ),
        SINGULAR: (
            f"the Jacobian of F is singular at the solution: its reciprocal condition is {rcond:.1e}, "
            f"limit {limits.rcond_for(n, dtype):.1e} (residual {residual:.1e})",
            _leave(direction),
        ),
        FOLD: (
            f"the solution is not isolated: the Jacobian changes by {100 * drift:.0f} % within the uncertainty of w, "
            f"as at a fold or a multiple root (residual {residual:.1e}, reciprocal condition {rcond:.1e})",
            _leave(direction),
        ),
    }[code]
    return ImplicitFunctionError(
        f"{problem.name}: {what}",
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


def _in_structure(problem: Problem, direction: np.ndarray) -> Any:
    parts, start = [], 0
    for shape, dtype in problem.unknowns.leaves:
        stop = start + math.prod(shape)
        parts.append(direction[start:stop].reshape(shape).astype(dtype))
        start = stop
    return jax.tree.unflatten(problem.unknowns.structure, parts)


__all__ = ["CONDITIONS", "Conditions", "Diagnosis", "gate", "of_factor", "of_solution"]
