"""Where training begins: inputs centred, and outputs at the mean of the training examples.

Both are set by biases alone. A first layer begins as if the mean had been taken from its inputs, so that hidden units
are not all on one side (tanh saturates there), and the last one gives every entry the mean it has without a code
(Burda, Grosse and Salakhutdinov, 2016, begin so).
"""

from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.data.dataset import Data
from chainrule.models.latent.bodies import DenseDecoder, DenseEncoder, coarsened
from chainrule.models.latent.networks import LatentNetworks
from chainrule.models.latent.priors import PseudoInputs
from chainrule.models.latent.variational import Variational
from chainrule.networks import units

_MOST = 8192
"""Examples whose mean is taken."""

_Model = TypeVar("_Model", bound=Variational)


def centred(model: _Model, data: Data) -> _Model:
    """A fresh model whose biases know the mean of the training examples; pseudo-inputs begin at some of them."""
    few = np.unique(np.linspace(0, len(data.train) - 1, _MOST).astype(int))
    mean = np.asarray(data.train.batch(few).x, np.float64).mean(axis=0)
    started = _with_outputs(_with_inputs(model.networks, mean), mean)
    if isinstance(started.mixture, PseudoInputs):
        some = np.linspace(0, len(data.train) - 1, len(started.mixture.raw)).astype(int)
        own = started.mixture.at(jnp.asarray(data.train.batch(some).x, jnp.float32))
        started = eqx.tree_at(lambda n: n.mixture, started, own)
    return eqx.tree_at(lambda m: m.networks, model, started)


def _with_inputs(networks: LatentNetworks, mean: np.ndarray) -> LatentNetworks:
    if not isinstance(networks.encoder, DenseEncoder):
        return networks
    seen = units.to_network(networks.schema, jnp.asarray(mean, jnp.float32)[None])
    seen = coarsened(seen, networks.coarse) if networks.coarse > 1 else seen
    row = seen.reshape(-1)
    weight = networks.encoder.network.layers[0].weight
    return eqx.tree_at(
        lambda n: n.encoder.network.layers[0].bias, networks, -row @ weight[: len(row)].astype(row.dtype)
    )


def _with_outputs(networks: LatentNetworks, mean: np.ndarray) -> LatentNetworks:
    around = networks.output.parameters_around
    if isinstance(networks.decoder, DenseDecoder):
        return _with_bias(networks, lambda n: n.decoder.network.layers[-1].bias, around(mean))
    # All positions share the bias of a convolution.
    return _with_bias(networks, lambda n: n.decoder.exit.bias, around(mean.mean(axis=(0, 1))))


def _with_bias(networks: LatentNetworks, where: Any, start: np.ndarray) -> LatentNetworks:
    return eqx.tree_at(where, networks, jnp.asarray(start.reshape(-1), jnp.float32))


__all__ = ["centred"]
