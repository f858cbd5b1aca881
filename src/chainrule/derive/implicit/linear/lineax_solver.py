"""Sparse LU as a solver of lineax, for diffrax, optimistix and everybody else who takes one.

An implicit step of a differential equation solves with I - h J. Left alone, diffrax forms that matrix by as many
products as there are unknowns and factorises it densely; with the pattern of J known, a few products and a sparse
factorisation do.
"""

from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np
from equinox.internal import Static
from lineax import internal

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.derive.implicit.linear.linear_solver import System
from chainrule.derive.implicit.linear.sparse import SparseFactor, coloured
from chainrule.derive.sparse import Pattern
from chainrule.derive.sparse.certificate import tolerance

_State: TypeAlias = tuple[SparseFactor, Any, Any]
"""The factor, the structures of vectors, and whether it stands for the transposed operator."""
_MISSED = (
    "LineaxSparse: the operator has entries outside of the pattern; give the pattern of its own Jacobian"
)


@final
class LineaxSparse(lineax.AbstractLinearSolver[_State]):
    """Sparse LU of operators whose entries lie in a pattern; the diagonal is added to it.

    `diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol, atol, linear_solver=LineaxSparse(pattern)))` takes implicit
    steps with it, `pattern` being `sparse.detect(f, y)` of the right-hand side. The operator is applied as often as its
    pattern has colours. An operator with entries elsewhere is found out by a product and refused.
    """

    pattern: Pattern = eqx.field(static=True)

    def __init__(self, pattern: Any) -> None:
        """The pattern, or a SciPy matrix that has it."""
        given = pattern if isinstance(pattern, Pattern) else Pattern.from_scipy(pattern)
        if given.shape[0] != given.shape[1]:
            raise ArgumentError(f"LineaxSparse: the pattern has shape {given.shape}, a square one is needed")
        diagonal = np.arange(given.shape[0])
        rows, cols = np.concatenate([given.rows, diagonal]), np.concatenate([given.cols, diagonal])
        self.pattern = Pattern(rows, cols, given.shape)

    def init(self, operator: lineax.AbstractLinearOperator, options: dict[str, Any]) -> _State:
        """Factorise."""
        del options
        shape = operator.out_size(), operator.in_size()
        if shape != self.pattern.shape:
            raise ArgumentError(
                f"LineaxSparse: the pattern has shape {self.pattern.shape}, the operator {shape}"
            )
        structures = internal.pack_structures(operator)

        def product(v: Array) -> Array:
            return _raveled(operator.mv(internal.unravel_solution(v, structures)))

        dtype = jnp.result_type(*jax.tree.leaves(operator.in_structure()))
        factor = coloured(self.pattern, symmetric=False).factorise(
            System(product, jnp.zeros(shape[1], dtype))
        )
        return self._checked(factor, product), structures, Static(False)

    def compute(
        self, state: _State, vector: Tree, options: dict[str, Any]
    ) -> tuple[Tree, lineax.RESULTS, dict[str, Any]]:
        """By substitution."""
        del options
        factor, structures, transposed = state
        b = internal.ravel_vector(vector, structures)
        solve = factor.solve_transposed if transposed.value else factor.solve
        found = solve(lambda v: v, b)
        return internal.unravel_solution(found, structures), lineax.RESULTS.successful, {}

    def transpose(self, state: _State, options: dict[str, Any]) -> tuple[_State, dict[str, Any]]:
        """The same factor, used the other way round."""
        factor, structures, transposed = state
        turned = internal.transpose_packed_structures(structures)
        return (factor, turned, Static(not transposed.value)), options

    def conj(self, state: _State, options: dict[str, Any]) -> tuple[_State, dict[str, Any]]:
        """Real matrices are their own conjugates."""
        return state, options

    def assume_full_rank(self) -> bool:
        """A singular matrix has no answer."""
        return True

    def _checked(self, factor: SparseFactor, product: Any) -> SparseFactor:
        """Hold the entries against a product in a random direction: entries outside of the pattern change it."""
        v = jnp.asarray(
            np.random.default_rng(0).uniform(0.5, 1.5, self.pattern.shape[1]), factor.entries.dtype
        )
        terms = factor.entries * v[self.pattern.cols]
        count = self.pattern.shape[0]
        rows = jnp.asarray(self.pattern.rows)
        sums = jax.ops.segment_sum(terms, rows, count, indices_are_sorted=True)
        scale = jax.ops.segment_sum(jnp.abs(terms), rows, count, indices_are_sorted=True)
        true = product(v)
        off = jnp.abs(sums - true) > tolerance(v.dtype) * (scale + jnp.abs(true))
        return eqx.error_if(factor, jnp.any(off), _MISSED)


def _raveled(tree: Tree) -> Array:
    leaves = jax.tree.leaves(tree)
    dtype = jnp.result_type(*leaves)
    return jnp.concatenate([leaf.astype(dtype).reshape(-1) for leaf in leaves])


__all__ = ["LineaxSparse"]
