"""f-GAN (Nowozin, Cseke and Tomioka, 2016): any f-divergence, by a critic that bounds it from below.

With T = g(V(x)) in the domain of the conjugate f*, `E_p T - E_q f*(T)` is at most the divergence and equal to it at
T = f'(p/q). The critic raises the bound; the generator lowers it (saturating), or raises E_q T (the default), whose
gradient does not fade where the critic is sure.
"""

import functools
import math
from typing import final

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
from chainrule.models.adversarial.games import AdversarialGame, Scores
from chainrule.models.adversarial.networks import Discriminator, Generator
from chainrule.probability.divergences import FDivergence
from chainrule.probability.divergences.named import SHORT_NAMES, named

BOUNDED = ("2-jsd", "gan", "total-variation")
"""Those whose conjugate grows no faster than a network's output."""
_BOUNDED_ROWS = {*(SHORT_NAMES[name] for name in BOUNDED), "Jensen-Shannon"}
_FAR = 40.0
"""Outputs of a critic are searched from minus this to this."""
_HALVINGS = 50


@final
class FGANConfig(NetworksConfig):
    """Settings of f-GAN."""

    divergence: str = Field(
        "2-jsd",
        description=f"f-divergence of data p from generated q that the critic bounds: {', '.join(SHORT_NAMES)}; or one "
        "of your own, by a convex formula f(u) of the ratio u = p/q with f(1) = 0, such as (u-1)^2/(u+1), or by the "
        "name it was registered under",
    )
    saturating: bool = Field(
        False, description="the generator minimises the bound itself; its gradient may fade"
    )


def f_game(divergence: FDivergence, saturating: bool) -> AdversarialGame:
    """The game of one f-divergence, as functions of raw outputs v of the critic."""

    def log_ratio(v: Scores, target: float) -> Scores:
        del target  # bounds have no labels
        # The derivative of f* at the best critic is p/q.
        ratio = jax.vmap(jax.grad(divergence.conjugate))(divergence.activation(v))
        return jnp.log(jnp.maximum(ratio, 1e-30))

    def generator(real: Scores, fake: Scores) -> jax.Array:
        del real
        if saturating:
            return -divergence.conjugate_of_output(fake).mean()
        return -divergence.activation(fake).mean()

    return AdversarialGame(
        divergence.name,
        f"lower bound of the f-divergence with f(u) = {divergence.formula}",
        lambda real, fake, target: -divergence.bound_of_outputs(real, fake),
        generator,
        log_ratio if _tells_ratios(divergence) else None,
        threshold=_undecided(divergence),
        bounds=divergence,
        reference="Nowozin, Cseke and Tomioka, f-GAN, NeurIPS 2016",
    )


def _tells_ratios(divergence: FDivergence) -> bool:
    """Whether the best critic knows p/q; that of the total variation knows only which of both is larger."""
    slopes = jax.vmap(jax.grad(divergence.conjugate))(divergence.activation(jnp.array([-1.0, 1.0])))
    return bool(slopes[0] < slopes[1])


def _undecided(divergence: FDivergence) -> float:
    """The output v of a critic that is undecided: g(v) = f'(1), by halving, since activations only rise."""
    if math.isinf(divergence.below):
        return divergence.threshold  # their activation is the identity
    low, high = -_FAR, _FAR
    with jax.enable_x64(True):
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = float(divergence.activation(jnp.asarray(middle))) < divergence.threshold
            low, high = (middle, high) if below else (low, middle)
    return high


@functools.cache
def game_of(divergence: str, saturating: bool) -> AdversarialGame:
    """The game of a setting."""
    with jax.ensure_compile_time_eval():
        return f_game(named(divergence), saturating)


@final
class FGAN(AdversarialModel):
    """A generator trained against a bound of an f-divergence."""

    generator: Generator
    discriminator: Discriminator
    config: FGANConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: FGANConfig, schema: Schema, key: Key) -> None:
        check_conditions(config, schema)
        named(config.divergence)
        self.config, self.schema = config, schema
        one, two = jax.random.split(key)
        self.generator = make_generator(config, schema, one)
        self.discriminator = make_discriminator(config, schema, two)

    @property
    def game(self) -> AdversarialGame:
        """The bound of the divergence."""
        return game_of(self.config.divergence, self.config.saturating)

    def when_not_finite(self) -> str:
        """A conjugate that grows exponentially overflows where the critic is sure; bounded ones do not."""
        if self.game.name in _BOUNDED_ROWS:
            return ""
        return (
            f"the conjugate of {self.game.name} may grow without bound with the critic's output; bounded "
            "ones: divergence=2-jsd, divergence=total-variation, divergence=gan"
        )


__all__ = ["BOUNDED", "FGAN", "FGANConfig", "f_game", "game_of"]
