"""Conditional distributions `p(x_t | x_<t)` of the entries of a vector, and the settings of models made of them."""

import abc
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.probability.distributions.outputs import OutputDistribution


class EnsembleConfig(Config, abc.ABC):
    """Settings that models of this kind share: the order of the entries, and how many networks there are."""

    order: Literal["data", "random"] = Field(
        "data",
        description="which entry comes when: as in the data (images row by row), or a fixed random order",
    )
    ensemble: int = Field(
        1,
        ge=1,
        le=64,
        description="networks whose probabilities are averaged; further ones have random orders",
    )

    def require_binary(name: str, schema: Schema) -> None:
    """Raise unless the data are zeros and ones."""
    if schema.levels != 2:
        what = f"{schema.levels} levels" if schema.levels else "continuous numbers"
        raise CapabilityError(
            f"{name} models zeros and ones; these {schema.kind} data have {what}",
            remedy="make them binary: data.binarize=threshold, or data.binarize=stochastic\n"
            "or keep them as they are, with conditionals that fit: chainrule train made",
        )


__all__ = ["Conditionals", "EnsembleConfig", "require_binary"]
