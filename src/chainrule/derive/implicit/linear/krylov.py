"""Krylov methods: A is never formed, only applied."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse import linalg

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Scalar
from chainrule.derive.implicit.linear.linear_solver import Factor, PreparedSolver, Product, System

_METHODS = ("gmres", "bicgstab", "cg")
_SLACK = 100
"""Between the recursive residual an iteration stops at and the true one."""


@final
@dataclass(frozen=True)
class Krylov(PreparedSolver):
    """GMRES, BiCGStab, or CG for a positive definite A.

    `rtol` bounds the residual relative to the right-hand side (default: eps^(3/4), 1e-12 in double precision),
    `restart` is the length of a GMRES cycle, `max_steps` bounds the iterations (cycles, for GMRES).
    `preconditioner(r, w, *params)` applies an approximate inverse of A to a residual `r`; it must be linear in `r`,
    which has the structure of `w`, and is transposed by JAX for reverse products.

    Every solution is held against A; one that did not converge is an error (or NaN), never a result.
    """

    factorises: ClassVar[bool] = False
    method: str = "gmres"
    rtol: float | None = None
    restart: int = 30
    max_steps: int | None = None
    preconditioner: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        check_choice("Krylov", "method", self.method, _METHODS)
        if self.restart < 1:
            raise ArgumentError(f"Krylov(restart={self.restart}): a cycle has at least one step")

    def factorise(self, system: System, /) -> Factor:
        """Only remembers the point, for the preconditioner."""
        return KrylovHandle(system.x, system.values, system.equations, self)

    def tolerance(self, dtype: Any, /) -> float:
        """Of true residuals."""
        return _SLACK * self.rtol_for(dtype)

    def rtol_for(self, dtype: Any) -> float:
        """At which an iteration stops."""
        return float(jnp.finfo(dtype).eps) ** 0.75 if self.rtol is None else self.rtol


@final
class KrylovHandle(Factor):
    """The point, and the method."""

    x: Array
    values: Any
    equations: Any = eqx.field(static=True)
    how: Krylov = eqx.field(static=True)

    def solve(self, matvec: Product, b: Array, /) -> Array:
        """By iterating on products with A."""
        return self._iterate(matvec, b, self._precondition)

    def solve_transposed(self, vecmat: Product, b: Array, /) -> Array:
        """By iterating on products with the transpose."""
        transposed = jax.linear_transpose(self._precondition, b)
        return self._iterate(vecmat, b, lambda r: transposed(r)[0])

    def norm(self) -> Scalar:
        """Not known: A is not formed."""
        return jnp.full((), jnp.nan, self.x.dtype)

    def _precondition(self, r: Array) -> Array:
        if self.how.preconditioner is None:
            return r
        layout = self.equations.unknowns
        arguments = self.equations.arguments(self.values)
        return ravel_pytree(self.how.preconditioner(layout.tree(r), layout.tree(self.x), *arguments))[0]

    def _iterate(self, matvec: Product, b: Array, precondition: Product) -> Array:
        how = self.how
        # Iterations stop at vectors near the machine epsilon, so tiny right-hand sides are brought to length one.
        length = jnp.linalg.norm(b)
        length = jnp.where(length > 0, length, 1.0)
        options: dict[str, Any] = {
            "tol": how.rtol_for(b.dtype),
            "maxiter": how.max_steps,
            "M": None if how.preconditioner is None else precondition,
        }
        if how.method == "gmres":
            return length * linalg.gmres(matvec, b / length, restart=min(how.restart, b.size), **options)[0]
        iterate = linalg.bicgstab if how.method == "bicgstab" else linalg.cg
        return length * iterate(matvec, b / length, **options)[0]


__all__ = ["Krylov", "KrylovHandle"]
