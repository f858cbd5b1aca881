"""The units of the network: data in [0, 1] are moved to [-1, 1], standardised data stay as they are.

Costs in nats of a network's units become log-densities in those of the model here too, so that all bounds of the family
are compared in one unit. Densities of continuous numbers meet data with levels through noise that fills their gaps.
"""

import math

import jax

from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds
from chainrule.data.schema import Schema


def unit(schema: Schema) -> bool:
    """Whether the data lie in [0, 1].

    >>> unit(Schema("image", (8, 8, 1), levels=17)), unit(Schema("points", (2,)))
    (True, False)
    """
    return kinds.of(schema).in_unit_interval(schema)


def described(schema: Schema) -> str:
    """The units of the model in words, for numbers that are measured in them.

    >>> described(Schema("points", (2,)))
    'standardised data'
    """
    return "entries from 0 to 1" if unit(schema) else "standardised data"


def to_network(schema: Schema, x: Array) -> Array:
    """Examples as the network sees them."""
    return 2 * x - 1 if unit(schema) else x


def to_model(schema: Schema, x: Array) -> Array:
    """The inverse of `to_network`."""
    return (x + 1) / 2 if unit(schema) else x


def log_density(schema: Schema, nats: Float[Array, "batch *more"]) -> Float[Array, "batch *more"]:
    """The cost of each example as the network sees it, as a log-density in the units of the model.

    >>> import jax.numpy as jnp
    >>> float(log_density(Schema("points", (2,)), jnp.ones(1))[0])
    -1.0
    """
    if schema.levels:  # a probability of levels; a density is it divided by the distance between them
        return -nats + schema.dimensions * math.log(schema.levels - 1)
    return -nats + (schema.dimensions * math.log(2.0) if unit(schema) else 0.0)


def dequantized(schema: Schema, x: Array, key: Key, gaps: Float[Array, " *shape"] | None = None) -> Array:
    """Data with levels and uniform noise over the distance between two levels; continuous data as they are.

    `gaps` are such distances of data without levels, one for each entry, 0 for those that get no noise.
    """
    if not schema.levels and gaps is None:
        return x
    width = 1 / (schema.levels - 1) if gaps is None else gaps[None].astype(x.dtype)
    return x + width * (jax.random.uniform(key, x.shape, x.dtype) - 0.5)


def dequantization_variance(schema: Schema) -> float:
    """Variance of that noise in units of the model; none for continuous data.

    >>> dequantization_variance(Schema("points", (2,)))
    0.0
    """
    return 1 / (12 * (schema.levels - 1) ** 2) if schema.levels else 0.0


__all__ = [
    "dequantization_variance",
    "dequantized",
    "described",
    "log_density",
    "to_model",
    "to_network",
    "unit",
]
