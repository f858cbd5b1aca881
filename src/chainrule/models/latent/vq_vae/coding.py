"""The code of a vector-quantised auto-encoder: codes by the prior beside it, entries given the codes."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int
from chainrule.information.compression.direct import SymbolDistributions
from chainrule.information.compression.distributions import CategoricalSymbols
from chainrule.information.compression.levels import as_entries, check_levels, distribution_of, level_shares
from chainrule.information.compression.quantized import QuantizedCode
from chainrule.models.latent import likelihoods

if TYPE_CHECKING:
    from chainrule.models.latent.vq_vae.model import VQVAE


def quantized_code(model: "VQVAE") -> QuantizedCode:
    """The code of a model of data with levels."""
    schema = model.schema
    check_levels(model.output, schema, likelihoods.name_of(model.config, schema))
    locations = len(model.prior.positions)

    def prior(rows: int, known: np.ndarray | None) -> SymbolDistributions:
        codes = np.zeros((rows, locations), np.int32) if known is None else known.astype(np.int32)
        shares = np.asarray(_prior_shares(model, jnp.asarray(codes)))
        for t in range(locations):
            if known is None and t:
                shares = np.asarray(_prior_shares(model, jnp.asarray(codes)))
            symbols = yield CategoricalSymbols(shares[:, t])
            codes[:, t] = symbols

    return QuantizedCode(
        schema,
        eqx.filter(model, eqx.is_array),
        locations,
        lambda symbols: np.asarray(_indices(model, jnp.asarray(symbols))),
        prior,
        lambda codes: distribution_of(np.asarray(_entry_shares(model, jnp.asarray(codes))), schema.levels),
    )


@eqx.filter_jit
def _indices(model: "VQVAE", symbols: Array) -> Int[Array, "rows locations"]:
    x = as_entries(symbols, model.schema).reshape(len(symbols), *model.schema.shape)
    return model.encode_indices(x).reshape(len(x), -1)


@eqx.filter_jit
def _prior_shares(
    model: "VQVAE", codes: Int[Array, "rows locations"]
) -> Float[Array, "rows locations codes"]:
    return jax.nn.softmax(model.prior.logits(codes))


@eqx.filter_jit
def _entry_shares(model: "VQVAE", codes: Int[Array, "rows locations"]) -> Array:
    found = level_shares(model.output, model.parameters(model.codebook[codes.reshape(-1)]))
    entries = found.reshape(len(codes), model.schema.dimensions, -1)
    return entries[..., 0] if model.schema.levels == 2 else entries


__all__ = ["quantized_code"]
