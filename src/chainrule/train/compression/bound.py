"""What a model says that data cost, before anything is coded: the bound that the length of a file is held against."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import progress, random
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasBound, HasDensity, HasLogProb, Model
from chainrule.networks import units

_ROWS = 256


def bound_bits(model: Model, schema: Schema, symbols: np.ndarray) -> float | None:
    """Minus the bound of the log-likelihood of examples, or the likelihood itself where it is exact, in bits of all.

    None of texts, whose length depends on how far back a model looks, and of models that have neither.
    """
    if kinds.of(schema).has_tokens or not isinstance(model, HasBound | HasLogProb):
        return None
    key, total = random.key(0, "bound"), 0.0
    for first in range(0, len(symbols), _ROWS):
        rows = np.resize(np.arange(first, min(first + _ROWS, len(symbols))), _ROWS)
        found = _log_likelihood(model, jnp.asarray(symbols[rows]), jax.random.fold_in(key, first))
        total -= float(np.asarray(found, np.float64)[: len(symbols) - first].sum())
        progress.update("bound", min(first + _ROWS, len(symbols)), len(symbols))
    # Probabilities of levels are stated as densities.
    return (total + symbols.size * math.log(max(schema.levels - 1, 1))) / math.log(2)


@eqx.filter_jit
def _log_likelihood(model: HasBound | HasLogProb, symbols: Array, key: Key) -> Array:
    schema: Schema = model.schema  # type: ignore[union-attr]  # models of data with levels keep theirs
    x = (symbols.astype(jnp.float32) / (schema.levels - 1)).reshape(len(symbols), *schema.shape)
    if isinstance(model, HasDensity):
        return model.log_prob(units.dequantized(schema, x, key))
    return model.elbo(x, key) if isinstance(model, HasBound) else model.log_prob(x)


__all__ = ["bound_bits"]
