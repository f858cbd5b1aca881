"""Plans as lists of entries, and the check that both sides of a problem have as much mass."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int

_BALANCE = 1e-6
"""How far totals may be apart, relative to them."""


class Entries(NamedTuple):
    """A plan by its entries: how much mass goes from which row to which column. Those with mass 0 count for nothing."""

    rows: Int[Array, "*batch entries"]
    columns: Int[Array, "*batch entries"]
    mass: Float[Array, "*batch entries"]

    def dense(self, rows: int, columns: int) -> Float[Array, "*batch rows columns"]:
        """The matrix of the plan.

        >>> Entries(jnp.array([0, 1]), jnp.array([1, 0]), jnp.array([0.5, 0.5])).dense(2, 2).tolist()
        [[0.0, 0.5], [0.5, 0.0]]
        """
        flat = jnp.zeros((*self.mass.shape[:-1], rows * columns), self.mass.dtype)
        index = self.rows * columns + self.columns
        put = jnp.vectorize(lambda zeros, at, mass: zeros.at[at].add(mass), signature="(k),(e),(e)->(k)")
        return put(flat, index, self.mass).reshape(*self.mass.shape[:-1], rows, columns)


def check_totals(where: str, a: Any, b: Any) -> Any:
    """`a`, where it has as much mass as `b` along the last axis, and some; the same check runs in compiled code.

    >>> check_totals("exact", np.array([0.5, 0.4]), np.array([1.0]))
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: exact: a sums to 0.9, b to 1; no plan moves the one to the other
           normalise both, a / a.sum() and b / b.sum(), or use unbalanced(a, b, cost)
    """
    totals = a.sum(axis=-1), b.sum(axis=-1)
    if any(isinstance(total, jax.core.Tracer) for total in totals):
        balanced = jnp.abs(totals[0] - totals[1]) <= _slack(a, b) * jnp.maximum(*totals)
        wrong = ~(balanced & (totals[0] > 0))
        return eqx.error_if(a, wrong, f"{where}: a and b have different totals, or none")
    first, second = (np.atleast_1d(np.asarray(total, np.float64)) for total in totals)
    for one, other in zip(first.ravel(), second.ravel(), strict=True):
        if not abs(one - other) <= _slack(a, b) * max(one, other):
            raise ArgumentError(
                f"{where}: a sums to {one:.8g}, b to {other:.8g}; no plan moves the one to the other",
                remedy="normalise both, a / a.sum() and b / b.sum(), or use unbalanced(a, b, cost)",
            )
        if not one > 0:
            raise ArgumentError(f"{where}: a and b sum to 0; there is nothing to move")
    return a


def _slack(a: Any, b: Any) -> float:
    """Sums of many numbers round, and the less precise they are the more."""
    return max(max(_BALANCE, 4 * float(jnp.finfo(one.dtype).eps) * one.shape[-1] ** 0.5) for one in (a, b))


__all__ = ["Entries", "check_totals"]
