"""Derivatives of entropic transport, by two theorems and without looking at iterations.

The value is a maximum over potentials, so its derivative is that of the dual problem with the potentials as they are
(the envelope theorem): by the cost it is the plan, by the weights the potentials. Potentials themselves solve

    f + λ eps log Σ_j b_j exp((g_j - C_ij) / eps) = 0,   g + λ eps log Σ_i a_i exp((f_i - C_ij) / eps) = 0

and change as these equations demand (the implicit function theorem): one linear system, which the Schur complement
halves. Balanced potentials are defined up to a constant that f gains and g loses; the system is solved orthogonally to
it. The rule for the value uses potentials with their own rule, so that second derivatives are right as well.

Reference: Peyré and Cuturi, Computational optimal transport, 2019, sections 4.5 and 9.1; Eisenberger et al., A unified
framework for implicit Sinkhorn differentiation, CVPR 2022.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.transport.entropic.costs import (
    Costs,
    EntropicProblem,
    density,
    dual_value,
    plan_mass,
    soft_minimum,
    totals,
)
from chainrule.probability.transport.entropic.marginals import Balanced, Partial

_PLACE = "derivatives of potentials"
_AT_BOUND = 0.99
"""Potentials of this share of the price of mass may have reached it; of those that have not the plan lacks nothing."""
_DIRECT = 4096
"""Up to so many columns the system is factorised; beyond, solved by conjugate gradients."""


@jax.custom_jvp
def value_at(
    costs: Costs, problem: EntropicProblem, f: Float[Array, " some"], g: Float[Array, " others"]
) -> Scalar:
    """The entropic cost at the best potentials, which are not differentiated themselves."""
    if isinstance(problem.marginals, Balanced):  # rows are right, and so is the mass
        return problem.a @ f + problem.b @ g
    return dual_value(costs, problem, f, g)


@value_at.defjvp
def _envelope(primals: Any, tangents: Any) -> tuple[Array, Array]:
    costs, problem, f, g = primals
    at_f, at_g = potentials_at(costs, problem, f, g)
    # Slopes by weights that keep their sum are known up to a constant: the one that makes their mean zero.
    balanced = isinstance(problem.marginals, Balanced)
    mean_f, mean_g = (
        (problem.a @ at_f / problem.a.sum(), problem.b @ at_g / problem.b.sum()) if balanced else (0.0, 0.0)
    )

    # Potentials at their bounds move with these, and earn what the plan lacks there.
    lack = jax.lax.stop_gradient(_lack(costs, problem, at_f, at_g))

    def dual(costs: Costs, problem: EntropicProblem) -> Scalar:
        gain = problem.marginals.gain
        gains = gain(problem.a, at_f - mean_f) + gain(problem.b, at_g - mean_g)
        excess = plan_mass(costs, problem, at_f, at_g) - problem.a.sum() * problem.b.sum()
        priced = lack * problem.marginals.rho if isinstance(problem.marginals, Partial) else 0.0
        return gains + priced - problem.eps * excess

    return value_at(costs, problem, f, g), jax.jvp(dual, (costs, problem), tangents[:2])[1]


def _lack(costs: Costs, problem: EntropicProblem, f: Array, g: Array) -> Scalar | float:
    """The mass that partial transport leaves away, at both ends."""
    if not isinstance(problem.marginals, Partial):
        return 0.0
    found, rho = totals(costs, problem, f, g), problem.marginals.rho
    sides = ((f, problem.a - found.rows), (g, problem.b - found.columns))
    return sum(
        (jnp.where(jnp.abs(own) >= _AT_BOUND * rho, jnp.sign(own) * lack, 0.0).sum() for own, lack in sides),
        jnp.zeros((), f.dtype),
    )


@jax.custom_jvp
def potentials_at(
    costs: Costs, problem: EntropicProblem, f: Float[Array, " some"], g: Float[Array, " others"]
) -> tuple[Float[Array, " some"], Float[Array, " others"]]:
    """The best potentials, with the derivatives that their equations give them."""
    del costs, problem
    return f, g


@potentials_at.defjvp
def _implicit(primals: Any, tangents: Any) -> tuple[Any, Any]:
    costs, problem, f, g = primals
    if isinstance(problem.marginals, Partial):
        raise ArgumentError(
            "unbalanced: potentials of partial transport have no derivative where they meet their bounds",
            remedy='differentiate the value, and once, or use penalty="kl"',
        )
    at = potentials_at(costs, problem, f, g)

    def equations(costs: Costs, problem: EntropicProblem) -> tuple[Array, Array]:
        kernel = density(costs.matrix_of(_PLACE), *at, problem.eps)
        slope, eps = problem.marginals.slope(problem.eps), problem.eps
        return (
            (1 - slope) * at[0] + slope * eps * jnp.log(kernel @ problem.b),
            (1 - slope) * at[1] + slope * eps * jnp.log(problem.a @ kernel),
        )

    _, (rows, columns) = jax.jvp(equations, (costs, problem), tangents[:2])
    kernel = density(costs.matrix_of(_PLACE), *at, problem.eps)
    return at, _moved(kernel, problem, rows, columns)


def _moved(kernel: Array, problem: EntropicProblem, rows: Array, columns: Array) -> tuple[Array, Array]:
    """How potentials move so that both equations stay solved: `df + λ R dg = -rows`, `λ Q df + dg = -columns`."""
    slope = problem.marginals.slope(problem.eps)
    row_sums, column_sums = kernel @ problem.b, problem.a @ kernel

    def to_rows(dg: Array) -> Array:
        return kernel @ (problem.b * dg) / row_sums

    def to_columns(df: Array) -> Array:
        return (problem.a * df) @ kernel / column_sums

    right = slope * to_columns(rows) - columns
    # Symmetric in these units; a column without weight has no part in the system.
    size = _root(problem.b * column_sums)
    shared = _root(problem.a / row_sums)[:, None] * kernel * _root(problem.b / column_sums)[None]
    free = size / _root(size @ size) if isinstance(problem.marginals, Balanced) else jnp.zeros_like(size)
    wanted = size * right
    solved = _schur(shared, free, jnp.asarray(slope, size.dtype) ** 2, wanted - free * (free @ wanted))
    dg = jnp.where(size > 0, solved / jnp.where(size > 0, size, 1.0), 0.0)
    dg = right + slope**2 * to_columns(to_rows(dg))
    return -rows - slope * to_rows(dg), dg


def _schur(shared: Array, free: Array, square: Array, right: Array) -> Array:
    """Solution of `(1 - λ² SᵀS + w wᵀ) y = right`, differentiable to every order."""

    # Where a plan is all but a permutation, rounding leaves nothing of some eigenvalues; what they multiply is small.
    ridge = 1 + 100 * jnp.finfo(right.dtype).eps

    def product(y: Array) -> Array:
        return ridge * y - square * (shared.T @ (shared @ y)) + free * (free @ y)

    def solve(product: Any, right: Array) -> Array:
        if len(right) > _DIRECT:
            return jax.scipy.sparse.linalg.cg(product, right, tol=10 * jnp.finfo(right.dtype).eps)[0]
        matrix = ridge * jnp.eye(len(right), dtype=right.dtype) - square * (shared.T @ shared)
        return cho_solve(cho_factor(matrix + free[:, None] * free[None]), right)

    return jax.lax.custom_linear_solve(product, right, solve, symmetric=True)


def _root(squares: Array) -> Array:
    """Square root with slope zero at zero."""
    positive = squares > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squares, 1.0)), 0.0)


def unrolled(
    costs: Costs, problem: EntropicProblem, count: int
) -> tuple[Float[Array, " some"], Float[Array, " others"]]:
    """Potentials after so many iterations from zero, with the derivatives of just that; each is computed again.

    Rows are right at the end.
    """
    turned, eps, damped = costs.transposed(), problem.eps, problem.marginals.damped

    @jax.checkpoint
    def step(g: Array, _: None) -> tuple[Array, None]:
        f = damped(soft_minimum(costs, g, problem.b, eps), eps)
        return damped(soft_minimum(turned, f, problem.a, eps), eps), None

    g, _ = jax.lax.scan(step, jnp.zeros_like(problem.b), None, length=count)
    return damped(soft_minimum(costs, g, problem.b, eps), eps), g


__all__ = ["potentials_at", "unrolled", "value_at"]
