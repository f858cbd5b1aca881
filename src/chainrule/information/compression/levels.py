"""Probabilities of levels from the outputs of networks, and the distributions that they are."""

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float
from chainrule.data.schema import Schema
from chainrule.information.compression.codes import LEVELS_WANTED
from chainrule.information.compression.distributions import (
    BinarySymbols,
    CategoricalSymbols,
    SymbolDistribution,
)
from chainrule.probability.distributions.outputs import (
    BernoulliOutput,
    OutputDistribution,
    ProbableLevels,
    suited,
)


def check_levels(output: OutputDistribution, schema: Schema, called: str) -> None:
    """Raise unless a distribution gives every level of some data a probability; `called` is its name."""
    if not schema.levels:
        raise CapabilityError(
            "the model was trained on continuous numbers, which have no probabilities",
            remedy=LEVELS_WANTED,
        )
    if output.probable_levels != schema.levels:
        raise CapabilityError(
            f'likelihood="{called}" has no pixel probabilities',
            remedy=f'train with likelihood="{suited(schema.levels)}"',
        )


def level_shares(
    output: OutputDistribution, parameters: Float[Array, "*entries parameters"]
) -> Float[Array, "*found"]:
    """The probability of every level along a last axis; of two levels, that of the upper one without the axis.

    >>> level_shares(BernoulliOutput(), jnp.zeros((3, 1))).tolist()
    [0.5, 0.5, 0.5]
    """
    if output.probable_levels == 2 and isinstance(output, BernoulliOutput):
        return output.mean(parameters)
    if isinstance(output, ProbableLevels):
        shares = jax.nn.softmax(output.logits(parameters))
    else:
        count = output.probable_levels
        levels = jnp.arange(count, dtype=parameters.dtype) / (count - 1)
        # One level at a time: a mixture has several numbers for each.
        each = jax.lax.map(
            lambda one: output.log_prob(parameters, jnp.full(parameters.shape[:-1], one)), levels
        )
        shares = jax.nn.softmax(jnp.moveaxis(each, 0, -1))
    return shares[..., 1] if output.probable_levels == 2 else shares


def distribution_of(shares: Float[np.ndarray, "rows *entries"], levels: int) -> SymbolDistribution:
    """The distribution of what `level_shares` gives."""
    return BinarySymbols(shares) if levels == 2 else CategoricalSymbols(shares)


def as_entries(symbols: Array, schema: Schema) -> Float[Array, "rows entries"]:
    """Symbols as the numbers that a model sees."""
    return symbols.astype(jnp.float32) / (schema.levels - 1)


__all__ = ["as_entries", "check_levels", "distribution_of", "level_shares"]
