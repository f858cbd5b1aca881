"""Absent entries are replaced by those of other inputs: of one reference, or of rows of a background.

*Baseline*: one reference. *Interventional*: the mean over background rows b of f(x where present, b elsewhere), which
breaks the dependence between present and absent features on purpose: it asks what the function does, not what the data
are like. With replacements made from the input itself (a blurred image) each input has its own reference.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.maskers.masker import Groups, Masker, fingerprint_of, grouped
from chainrule.probability.k_means import k_means

MOST_ROWS = 100
"""Background rows that are kept; of more, so many are picked."""


@final
class Replacing(Masker):
    """Entries of an input that no present player owns come from replacements."""

    replacements: Array
    """(samples, ...) for all inputs alike, or (batch, samples, ...) with a set for each."""
    weights: Float[Array, " samples"]
    owners: Int[Array, "..."]
    """The player of each entry, -1 where it is always present: the shape of an input, or with a batch axis."""
    names: tuple[str, ...] = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    fingerprint: str = eqx.field(static=True)
    for_each: bool = eqx.field(static=True, default=False)
    """Whether replacements and owners have a batch axis."""

    @property
    def samples(self) -> int:
        return len(self.weights)

    def mixed(
        self, x: Array, mask: Bool[Array, " players"], which: Int[Array, ""]
    ) -> tuple[Array, Float[Array, " samples"]]:
        owners = self.owners[which] if self.for_each else self.owners
        others = self.replacements[which] if self.for_each else self.replacements
        return jnp.where(_present(mask, owners)[None], x[None], others), self.weights

    def summands(
        self, x: Array, mask: Bool[Array, " players"]
    ) -> tuple[Float[Array, "batch ..."], Float[Array, "samples ..."]]:
        """Two sets of inputs whose sums, each with each, are the mixed inputs of a batch."""
        present = _present(mask, self.owners)[None]
        return jnp.where(present, x, 0), jnp.where(present, 0, self.replacements)


def _present(mask: Bool[Array, " players"], owners: Int[Array, "..."]) -> Bool[Array, "..."]:
    return jnp.append(mask, True)[owners]  # -1 is the last: always present


def interventional(
    background: Any,
    names: Sequence[str] | None = None,
    groups: Groups = None,
    *,
    most: int = MOST_ROWS,
    seed: int = 0,
) -> Replacing:
    """The mean over background rows, of which at most `most` are picked: those nearest to k-means centres, weighted.

    >>> masker = interventional(np.zeros((3, 2)), ["a", "b"])
    >>> masker.kind, masker.samples
    ('interventional, 3 background rows', 3)
    """
    rows = np.asarray(background)
    chosen, weights = picked(rows, most, seed)
    of = f"{len(chosen)} background rows" if len(chosen) > 1 else "1 background row"
    return _columns("interventional", chosen, weights, names, groups, f"interventional, {of}", rows)


def baseline(reference: Any, names: Sequence[str] | None = None, groups: Groups = None) -> Replacing:
    """Absent features take the values of one reference."""
    row = np.asarray(reference)[None]
    return _columns("baseline", row, np.ones(1), names, groups, "baseline, one reference", row)


def picked(rows: np.ndarray, most: int, seed: int) -> tuple[np.ndarray, Float[np.ndarray, " picked"]]:
    """At most `most` rows that stand for all, with the share of rows that each stands for."""
    if len(rows) <= most:
        return rows, np.full(len(rows), 1 / len(rows))
    flat = rows.reshape(len(rows), -1).astype(np.float64)
    # The standard deviation of equal numbers is not always 0 in floating point, and dividing by what is left of it
    # would drown all other columns.
    spread = np.where(np.ptp(flat, axis=0) > 0, flat.std(axis=0), 1.0)
    scaled = (flat - flat.mean(axis=0, keepdims=True)) / spread[None]
    different = len(np.unique(scaled, axis=0))
    clusters = k_means(scaled, min(most, different), np.random.default_rng(seed))
    apart = np.square(scaled - clusters.centres[clusters.nearest]).sum(axis=1)
    order = np.lexsort((apart, clusters.nearest))
    numbers, first, counts = np.unique(clusters.nearest[order], return_index=True, return_counts=True)
    del numbers
    return rows[order[first]], counts / counts.sum()


def _columns(
    where: str,
    chosen: np.ndarray,
    weights: np.ndarray,
    names: Sequence[str] | None,
    groups: Groups,
    kind: str,
    rows: np.ndarray,
) -> Replacing:
    if chosen.ndim < 2 or not chosen.size:
        raise ArgumentError(
            f"{where}: background has shape {chosen.shape}",
            remedy="give rows: (rows, features), at least one",
        )
    shape = chosen.shape[1:]
    players, owners = grouped(where, int(np.prod(shape)), names, groups)
    return Replacing(
        replacements=jnp.asarray(chosen),
        weights=jnp.asarray(weights, jnp.result_type(float)),
        owners=jnp.asarray(owners.reshape(shape)),
        names=players,
        kind=kind,
        fingerprint=fingerprint_of(rows),
    )


__all__ = ["MOST_ROWS", "Replacing", "baseline", "interventional", "picked"]
