"""The hierarchical variational auto-encoder: levels of codes, each of which sees all levels above it."""

from collections.abc import Callable
from typing import Literal, final

import equinox as eqx
from pydantic import Field, field_validator

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.latent.hierarchical import Hierarchical, HierarchicalConfig
from chainrule.models.latent.hvae.building import conv_ladder, dense_ladder
from chainrule.models.latent.hvae.ladder import Ladder
from chainrule.models.latent.likelihoods import output_of
from chainrule.probability.distributions.outputs import OutputDistribution


@final
class HVAEConfig(HierarchicalConfig):
    """Settings of the hierarchical variational auto-encoder."""

    latents: tuple[int, ...] = Field(
        (16, 8, 8),
        min_length=1,
        max_length=20,
        description="entries of the code at each level, the lowest first; conv: channels at each position",
    )
    inference: Literal["top-down", "bottom-up"] = Field(
        "top-down",
        description="levels given an example: from the top along the generative path, or each from the levels below",
    )
    depth: int = Field(1, ge=1, le=20, description="mlp: hidden layers of each residual block")
    channels: tuple[int, ...] = Field(
        (32, 64), min_length=1, max_length=8, description="conv: channels at each resolution"
    )

    @field_validator("latents")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if min(value) < 1:
            raise ValueError("every level has at least one entry")
        return value


_BODIES: dict[str, Callable[..., Ladder]] = {"mlp": dense_ladder, "conv": conv_ladder}


@final
class HVAE(Hierarchical):
    """Learns levels of codes of each example; each level is drawn given all those above it."""

    hierarchy: Ladder
    family: OutputDistribution
    config: HVAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: HVAEConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        self.family = output_of(config, schema)
        self.hierarchy = _BODIES[config.body](
            config, config.latents, config.inference, schema, self.family, key
        )

    @property
    def output(self) -> OutputDistribution:
        """As the settings ask for it."""
        return self.family


__all__ = ["HVAE", "HVAEConfig"]
