"""The Markovian hierarchical variational auto-encoder: every level knows its neighbours alone."""

from collections.abc import Mapping
from typing import Literal, final

import equinox as eqx
import numpy as np
from pydantic import Field, field_validator

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.latent import likelihoods
from chainrule.models.latent.hierarchical import Hierarchical, HierarchicalConfig
from chainrule.models.latent.markovian_hvae import diffusion
from chainrule.models.latent.markovian_hvae.chain import MarkovChain
from chainrule.models.latent.markovian_hvae.diffusion import DiffusionChain
from chainrule.probability.distributions.outputs import OutputDistribution

_MOST = 12.0
"""Largest log signal-to-noise ratio of numbers: their scale stays above the least that a likelihood has."""


@final
class MarkovianHVAEConfig(HierarchicalConfig):
    """Settings of the Markovian hierarchical variational auto-encoder."""

    latents: tuple[int, ...] = Field(
        (16, 8, 4),
        min_length=1,
        max_length=20,
        description="posterior=learned: entries of the code at each level, the lowest first",
    )
    posterior: Literal["learned", "diffusion"] = Field(
        "learned",
        description="each level given the one below: a learned Gaussian, or the example with more and more noise, "
        "as in diffusion models",
    )
    timesteps: int = Field(
        20, ge=2, le=1000, description="posterior=diffusion: levels, each as wide as an example"
    )
    lam_max: float | None = Field(
        None,
        ge=0,
        le=20,
        description="posterior=diffusion: log signal-to-noise ratio of the lowest level; none: 7 for up to 64 levels "
        "of an entry, 13.3 for more, 10 for numbers",
    )
    lam_min: float = Field(
        -6.0, ge=-20, le=0, description="posterior=diffusion: log signal-to-noise ratio of the top level"
    )

    @field_validator("latents")
    @classmethod
    def _positive(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if min(value) < 1:
            raise ValueError("every level has at least one entry")
        return value

    def lams(self, schema: Schema) -> tuple[float, ...]:
        """The log signal-to-noise ratio of every level, evenly from the lowest to the top."""
        high = self.lam_max
        if high is None:
            high = (13.3 if schema.levels > 64 else 7.0) if schema.levels else 10.0
        if high <= self.lam_min:
            raise ArgumentError(
                f"lam_max={high:g}, lam_min={self.lam_min:g}: the lowest level has the larger ratio",
                remedy="raise lam_max, or lower lam_min",
            )
        if not schema.levels and high > _MOST:
            raise ArgumentError(
                f"lam_max={high:g}: numbers are told apart no finer than by a ratio of {_MOST:g}",
                remedy=f"use lam_max={_MOST:g} or less",
            )
        return tuple(np.linspace(high, self.lam_min, self.timesteps).tolist())


@final
class MarkovianHVAE(Hierarchical):
    """Learns a chain of codes of each example; each level is drawn given the one above it."""

    hierarchy: MarkovChain | DiffusionChain
    family: OutputDistribution
    config: MarkovianHVAEConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: MarkovianHVAEConfig, schema: Schema, key: Key) -> None:
        self.config, self.schema = config, schema
        if config.posterior == "learned":
            self.family = likelihoods.output_of(config, schema)
            self.hierarchy = MarkovChain(config, config.latents, schema, self.family, key)
            return
        _check_diffusion(config)
        lam = config.lams(schema)
        self.family = diffusion.output_of(lam[0], schema)
        self.hierarchy = DiffusionChain(config, lam, schema, key)

    @property
    def output(self) -> OutputDistribution:
        """As the settings ask for it, or as a fixed posterior implies it."""
        return self.family

    def named_rates(self, each: Float[Array, "batch size"]) -> Mapping[str, Float[Array, " batch"]]:
        """Level by level; of a fixed posterior in the words of diffusion: the top level, and all steps below it."""
        if isinstance(self.hierarchy, MarkovChain):
            return super().named_rates(each)
        top = each[:, self.hierarchy.part(-1)].sum(axis=-1)
        return {"prior": top, "diffusion": each.sum(axis=-1) - top}


def _check_diffusion(config: MarkovianHVAEConfig) -> None:
    if config.likelihood != "auto":
        raise ArgumentError(
            f"likelihood={config.likelihood}: with posterior=diffusion the lowest level says what an entry is",
            remedy="leave likelihood out, or use posterior=learned",
        )
    if config.coarse > 1:
        raise ArgumentError(
            f"coarse={config.coarse}: with posterior=diffusion the levels are the whole example",
            remedy="leave coarse out, or use posterior=learned",
        )
    if config.depth < 1:
        raise ArgumentError(
            "depth=0: the denoiser of posterior=diffusion is no linear network", remedy="use depth=2"
        )


__all__ = ["MarkovianHVAE", "MarkovianHVAEConfig"]
