"""Codes of models over the entries of a vector: each entry by its exact conditional probability."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.information.compression.direct import EntryCode, SymbolDistributions
from chainrule.information.compression.levels import check_levels, distribution_of, level_shares

if TYPE_CHECKING:
    from chainrule.models.autoregressive.conditionals import Conditionals
    from chainrule.models.autoregressive.vectors import VectorModel


def vector_code(model: "VectorModel") -> EntryCode:
    """The code of a single network that knows no classes."""
    schema = model.schema
    if model.prior is not None or len(model.members) > 1:
        what = "condition=class" if model.prior is not None else f"ensemble={len(model.members)}"
        raise CapabilityError(
            f"{what}: probabilities are averaged over whole examples, no entry has one of its own",
            remedy="train with condition=none and ensemble=1",
        )
    member = model.members[0]
    check_levels(member.output, schema, type(member.output).__name__.removesuffix("Output").lower())

    def distributions(rows: int, known: np.ndarray | None) -> SymbolDistributions:
        return member.distributions(rows, known, schema.dimensions, schema.levels)

    held = member.held(schema.dimensions)
    return EntryCode(
        schema, eqx.filter(model, eqx.is_array), distributions, np.asarray(model.orders[0]), held
    )


def pass_by_pass(
    member: "Conditionals", rows: int, known: np.ndarray | None, entries: int, levels: int
) -> SymbolDistributions:
    """A pass for each entry; one for all where they are known.

    What a pass says of an entry does not depend on entries after it: these are multiplied by zeros. Both ways therefore
    give the same bits, as long as the program and its shapes are the same.
    """
    x = np.zeros((rows, entries), np.float32) if known is None else np.float32(1 / (levels - 1)) * known
    x = x.astype(np.float32)
    shares = np.asarray(_whole(member, jnp.asarray(x)))
    for t in range(entries):
        if known is None and t:
            shares = np.asarray(_whole(member, jnp.asarray(x)))
        symbols = yield distribution_of(shares[:, t], levels)
        x[:, t] = np.float32(1 / (levels - 1)) * symbols


@eqx.filter_jit
def _whole(member: "Conditionals", x: Array) -> Array:
    return level_shares(member.output, member(x))


__all__ = ["pass_by_pass", "vector_code"]
