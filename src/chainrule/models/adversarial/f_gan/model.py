"""f-GAN (Nowozin, Cseke and Tomioka, 2016): any f-divergence, by a critic that bounds it from below.

With T = g(V(x)) in the domain of the conjugate f*, `E_p T - E_q f*(T)` is at most the divergence and equal to it at
T = f'(p/q). The critic raises the bound; the generator lowers it (saturating), or raises E_q T (the default), whose
gradient does not fade where the critic is sure.
"""

import math
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Key
from chainrule.data.schema import Schema
from chainrule.models.adversarial.adversarial_model import AdversarialModel
from chainrule.models.adversarial.building import (
    NetworksConfig,
    check_conditions,
    make_discriminator,
    make_generator,
)
from chainrule.models.adversarial.games import Game, Scores
from chainrule.models.adversarial.networks import Discriminator, Generator
from chainrule.probability.divergences import FDivergence, f_divergences

_NAMES = {
    "kl": "KL",
    "reverse-kl": "reverse KL",
    "pearson": "Pearson chi-square",
    "neyman": "Neyman chi-square",
    "hellinger": "full squared Hellinger",
    "jeffreys": "Jeffreys",
    "2-jsd": "2 JSD",
    "gan": "GAN",
    "total-variation": "total variation",
}
"""Names of settings for rows of the table of f-divergences."""
BOUNDED = ("2-jsd", "gan", "total-variation")
"""Those whose conjugate grows no faster than a network's output."""


@final
class FGANConfig(NetworksConfig):
    """Settings of f-GAN."""

    divergence: Literal[
        "2-jsd", "gan", "kl", "reverse-kl", "pearson", "neyman", "hellinger", "jeffreys", "total-variation"
    ] = Field("2-jsd", description="f-divergence of data p from generated q that the critic bounds")
    saturating: bool = Field(
        False, description="the generator minimises the bound itself; its gradient may fade"
    )


def f_game(divergence: FDivergence, saturating: bool) -> Game:
    """The game of one f-divergence, as functions of raw outputs v of the critic."""

    def log_ratio(v: Scores) -> Scores:
        # The derivative of f* at the best critic is p/q.
        ratio = jax.vmap(jax.grad(divergence.conjugate))(divergence.activation(v))
        return jnp.log(jnp.maximum(ratio, 1e-30))

    def generator(real: Scores, fake: Scores) -> jax.Array:
        del real
        if saturating:
            return -divergence.conjugate_of_output(fake).mean()
        return -divergence.activation(fake).mean()

    return Game(
        divergence.name,
        f"lower bound of the f-divergence with f(u) = {divergence.formula}",
        lambda real, fake, target: -divergence.bound_of_outputs(real, fake),
        generator,
        log_ratio,
        # Activations that are no identity are zero, or at the threshold, where their argument is zero.
        threshold=divergence.threshold if math.isinf(divergence.below) else 0.0,
        reference="Nowozin, Cseke and Tomioka, f-GAN, NeurIPS 2016",
    )


GAMES = {
    (name, saturating): f_game(f_divergences[row], saturating)
    for name, row in _NAMES.items()
    for saturating in (False, True)
}


@final
class FGAN(AdversarialModel):
    """A generator trained against a bound of an f-divergence."""

    generator: Generator
    discriminator: Discriminator
    config: FGANConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: FGANConfig, schema: Schema, key: Key) -> None:
        check_conditions(config, schema)
        self.config, self.schema = config, schema
        one, two = jax.random.split(key)
        self.generator = make_generator(config, schema, one)
        self.discriminator = make_discriminator(config, schema, two)

    @property
    def game(self) -> Game:
        """The bound of the divergence."""
        return GAMES[self.config.divergence, self.config.saturating]

    def when_not_finite(self) -> str:
        """A conjugate that grows exponentially overflows where the critic is sure; bounded ones do not."""
        if self.config.divergence in BOUNDED:
            return ""
        return (
            f"the conjugate of {_NAMES[self.config.divergence]} grows without bound with the critic's output; bounded "
            "ones: divergence=2-jsd, divergence=total-variation, divergence=gan"
        )


__all__ = ["BOUNDED", "FGAN", "GAMES", "FGANConfig", "f_game"]
