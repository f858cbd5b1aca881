"""Absent features come from the background rows that are most like the input where it is present.

The conditional question, E[f(X) | X_S = x_S], answered by data alone: the k rows nearest in the present columns, each
column in units of its standard deviation, lend their other columns. Rows at the same distance as the last one count,
too, so that with nothing present all rows do.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.maskers.masker import Groups, Masker, fingerprint_of, grouped


@final
class NearestConditional(Masker):
    """Absent columns come from the nearest background rows."""

    rows: Float[Array, "rows features"]
    scale: Float[Array, " features"]
    owners: Int[Array, " features"]
    names: tuple[str, ...] = eqx.field(static=True)
    k: int = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True)

    @property
    def samples(self) -> int:
        return len(self.rows)

    def mixed(
        self, x: Array, mask: Bool[Array, " players"], which: Int[Array, ""]
    ) -> tuple[Array, Float[Array, " samples"]]:
        del which
        present = mask[self.owners]
        apart = jnp.where(present[None], (x[None] - self.rows) / self.scale[None], 0)
        distance = jnp.square(apart).sum(axis=1)
        last = -jax.lax.top_k(-distance, self.k)[0][-1]
        near = (distance <= last).astype(self.scale.dtype)
        return jnp.where(present[None], x[None], self.rows), near / near.sum()


def neighbours(
    background: Any, names: Sequence[str] | None = None, groups: Groups = None, *, k: int = 10
) -> NearestConditional:
    """Conditional by the `k` nearest background rows."""
    rows = np.asarray(background, np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.ptp(rows, axis=0).any():
        raise ArgumentError(
            f"neighbours: a background of shape {rows.shape} has no neighbours to choose from",
            remedy="give several different rows, or use absent='baseline'",
        )
    players, owners = grouped("neighbours", rows.shape[1], names, groups)
    scale = rows.std(axis=0)
    k = min(whole("neighbours", "k", k), len(rows))
    dtype = jnp.result_type(float)
    return NearestConditional(
        rows=jnp.asarray(rows, dtype),
        scale=jnp.asarray(np.where(scale > 0, scale, 1.0), dtype),
        owners=jnp.asarray(owners),
        names=players,
        k=k,
        kind=f"conditional, {k} nearest of {len(rows)} background rows",
        fingerprint=fingerprint_of(rows),
    )


__all__ = ["NearestConditional", "neighbours"]
