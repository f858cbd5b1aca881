"""The Wasserstein game with a gradient penalty (Gulrajani et al., 2017).

The critic maximises `E_p D - E_q D` over functions of slope one, which at its best is the Wasserstein-1 distance. That
the slope is one is only asked for, at points between real and generated examples: theory has it so between examples
that an optimal transport couples, and training draws pairs at random. The gap between mean scores is therefore no
distance: a linear critic of two sets a vector t apart ends with a slope of `1 + |t| / (2 lam)`.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field, field_validator

from chainrule.core.types import Array, Key, Scalar
from chainrule.data.schema import Schema
from chainrule.models.adversarial.adversarial_model import AdversarialModel, Verdict
from chainrule.models.adversarial.building import (
    CriticNorm,
    NetworksConfig,
    check_conditions,
    make_discriminator,
    make_generator,
)
from chainrule.models.adversarial.games import AdversarialGame, games
from chainrule.models.adversarial.networks import Discriminator, Generator
from chainrule.models.adversarial.penalties import interpolates, lengths, one_centred, scores_and_slopes
from chainrule.models.protocol import Metrics


@final
class WGANGPConfig(NetworksConfig):
    """Settings of a Wasserstein game with gradient penalty."""

    lam: float = Field(
        1.0, gt=0, le=1e4, description="price of slopes that differ from one; 10 is usual for images"
    )
    one_sided: bool = Field(False, description="only slopes above one have a price")
    n_critic: int = Field(
        3, ge=1, le=100, description="moves of the critic for each of the generator; 5 is usual for images"
    )
    critic_norm: CriticNorm = Field(
        "none",
        description="normalisation in the critic; batch is refused: it couples the examples of a batch, and slopes are "
        "those of each by itself",
    )

    @field_validator("critic_norm", mode="before")
    @classmethod
    def _each_by_itself(cls, critic_norm: Any) -> Any:
        if critic_norm == "batch":
            raise ValueError(
                "batch normalisation couples the examples of a batch, and slopes are those of each by itself: use layer"
            )
        return critic_norm


@final
class WGANGP(AdversarialModel):
    """A generator trained against a critic of slope about one."""

    generator: Generator
    discriminator: Discriminator
    config: WGANGPConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: WGANGPConfig, schema: Schema, key: Key) -> None:
        check_conditions(config, schema)
        self.config, self.schema = config, schema
        one, two = jax.random.split(key)
        self.generator = make_generator(config, schema, one)
        self.discriminator = make_discriminator(config, schema, two, normalization=config.critic_norm)

    @property
    def game(self) -> AdversarialGame:
        """The difference of mean scores."""
        return games["wasserstein"]

    def charge(self, judged: Verdict, real: Array, fake: Array, y: Any, key: Key) -> tuple[Scalar, Metrics]:
        """The price of slopes between real and generated examples."""
        del judged
        between = interpolates(key, real, fake)
        _, slopes, _ = scores_and_slopes(self.discriminator, between, y)
        size = jax.lax.stop_gradient(lengths(slopes))
        seen = {"slope_mean": size.mean(), "slope_largest": jnp.max(size)}
        return self.config.lam * one_centred(slopes, self.config.one_sided), seen


__all__ = ["WGANGP", "WGANGPConfig"]
