"""What the solver asks of costs, whether they are a matrix or made of points block by block.

A plan is `P_ij = a_i b_j exp((f_i + g_j - C_ij) / eps)`. Everything that is asked of it is a sum over pairs: its mass,
what it costs, its marginals. Sums are written once for a block of rows; a matrix is one block.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.transport.entropic.iteration import Earned, StoppingRule, SweepState
from chainrule.probability.transport.entropic.marginals import Balanced, MarginalPrice

_TOP = 80.0
"""Largest exponent: its exponential is finite in single precision."""

Block: TypeAlias = Callable[[Array, tuple[Array, ...], Any], tuple[Any, Any]]
"""From costs of some rows, what else is known of these, and sums so far, to sums and to what is found for the rows."""


class Totals(NamedTuple):
    """Sums over a plan: its mass, its cost, and its marginals."""

    mass: Scalar
    cost: Scalar
    rows: Float[Array, " some"]
    columns: Float[Array, " others"]


@final
class EntropicProblem(eqx.Module):
    """Weights, entropic strength, and how strictly weights are kept."""

    a: Float[Array, " some"]
    b: Float[Array, " others"]
    eps: Scalar
    marginals: MarginalPrice


class Costs(eqx.Module):
    """The costs of all pairs of two sets."""

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, int]:
        """How many points both sets have."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """Type of the costs."""

    @abc.abstractmethod
    def by_rows(self, block: Block, rows: tuple[Array, ...], start: Any) -> tuple[Any, Any]:
        """`block(costs, rows, sums)` for all rows, some at a time: the sums at the end, and what is found for rows."""

    @abc.abstractmethod
    def transposed(self) -> "Costs":
        """The costs seen from the other set."""

    @abc.abstractmethod
    def solve(self, problem: EntropicProblem, limits: StoppingRule, depth: int) -> SweepState:
        """Potentials of the best plan."""

    @abc.abstractmethod
    def turn(self, problem: EntropicProblem) -> tuple[Float[Array, " some"], Callable[[Array], Array]]:
        """Of a set with itself: a potential to begin with, and from one potential the other that makes rows right."""

    @abc.abstractmethod
    def matrix_of(self, where: str) -> Float[Array, "some others"]:
        """All costs at once."""


def beginning(costs: Costs) -> tuple[Float[Array, " others"], Scalar]:
    """A potential of the columns to begin with, and the mean size of a cost.

    It is the c-transform of the least cost of each row: every column has a row at which `f_i + g_j = C_ij`.
    """

    def block(matrix: Array, rows: tuple[Array, ...], sums: Any) -> tuple[Any, None]:
        (counts,) = rows
        inside = counts[:, None] > 0  # rows that only fill a block have no say
        least = jnp.where(inside, matrix - matrix.min(axis=1, keepdims=True), jnp.inf).min(axis=0)
        return (jnp.minimum(sums[0], least), sums[1] + counts @ jnp.abs(matrix).mean(axis=1)), None

    start = (jnp.full(costs.shape[1], jnp.inf, costs.dtype), jnp.zeros((), costs.dtype))
    (g, total), _ = costs.by_rows(block, (jnp.ones(costs.shape[0], costs.dtype),), start)
    return g, total / costs.shape[0]


def density(matrix: Array, f: Array, g: Array, eps: Any) -> Float[Array, "rows others"]:
    """`exp((f_i + g_j - C_ij) / eps)`: the plan of some rows beside the product of weights.

    It is at most the inverse of each weight; where both weights are nothing it could be anything, and stays finite.
    """
    return jnp.exp(jnp.minimum((f[:, None] + g[None] - matrix) / eps, _TOP))


def plan_mass(costs: Costs, problem: EntropicProblem, f: Array, g: Array) -> Scalar:
    """The mass of a plan: differentiable in costs, weights and eps, with potentials as they are."""

    def block(matrix: Array, rows: tuple[Array, ...], total: Array) -> tuple[Array, None]:
        a, f = rows
        return total + a @ (density(matrix, f, g, problem.eps) @ problem.b), None

    total, _ = costs.by_rows(block, (problem.a, f), jnp.zeros((), costs.dtype))
    return total


def totals(costs: Costs, problem: EntropicProblem, f: Array, g: Array) -> Totals:
    """What a plan adds up to."""

    def block(matrix: Array, rows: tuple[Array, ...], sums: Any) -> tuple[Any, Array]:
        a, f = rows
        plan = a[:, None] * problem.b[None] * density(matrix, f, g, problem.eps)
        return (sums[0] + (plan * matrix).sum(), sums[1] + plan.sum(axis=0)), plan.sum(axis=1)

    start = (jnp.zeros((), costs.dtype), jnp.zeros_like(problem.b))
    (cost, columns), rows = costs.by_rows(block, (problem.a, f), start)
    return Totals(columns.sum(), cost, rows, columns)


def dual_value(costs: Costs, problem: EntropicProblem, f: Array, g: Array) -> Scalar:
    """What potentials achieve: at most the entropic cost, and equal to it for the best ones."""
    gains = problem.marginals.gain(problem.a, f) + problem.marginals.gain(problem.b, g)
    return gains - problem.eps * (plan_mass(costs, problem, f, g) - problem.a.sum() * problem.b.sum())


def earned(problem: EntropicProblem, right: Array, f: Array, g: Array, eps: Any) -> Earned:
    """What potentials achieve, up to a constant; `right` would keep the rows' weights, f is the best beside g."""
    price, (a, b) = problem.marginals, (problem.a, problem.b)
    # Where weights are kept every row has its mass, which then is such a constant.
    moved = 0.0 if isinstance(price, Balanced) else eps * (a @ jnp.exp((f - right) / eps))
    gains = price.gain(a, f) + price.gain(b, g)
    return Earned(gains - moved, a @ jnp.abs(f) + b @ jnp.abs(g))


def soft_minimum(costs: Costs, g: Array, b: Array, eps: Any) -> Float[Array, " some"]:
    """`-eps log Σ_j b_j exp((g_j - C_ij) / eps)`: the potential of rows that makes each of them right."""

    def block(matrix: Array, rows: tuple[Array, ...], sums: Any) -> tuple[Any, Array]:
        del rows
        return sums, -eps * jax.nn.logsumexp((g[None] - matrix) / eps, b=b[None], axis=1)

    _, found = costs.by_rows(block, (jnp.zeros(costs.shape[0], costs.dtype),), ())
    return found


__all__ = [
    "Costs",
    "EntropicProblem",
    "Totals",
    "beginning",
    "density",
    "dual_value",
    "earned",
    "plan_mass",
    "soft_minimum",
    "totals",
]
