"""The truncated Neumann series: cheap, and biased by a known amount."""

from dataclasses import dataclass
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.derive.implicit.linear.linear_solver import Factor, PreparedSolver, Product, System


@final
@dataclass(frozen=True)
class Neumann(PreparedSolver):
    """For fixed points x = g(x): A⁻¹ = (I - G)⁻¹ replaced by I + G + ... + G^terms, with G = dg/dx.

    `terms=0` is the one-step gradient, as if only the last application of g depended on the parameters. **Biased**:
    what is left out is G^(terms+1) A⁻¹, so the relative error is at most the norm of G^(terms+1), and nothing is exact
    unless G = 0 at the solution (as it is for Newton's own iteration). Higher orders are biased likewise.
    """

    factorises: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    terms: int = 0

    def __post_init__(self) -> None:
        if self.terms < 0:
            raise ArgumentError(f"Neumann(terms={self.terms}): a number of terms is not negative")

    def factorise(self, _system: System, /) -> Factor:
        """Nothing to do."""
        return NeumannSeries(self.terms)


@final
class NeumannSeries(Factor):
    """As many products as there are terms."""

    terms: int = eqx.field(static=True)

    def solve(self, matvec: Product, b: Array, /) -> Array:
        """t = b + G t, again and again; G t = t - A t."""
        return jax.lax.fori_loop(0, self.terms, lambda _, t: b + t - matvec(t), b)

    def solve_transposed(self, vecmat: Product, b: Array, /) -> Array:
        """The same with the transpose."""
        return self.solve(vecmat, b)

    def norm(self) -> Scalar:
        """Not known: A is not formed."""
        return jnp.asarray(jnp.nan)


__all__ = ["Neumann", "NeumannSeries"]
