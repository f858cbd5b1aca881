"""The code of a Helmholtz machine: bits of every layer come off as they are recognised and go on as they are dreamt."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array
from chainrule.information.compression.bits_back import Known, LatentCode, Move, markov_moves
from chainrule.information.compression.distributions import BinarySymbols
from chainrule.nn import Linear

if TYPE_CHECKING:
    from chainrule.models.latent.helmholtz.model import Helmholtz


def layered_code(model: "Helmholtz") -> LatentCode:
    """A layer knows its neighbours alone, so that layers are interleaved and bits to begin with stay few."""
    up, down, sizes = model.recognition.layers, model.generative.layers, model.config.layers

    def distribution(move: Move, known: Known, rows: int) -> BinarySymbols:
        if move.kind == "infer":
            return _given(up[move.level - 1], known[move.level - 1])
        if move.level < len(sizes):
            return _given(down[move.level], known[move.level + 1])
        top = np.asarray(jax.nn.sigmoid(model.generative.top))
        return BinarySymbols(np.broadcast_to(top, (rows, len(top))))

    return LatentCode(
        model.schema, eqx.filter(model, eqx.is_array), sizes, markov_moves(len(sizes)), distribution
    )


def _given(layer: Linear, bits: np.ndarray) -> BinarySymbols:
    return BinarySymbols(np.asarray(_chances(layer, jnp.asarray(bits))))


@eqx.filter_jit
def _chances(layer: Linear, bits: Array) -> Array:
    return jax.nn.sigmoid(layer(bits.astype(jnp.float32)))


__all__ = ["layered_code"]
