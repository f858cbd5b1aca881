"""What a solution of entropic transport knows: its plan, its numbers, and how far each can be trusted."""

from typing import Any, final

import equinox as eqx
import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Scalar
from chainrule.probability.distributions.parameters import floating
from chainrule.probability.transport.entropic.costs import (
    Costs,
    EntropicProblem,
    density,
    soft_minimum,
    totals,
)
from chainrule.probability.transport.entropic.derivatives import potentials_at
from chainrule.probability.transport.entropic.intervals import compiled_interval
from chainrule.probability.transport.entropic.kernel import CostMatrix
from chainrule.probability.transport.entropic.marginals import Balanced

_totals = jax.jit(totals)


@final
class EntropicTransport(eqx.Module):
    """The best plan under an entropic term, known by its potentials.

    Numbers follow from potentials when they are asked for. Derivatives of `value` come from the envelope theorem;
    those of `potentials`, `plan` and `cost` from the implicit function theorem, whose linear system is solved only
    where somebody differentiates them.
    """

    value: Scalar
    """`<C, P> + eps KL(P | a b')` at the best plan."""
    error: Scalar
    """Mass that is in the wrong columns; rows are right."""
    converged: Array
    """Whether that is no more than was asked for."""
    iterations: Array
    costs: Costs
    problem: EntropicProblem
    found: tuple[Float[Array, " some"], Float[Array, " others"]]
    """Potentials as they were found."""
    follows: bool = eqx.field(static=True)
    """Whether `found` carries derivatives of its own."""

    @property
    def eps(self) -> Scalar:
        """The entropic strength, in units of the cost."""
        return self.problem.eps

    @property
    def potentials(self) -> tuple[Float[Array, " some"], Float[Array, " others"]]:
        """f of the rows and g of the columns, with `a·f = b·g` where weights are kept.

        Points without weight have the potential that the others leave to them.
        """
        f, g = self.found if self.follows else potentials_at(self.costs, self.problem, *self.found)
        if not isinstance(self.problem.marginals, Balanced):
            return f, g
        shift = (self.problem.b @ g - self.problem.a @ f) / 2
        return f + shift, g - shift

    @property
    def plan(self) -> Float[Array, "some others"]:
        """`P_ij = a_i b_j exp((f_i + g_j - C_ij) / eps)`."""
        f, g = self.potentials
        shares = density(self.costs.matrix_of("plan"), f, g, self.eps)
        return self.problem.a[:, None] * self.problem.b[None] * shares

    @property
    def cost(self) -> Scalar:
        """`<C, P>`: what the plan costs, without the entropic term."""
        return _totals(self.costs, self.problem, *self.potentials).cost

    @property
    def mass(self) -> Scalar:
        """How much mass the plan moves: one, unless mass may disappear."""
        return _totals(self.costs, self.problem, *self.potentials).mass

    @property
    def entropic_value(self) -> Scalar:
        """`<C, P> - eps H(P)`, the other convention: less by eps times the entropies of the weights."""
        self._balanced("entropic_value")
        entropies = sum(jax.scipy.special.entr(weights).sum() for weights in (self.problem.a, self.problem.b))
        return self.value - self.eps * entropies

    @property
    def bounds(self) -> tuple[Scalar, Scalar]:
        """An interval that surely holds the cost of the best plan without entropic term (up to rounding).

        Below stand c-transforms of the potentials, above the plan rounded to a coupling.
        """
        self._balanced("bounds")
        return compiled_interval(self.costs, self.problem, *self.potentials)

    @property
    def gap(self) -> Scalar:
        """Length of that interval."""
        lower, upper = self.bounds
        return upper - lower

    def extended(self, cost: Any, axis: int = 0) -> Float[Array, " new"]:
        """Potentials of unseen points, by the formula that those of seen ones satisfy.

        `cost` holds the costs from new rows to all columns (`axis=0`), or from all rows to new columns (`axis=1`).
        """
        matrix = floating(cost)
        if axis not in (0, 1) or matrix.ndim != 2 or matrix.shape[1 - axis] != self.costs.shape[1 - axis]:
            raise ArgumentError(
                f"extended(axis={axis}): costs of shape {matrix.shape} for a plan of shape {self.costs.shape}",
                remedy="axis=0: one row for each new point, a column for each old one; axis=1: the other way round",
            )
        f, g = self.potentials
        known, weights = ((g, self.problem.b), (f, self.problem.a))[axis]
        seen = CostMatrix(matrix if axis == 0 else matrix.T)
        return self.problem.marginals.damped(soft_minimum(seen, known, weights, self.eps), self.eps)

    def _balanced(self, name: str) -> None:
        if not isinstance(self.problem.marginals, Balanced):
            raise ArgumentError(
                f"{name}: mass is not kept here, and there is no coupling to compare with",
                remedy="use value, cost and mass",
            )


__all__ = ["EntropicTransport"]
