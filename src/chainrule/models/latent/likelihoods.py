"""The distribution of an entry given its code, as the settings ask for it or as suits the data."""

import math
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent.settings import EntryConfig
from chainrule.probability.distributions.outputs import (
    OutputDistribution,
    check_support,
    dequantized,
    likelihood,
    log_cell_ratio,
    suited,
)

_AT_ONCE = 4096
"""Examples looked at together."""


def name_of(config: EntryConfig, schema: Schema) -> str:
    """The name of the likelihood: the one of the settings, or one that suits the data."""
    return suited(schema.levels) if config.likelihood == "auto" else config.likelihood


def output_of(config: EntryConfig, schema: Schema) -> OutputDistribution:
    """The distribution of an entry; one that gives no likelihood of such data is refused."""
    scale = config.scale
    if scale == "auto":
        scale = "entry" if schema.levels else "global"
    name = name_of(config, schema)
    output = likelihood(name, schema.levels, scale=scale, sigma=config.sigma, components=config.components)
    if not output.is_likelihood_of(schema.levels):
        what = f"data with {schema.levels} levels" if schema.levels else "continuous data"
        raise CapabilityError(
            f'likelihood="{name}" is no likelihood of {what}: their cross-entropy is no code length',
            remedy="use data.binarize=dynamic (or threshold) for zeros and ones, or "
            f'likelihood="{suited(schema.levels)}"',
        )
    return output


def checked(config: EntryConfig, data: Data) -> Mapping[str, Any]:
    """No settings; training examples outside of what the likelihood can produce are refused."""
    for first in range(0, len(data.train), _AT_ONCE):
        some = data.train.batch(np.arange(first, min(first + _AT_ONCE, len(data.train)))).x
        check_support(name_of(config, data.schema), some, data.schema.levels)
    return {}


def fills_gaps(output: OutputDistribution, schema: Schema) -> bool:
    """Whether uniform noise fills the gaps between levels, because the likelihood is a density."""
    return bool(schema.levels) and not output.probable_levels


def target(output: OutputDistribution, schema: Schema, x: Array, key: Key) -> Array:
    """Examples as the likelihood judges them."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return dequantized(x, schema.levels, key) if fills_gaps(output, schema) else x


def log_likelihood(
    output: OutputDistribution, schema: Schema, parameters: Array, x: Array
) -> Float[Array, "*leading"]:
    """`log p(x|z)` of examples as `target` gives them, in the units of the model.

    Before the shape of an example, `parameters` may have axes that `x` does not have.
    """
    entries = output.log_prob(parameters, jnp.broadcast_to(x, parameters.shape[:-1]))
    found = entries.reshape(*entries.shape[: entries.ndim - len(schema.shape)], -1).sum(axis=-1)
    if not fills_gaps(output, schema):
        return found
    return found + schema.dimensions * log_cell_ratio(schema.levels)


def nats(schema: Schema, log_likelihood: Array) -> Array:
    """The cost that a log-likelihood in the units of the model is: of levels, that of their probability."""
    return schema.dimensions * math.log(max(schema.levels - 1, 1)) - log_likelihood


__all__ = ["checked", "fills_gaps", "log_likelihood", "name_of", "nats", "output_of", "target"]
