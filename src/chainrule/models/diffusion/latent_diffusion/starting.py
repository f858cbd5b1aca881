"""Where training begins: the moments of the codes of the training examples, measured once."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Key
from chainrule.data.dataset import Data
from chainrule.models.diffusion.latent_diffusion.first_stage import codes_of
from chainrule.models.diffusion.latent_diffusion.model import LatentModel
from chainrule.models.diffusion.latent_diffusion.unit_codes import UnitCodes
from chainrule.models.protocol import Model

_MOST = 8192
"""Examples whose codes are measured."""
_BATCH = 512


def with_measured_codes(model: LatentModel, data: Data) -> LatentModel:
    """The model with the mean and the variance of the codes of up to 8,192 training examples."""
    few = np.unique(np.linspace(0, len(data.train) - 1, _MOST).astype(int))
    body, found = eqx.nn.inference_mode(model.body), []
    for number, first in enumerate(range(0, len(few), _BATCH)):
        # The last batch is filled up, so that one program serves all.
        chosen = np.resize(few[first : first + _BATCH], min(_BATCH, len(few)))
        x = jnp.asarray(data.train.batch(chosen).x, jnp.float32)
        codes = _codes(body, x, jax.random.fold_in(jax.random.key(0), number))
        found.append(codes[: len(few) - first])
    measured = UnitCodes.of(jnp.concatenate(found), model.unit.channels)
    return eqx.tree_at(lambda model: model.unit, model, measured)


@eqx.filter_jit
def _codes(body: Model, x: Array, key: Key) -> Array:
    return codes_of(body, x, key)


__all__ = ["with_measured_codes"]
