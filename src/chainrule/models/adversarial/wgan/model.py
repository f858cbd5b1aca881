"""The Wasserstein game with clipped weights (Arjovsky, Chintala and Bottou, 2017).

After every move all parameters of the critic are brought back between -c and c. Its slopes are bounded then, by some
number K that depends on c and on the network and that nobody knows: the best generator is the same for every K, and the
gap between mean scores is K times a distance. It is not calibrated, and is called so wherever it is shown.
"""

import functools
from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.types import Array, Key, Scalar, Tree
from chainrule.data.schema import Schema
from chainrule.models.adversarial.adversarial_model import AdversarialModel, Verdict
from chainrule.models.adversarial.building import (
    NetworksConfig,
    check_conditions,
    make_discriminator,
    make_generator,
)
from chainrule.models.adversarial.games import AdversarialGame, games
from chainrule.models.adversarial.networks import Discriminator, Generator
from chainrule.models.protocol import Metrics


@final
class WGANConfig(NetworksConfig):
    """Settings of a Wasserstein game with clipping."""

    clip: float = Field(
        0.01, gt=0, le=10, description="parameters of the critic are kept between -clip and clip"
    )
    n_critic: int = Field(5, ge=1, le=100, description="moves of the critic for each of the generator")


def clipped(owned: Tree, limit: float) -> Tree:
    """All numbers of a tree, none beyond the limit.

    >>> [float(x) for x in clipped({"w": jnp.array([-3.0, 0.5])}, 1.0)["w"]]
    [-1.0, 0.5]
    """
    return jax.tree.map(
        lambda leaf: jnp.clip(leaf, -limit, limit) if eqx.is_inexact_array(leaf) else leaf, owned
    )


@final
class WGAN(AdversarialModel):
    """A generator trained against a critic with small weights."""

    generator: Generator
    discriminator: Discriminator
    config: WGANConfig = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)

    def __init__(self, config: WGANConfig, schema: Schema, key: Key) -> None:
        check_conditions(config, schema)
        self.config, self.schema = config, schema
        one, two = jax.random.split(key)
        self.generator = make_generator(config, schema, one)
        self.discriminator = clipped(make_discriminator(config, schema, two), config.clip)

    @property
    def game(self) -> AdversarialGame:
        """The difference of mean scores."""
        return games["wasserstein"]

    @property
    def projection(self) -> Callable[[Tree], Tree]:
        """Clipping, after every move."""
        return functools.partial(clipped, limit=self.config.clip)

    def charge(self, judged: Verdict, real: Array, fake: Array, y: Any, key: Key) -> tuple[Scalar, Metrics]:
        """Nothing; but the share of weights at the two ends is worth watching."""
        del judged, real, fake, y, key
        leaves = jax.tree.leaves(eqx.filter(self.discriminator, eqx.is_inexact_array))
        ends = [(jnp.abs(leaf) >= 0.999 * self.config.clip).sum() for leaf in leaves]
        count = sum(leaf.size for leaf in leaves)
        share = sum(ends, start=jnp.zeros((), jnp.int32)) / count
        return jnp.zeros(()), {"clipped_share": jax.lax.stop_gradient(share)}


__all__ = ["WGAN", "WGANConfig", "clipped"]
