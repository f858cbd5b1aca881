"""Settings that the flows of the family share, and what follows from them: conditions, distributions of codes."""

import abc
from typing import Literal

import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.protocol import Config
from chainrule.networks.conditions import ConditionEncoder, condition_encoder
from chainrule.networks.flows.base_distributions import (
    BaseDistribution,
    DiagonalNormal,
    FixedBase,
    FullNormal,
    MixtureOfNormals,
    StandardNormal,
    StudentBase,
)
from chainrule.probability.distributions import Independent, Logistic


class FlowConfig(Config, abc.ABC):
    """Settings of every flow."""

    conditional: bool = Field(
        False, description="tell the flow the target of each example, to be asked for when drawing"
    )
    condition_width: int = Field(32, ge=1, description="conditional: numbers by which a condition is told")
    condition_dropout: float = Field(
        0.1, gt=0, lt=1, description="conditional: share of training examples whose condition is left out"
    )
    base: Literal["normal", "diagonal", "full", "student", "logistic", "mixture"] = Field(
        "normal",
        description="distribution of codes: standard normal; normal with learned widths (by condition, where there are "
        "any) or covariance; Student's t; logistic, which is a uniform one behind a logit; a mixture of normals",
    )
    components: int = Field(8, ge=1, le=1000, description="base=mixture: normals in it")
    grid: tuple[tuple[float, float], ...] = Field(
        (),
        description="first value and gap of every column, in units of the model, where values lie on a grid (gap 0: "
        "they do not); gaps are filled with noise, and training rows say what they are",
    )


def encoder(config: FlowConfig, schema: Schema, key: Key) -> ConditionEncoder | None:
    """The encoder of conditions, where there are any to be told."""
    if not config.conditional:
        return None
    make = condition_encoder(schema)
    if make is None:
        raise ArgumentError(
            f"conditional=true: these {schema.kind} data have no targets to be told",
            remedy="use conditional=false, or name the column of the targets: data.target=COLUMN",
        )
    return make(config.condition_width, key)


def condition_features(config: FlowConfig) -> int:
    """How many numbers layers are told of an example.

    >>> condition_features(FlowConfig()), condition_features(FlowConfig(conditional=True))
    (0, 32)
    """
    return config.condition_width if config.conditional else 0


def base_distribution(config: FlowConfig, schema: Schema, key: Key) -> BaseDistribution:
    """The distribution of codes that the settings ask for.

    >>> import jax
    >>> type(base_distribution(FlowConfig(base="student"), Schema("points", (2,)), jax.random.key(0))).__name__
    'StudentBase'
    """
    shape = schema.shape
    if config.base == "diagonal":
        return DiagonalNormal(shape, condition_features(config))
    if config.base == "full":
        if len(shape) != 1:
            raise ArgumentError(
                f"base=full: a covariance of examples of shape {shape} is not offered",
                remedy="use base=diagonal",
            )
        return FullNormal((shape[0],))
    if config.base == "student":
        return StudentBase(shape)
    if config.base == "logistic":
        each = Logistic(jnp.zeros(shape), jnp.ones(shape))
        return FixedBase(Independent(each, len(shape)))
    if config.base == "mixture":
        return MixtureOfNormals(shape, config.components, key)
    return StandardNormal(shape)


__all__ = ["FlowConfig", "base_distribution", "condition_features", "encoder"]
