"""The code of a flow of levels: local bits-back coding (Ho, Lohn and Abbeel, 2019), for any flow with an inverse.

A level takes one of its fine cells off the stack, which makes it a number y. The code z = f(y) cannot be rounded and
brought back exactly; so it comes off the stack too, by a narrow normal distribution around f(y) with the covariance
that noise of y would give it, and y goes on by that noise around the inverse of z. What the two cost differs by the
change of volume, and z goes on by its own distribution: together minus log p(y) of the cell. The Jacobian of the whole
flow is needed for each example, so that this is for examples of some hundreds of entries, not for photographs.
"""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float
from chainrule.information.compression.bits_back import Known, LatentCode, Move, markov_moves
from chainrule.information.compression.codes import LEVELS_WANTED
from chainrule.information.compression.distributions import SymbolDistribution
from chainrule.information.compression.local import (
    CellsOfLevels,
    KnownSymbols,
    LocalNormal,
    TriangularNormal,
)
from chainrule.networks.flows.base_distributions import StandardNormal

if TYPE_CHECKING:
    from chainrule.models.flow.flow_model import FlowModel

_MOST = 1024
"""Entries of an example whose Jacobian is still worth its time and memory."""
_AT_ONCE = 16
"""Entries of a code whose slopes are computed together."""
_CELLS = 256
"""Fine cells of a level."""
_NOISE = 4.0
"""The standard deviation of y around the inverse of its code, in fine cells."""
_STEP = 2.0**-16
"""The cells of codes: about as fine as single precision is there."""
_Z_REACH = 1024
"""Codes lie within so many eighths of a standard deviation from zero."""


def flow_code(model: "FlowModel") -> LatentCode:
    """The code of a flow of levels whose codes are standard normal."""
    schema = model.schema
    if not schema.levels:
        raise CapabilityError(
            "the flow was trained on continuous numbers, which have no probabilities",
            remedy=LEVELS_WANTED,
        )
    if not isinstance(model.base, StandardNormal):
        raise CapabilityError(
            f"base={model.config.base}: flows are coded by standard normal codes",
            remedy="train with base=normal",
        )
    size = schema.dimensions
    if size > _MOST:
        raise CapabilityError(
            f"the flow has {size:,} entries; coding takes the Jacobian of each example, for {_MOST:,} at most",
            remedy="compress with pixel-cnn or a vae",
        )
    gap = 1 / (schema.levels - 1)

    def numbers(cells: np.ndarray) -> Array:
        y = ((cells + 0.5) / _CELLS - 0.5) * gap
        return jnp.asarray(y.astype(np.float32).reshape(len(y), *schema.shape))

    def distribution(move: Move, known: Known, rows: int) -> SymbolDistribution:
        if move == Move("infer", 1):
            return CellsOfLevels(known[0], _CELLS)
        if move == Move("generate", 0):
            return KnownSymbols(np.clip(known[1] // _CELLS, 0, schema.levels - 1).astype(np.int32))
        if move == Move("infer", 2):
            mean, slopes = (np.asarray(part, np.float64) for part in _coded(model, numbers(known[1])))
            # J J' = R' R with J' = Q R: a factor without squared condition.
            factor = np.linalg.qr(slopes.transpose(0, 2, 1))[1].transpose(0, 2, 1)
            signs = np.where(np.diagonal(factor, axis1=1, axis2=2) < 0, -1.0, 1.0)
            factor = factor * signs[:, None, :] * (_NOISE * gap / _CELLS / _STEP)
            own = np.diagonal(factor, axis1=1, axis2=2)
            factor = factor + np.eye(size) * np.maximum(1e-3 - own, 0)[:, None, :]
            return TriangularNormal(mean / _STEP, factor)
        if move == Move("generate", 1):
            z = ((known[2] + 0.5) * _STEP).astype(np.float32).reshape(len(known[2]), *schema.shape)
            y = np.asarray(_decoded(model, jnp.asarray(z)), np.float64)
            mean = (y / gap + 0.5) * _CELLS
            return LocalNormal(mean, np.full(mean.shape, _NOISE), reach=_CELLS)
        shape = (rows, size)
        return LocalNormal(np.zeros(shape), np.full(shape, 1 / _STEP), reach=_Z_REACH)

    return LatentCode(
        schema,
        eqx.filter(model, eqx.is_array),
        (size, size),
        markov_moves(2),
        distribution,
        held=max(size, size**2 // schema.levels),
    )


@eqx.filter_jit
def _coded(model: "FlowModel", y: Array) -> tuple[Float[Array, "rows entries"], Array]:
    """The codes of examples, and their Jacobians."""
    given = model.no_condition(len(y))

    def codes(rows: Array) -> Array:
        return model.bijection.inverse(rows.reshape(y.shape), given).value.reshape(len(y), -1)

    flat = y.reshape(len(y), -1)
    z, pulled = jax.vjp(codes, flat)
    # Examples do not touch each other: one pass back for an entry of the code gives its slopes for all of them.
    slopes = jax.lax.map(
        lambda one: pulled(jnp.broadcast_to(one, flat.shape))[0], jnp.eye(flat.shape[1]), batch_size=_AT_ONCE
    )
    return z, slopes.transpose(1, 0, 2)


@eqx.filter_jit
def _decoded(model: "FlowModel", z: Array) -> Float[Array, "rows entries"]:
    return model.bijection.forward(z, model.no_condition(len(z))).value.reshape(len(z), -1)


__all__ = ["flow_code"]
