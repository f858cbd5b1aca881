"""A generative adversarial network (Goodfellow et al., 2014) with a choice of games and of what keeps them stable.

The default is the modern baseline of Huang et al. (2024): relativistic pairs with penalties on slopes at real and at
generated examples, which has a rest point that training finds.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.adversarial.adversarial_model import AdversarialModel, Verdict
from chainrule.models.adversarial.augmenting import Change
from chainrule.models.adversarial.building import (
    NetworksConfig,
    Spectral,
    check_conditions,
    make_discriminator,
    make_generator,
)
from chainrule.models.adversarial.games import AdversarialGame, check_target, games
from chainrule.models.adversarial.networks import Discriminator, Generator
from chainrule.models.adversarial.penalties import zero_centred
from chainrule.models.protocol import Metrics


@final
class GANConfig(NetworksConfig):
    """Settings of a generative adversarial network."""

    game: Literal["relativistic", "non-saturating", "minimax", "least-squares", "hinge", "wasserstein"] = (
        Field("relativistic", description="what the players minimise")
    )
    r1: float = Field(
        0.02,
        ge=0,
        le=1e4,
        description="gamma: half of it is the price of a squared slope of the score at real examples; images: 1",
    )
    r2: float = Field(0.02, ge=0, le=1e4, description="the same at generated examples")
    spectral: Spectral = Field(
        "none",
        description="divide weights of the discriminator by their largest singular value; operator: by that of the "
        "convolution itself, a true Lipschitz bound",
    )
    spectral_scale: bool = Field(
        False,
        description="with spectral: every bounded weight has a factor that is learned, so that slopes are bounded by "
        "what it costs to raise it",
    )
    real_target: float = Field(
        1.0,
        gt=0.5,
        le=1,
        description="label of real examples (one-sided smoothing: 0.9); generated ones have 0",
    )
    minibatch_std: bool = Field(
        False, description="tell the discriminator how much the examples of a batch differ"
    )
    pack: int = Field(1, ge=1, le=64, description="examples of one decision of the discriminator")
    changes: tuple[Annotated[Change, Field()], ...] = Field(
        (),
        description="images: differentiable augmentation of real and generated ones in both steps, of translation, "
        "colour, cutout",
    )


@final
class GAN(AdversarialModel):
    """A generator of examples from noise, trained against a discriminator."""

    generator: Generator
    discriminator: Discriminator
    config: GANConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: GANConfig, schema: Schema, key: Key) -> None:
        check_target(games[config.game], config.real_target)
        check_conditions(config, schema)
        if config.changes and not kinds.of(schema).spatial:
            raise ArgumentError(
                f"changes={','.join(config.changes)}: only images are augmented, and these are {schema.kind} data",
                remedy="leave changes out",
            )
        if config.spectral_scale and config.spectral == "none":
            raise ArgumentError(
                "spectral_scale=true: without spectral normalisation there is no factor to learn",
                remedy="add spectral=layer, or leave spectral_scale out",
            )
        self.config, self.schema = config, schema
        one, two = jax.random.split(key)
        self.generator = make_generator(config, schema, one)
        self.discriminator = make_discriminator(
            config,
            schema,
            two,
            spectral=config.spectral,
            spectral_scale=config.spectral_scale,
            pack=config.pack,
            minibatch_std=config.minibatch_std,
        )

    @property
    def game(self) -> AdversarialGame:
        """The game of the settings."""
        return games[self.config.game]

    @property
    def real_target(self) -> float:
        """The label of real examples."""
        return self.config.real_target

    @property
    def changes(self) -> Sequence[str]:
        """How images are augmented."""
        return self.config.changes

    @property
    def needs_slopes(self) -> bool:
        """Whether slopes have a price."""
        return bool(self.config.r1 or self.config.r2)

    def charge(self, judged: Verdict, real: Array, fake: Array, y: Any, key: Key) -> tuple[Scalar, Metrics]:
        """R1 and R2."""
        del real, fake, y, key
        if judged.slopes is None:
            return jnp.zeros(()), {}
        decisions = len(judged.real)
        r1, r2 = (
            zero_centred(slopes, gamma, decisions)
            for slopes, gamma in zip(judged.slopes, (self.config.r1, self.config.r2), strict=True)
        )
        return r1 + r2, {"r1": r1, "r2": r2}


__all__ = ["GAN", "GANConfig"]
