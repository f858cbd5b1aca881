"""MADE: a masked autoencoder, whose outputs see only the entries before them (Germain et al., 2015)."""

from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.conditionals import Conditionals, EnsembleConfig
from chainrule.models.autoregressive.vectors import VectorModel, ensemble
from chainrule.models.protocol import require_binary
from chainrule.networks.masked_mlp import autoregressive_masks
from chainrule.nn import Linear, activation
from chainrule.probability.distributions.outputs import (
    BernoulliOutput,
    GaussianMixtureOutput,
    LevelsOutput,
    OutputDistribution,
)


@final
class MADEConfig(EnsembleConfig):
    """Settings of MADE."""

    width: int = Field(500, ge=1, description="units of each hidden layer")
    depth: int = Field(2, ge=1, le=100, description="hidden layers")
    conditionals: Literal["auto", "bernoulli", "categorical", "mixture"] = Field(
        "auto",
        description="distribution of an entry: zero or one, one of the data's levels, a mixture of Gaussians; as the "
        "data are",
    )
    components: int = Field(8, ge=1, le=100, description="mixture: Gaussians for each entry")


@final
class MaskedNetwork(Conditionals):
    """Hidden unit k has a degree m(k): it sees entries up to m(k), and outputs after m(k) see it.

    Degrees run evenly over 1 to D - 1. All conditionals come from one pass; a sample takes D.
    """

    layers: tuple[Linear, ...]
    output: OutputDistribution
    entries: int = eqx.field(static=True)

    def __init__(self, entries: int, width: int, depth: int, output: OutputDistribution, key: Key) -> None:
        widths = [entries, *[width] * depth, entries * output.parameter_count]
        keys = jax.random.split(key, depth + 1)
        # Half of a layer's inputs are masked on average, which the factor 2 under the root makes up for.
        gain = activation("relu").gain * 2**0.5
        layers = [
            Linear(n, m, key=k, gain=gain if number < depth else 0.5)
            for number, (n, m, k) in enumerate(zip(widths[:-1], widths[1:], keys, strict=True))
        ]
        start = jnp.asarray(np.tile(output.initial_parameters(), entries), layers[-1].weight.dtype)
        self.layers = (*layers[:-1], eqx.tree_at(lambda layer: layer.bias, layers[-1], start))
        self.output = output
        self.entries = entries

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries numbers"]:
        """All conditionals in one pass."""
        last = len(self.layers) - 1
        for number, (layer, mask) in enumerate(zip(self.layers, self.masks(), strict=True)):
            x = eqx.tree_at(lambda layer: layer.weight, layer, jnp.where(mask, layer.weight, 0))(x)
            x = jax.nn.relu(x) if number < last else x
        return x.reshape(len(x), self.entries, self.output.parameter_count)

    def masks(self) -> list[Bool[Array, "_ _"]]:
        """One per layer, shaped like its weights: `m(k) >= d` into hidden units, `d > m(k)` out of them."""
        widths = [layer.weight.shape[1] for layer in self.layers[:-1]]
        return autoregressive_masks(self.entries, widths, self.output.parameter_count)


def output_of(config: MADEConfig, schema: Schema) -> OutputDistribution:
    """The distribution of an entry: the one of the settings, or one that suits the data."""
    chosen = config.conditionals
    if chosen == "auto":
        chosen = "bernoulli" if schema.levels == 2 else "categorical" if schema.levels else "mixture"
    if chosen == "bernoulli":
        require_binary("made with conditionals=bernoulli", schema, "chainrule train made")
        return BernoulliOutput()
    if chosen == "categorical" and not schema.levels:
        raise CapabilityError(
            f"conditionals=categorical: these {schema.kind} data are continuous and have no levels",
            remedy="use conditionals=mixture",
        )
    if chosen == "mixture" and schema.levels:
        raise CapabilityError(
            f"conditionals=mixture: the density of numbers with only {schema.levels} values has no upper limit",
            remedy=f"use conditionals={'bernoulli' if schema.levels == 2 else 'categorical'}",
        )
    return (
        LevelsOutput(schema.levels) if chosen == "categorical" else GaussianMixtureOutput(config.components)
    )


def build(config: MADEConfig, schema: Schema, key: Key) -> VectorModel:
    """A fresh model."""
    output = output_of(config, schema)
    key_order, *keys = jax.random.split(key, 1 + config.ensemble)
    members = tuple(MaskedNetwork(schema.dimensions, config.width, config.depth, output, k) for k in keys)
    return ensemble(members, config, schema, key_order)


__all__ = ["MADEConfig", "MaskedNetwork", "build", "output_of"]
