"""Interface of linear solvers for A = dF/dw: factorise once, give a handle that every product shares.

The handle is a PyTree of arrays, so it passes through `jit`, `vmap` and every nesting of derivatives like any other
value. Forward products solve with A, reverse products with its transpose, second-order ones with both: always the same
handle.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, final

import equinox as eqx
import jax

from chainrule.core.types import Array, Scalar
from chainrule.derive.implicit.linear import unit_vectors

Product: TypeAlias = Callable[[Array], Array]
"""A linear map, as a function of the vector it is applied to."""


@final
@dataclass(frozen=True)
class System:
    """F as a function of the unknowns alone, R^n to R^n, and the point at which its Jacobian A is wanted."""

    f: Product
    x: Array
    equations: Any = None
    """What the vectors stand for, for those who need the user's own arguments: the equations and their values."""
    values: Any = None

    def matvec(self, v: Array) -> Array:
        """A v."""
        return jax.jvp(self.f, (self.x,), (v,))[1]

    def vecmat(self, v: Array) -> Array:
        """The transpose of A times v."""
        return jax.linear_transpose(self.matvec, self.x)(v)[0]

    def products(self, directions: Array) -> Array:
        """A v for every row v, as rows."""
        _, push = jax.linearize(self.f, self.x)
        return jax.vmap(push)(directions)

    def transposed_matrix(self) -> Array:
        """The transpose of A: row i is the product with the i-th unit vector."""
        _, push = jax.linearize(self.f, self.x)
        return unit_vectors.products(push, self.x)


class Factor(eqx.Module):
    """A at one point, ready to be solved with.

    Solvers that iterate need products with A itself; they get them as the first argument, the others ignore it.
    """

    @abc.abstractmethod
    def solve(self, matvec: Product, b: Array, /) -> Array:
        """The x with A x = b."""

    @abc.abstractmethod
    def solve_transposed(self, vecmat: Product, b: Array, /) -> Array:
        """The x with Aᵀ x = b."""

    @abc.abstractmethod
    def norm(self) -> Scalar:
        """The largest sum of magnitudes in a column of A; NaN where that is not known."""


@final
class Refined(Factor):
    """The factor of a matrix close to A: every solution is corrected once by its residual, which squares the error."""

    factor: Factor

    def solve(self, matvec: Product, b: Array, /) -> Array:
        """A solve, a product and a solve."""
        first = self.factor.solve(matvec, b)
        return first + self.factor.solve(matvec, b - matvec(first))

    def solve_transposed(self, vecmat: Product, b: Array, /) -> Array:
        """The same with the transpose."""
        first = self.factor.solve_transposed(vecmat, b)
        return first + self.factor.solve_transposed(vecmat, b - vecmat(first))

    def norm(self) -> Scalar:
        """That of the matrix close by."""
        return self.factor.norm()


class LinearSolver(abc.ABC):
    """A way to solve linear systems with A; instances are immutable and compare by value."""

    @abc.abstractmethod
    def prepare(self, structure: Any, /) -> "PreparedSolver":
        """Settle, once for all points, what depends on the equations: size, bandwidths, pattern and colours."""


class PreparedSolver(LinearSolver):
    """A way with nothing left to settle."""

    factorises: ClassVar[bool] = True
    """Whether its handles hold factors of A."""
    exact: ClassVar[bool] = True
    """Whether solutions are those of A, up to rounding or a tolerance."""

    def prepare(self, _structure: Any, /) -> "PreparedSolver":
        """Nothing to do."""
        return self

    @abc.abstractmethod
    def factorise(self, system: System, /) -> Factor:
        """The handle for A at the point of the system."""

    def tolerance(self, _dtype: Any, /) -> float | None:
        """Default: `None`, no need to look at residuals. Iterations say up to which relative residual they are good."""
        return None


def factorise(linear: PreparedSolver, system: System) -> Factor:
    """`linear.factorise`, under a name by which programs are searched for factorisations if it is one."""
    if not linear.factorises:
        return linear.factorise(system)

    def implicit_factorise(x: Array) -> Factor:
        return linear.factorise(replace(system, x=x))

    return jax.jit(implicit_factorise)(system.x)


__all__ = ["Factor", "LinearSolver", "PreparedSolver", "Product", "Refined", "System", "factorise"]
