"""Two small dense networks that play the adversarial game in memory, as experiments show it.

Both are updated by Adam with the momentum of adversarial training, in one compiled program of any number of
rounds. A round is some updates of the discriminator, each on fresh real and fresh generated points, and then some of
the generator.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.nn import Linear

Draw: TypeAlias = Callable[[Key, int], Array]
"""From a key and a number to as many real points."""


@final
class DenseNetwork(eqx.Module):
    """Hidden layers with ReLU between, and a last affine map."""

    layers: tuple[Linear, ...]

    def __init__(self, inputs: int, outputs: int, *, width: int, depth: int = 1, key: Key) -> None:
        sizes = [inputs, *[width] * depth, outputs]
        keys = jax.random.split(key, depth + 1)
        self.layers = tuple(Linear(n, m, key=k) for n, m, k in zip(sizes[:-1], sizes[1:], keys, strict=True))

    def __call__(self, x: Float[Array, "batch inputs"]) -> Float[Array, "batch outputs"]:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


class AdversarialPair(NamedTuple):
    """Both networks and the state of both optimisers."""

    generator: DenseNetwork
    discriminator: DenseNetwork
    generator_state: Tree
    discriminator_state: Tree

    @staticmethod
    def start(noise: int, points: int, *, width: int, depth: int = 1, key: Key) -> "AdversarialPair":
        """Networks with random weights, from `noise` numbers to points of `points` coordinates, and to a score."""
        first, second = jax.random.split(key)
        generator = DenseNetwork(noise, points, width=width, depth=depth, key=first)
        discriminator = DenseNetwork(points, 1, width=width, depth=depth, key=second)
        return AdversarialPair(generator, discriminator, *map(_ADAM.init, (generator, discriminator)))

    def generate(self, key: Key, n: int) -> Float[Array, "n points"]:
        """Generated points from normal noise."""
        return self.generator(jax.random.normal(key, (n, self.generator.layers[0].weight.shape[0])))


_ADAM = optax.scale_by_adam(b1=0.5, b2=0.999)


def scores(
    discriminator: Callable[[Array], Array], x: Float[Array, "batch points"]
) -> Float[Array, " batch"]:
    """The raw score of each point, whose sigmoid is the probability that it is real."""
    return discriminator(x)[:, 0]


def discriminator_loss(discriminator: DenseNetwork, real: Array, fake: Array, penalty: float = 0.0) -> Scalar:
    """Cross-entropy by softplus of scores, plus half of `penalty` times the squared slope at real points (R1)."""
    loss = jax.nn.softplus(-scores(discriminator, real)).mean()
    loss = loss + jax.nn.softplus(scores(discriminator, fake)).mean()
    slopes = jax.grad(lambda x: scores(discriminator, x).sum())(real)
    return loss + penalty / 2 * jnp.square(slopes).sum(axis=-1).mean()


def generator_loss(discriminator: DenseNetwork, fake: Array, saturating: bool = False) -> Scalar:
    """-log D, or of the saturating game log(1 - D), of generated points."""
    a = scores(discriminator, fake)
    return (-jax.nn.softplus(a) if saturating else jax.nn.softplus(-a)).mean()


@eqx.filter_jit
def play(
    pair: AdversarialPair,
    draw: Draw,
    key: Key,
    rounds: int | Array,
    *,
    discriminator_updates: int = 1,
    generator_updates: int = 1,
    batch: int = 256,
    lr: float = 1e-3,
    penalty: float = 0.0,
    saturating: bool = False,
) -> AdversarialPair:
    """Some rounds of the game. With no updates of one player the other learns alone."""

    def judge(number: Array, now: AdversarialPair, root: Key) -> AdversarialPair:
        one, two = jax.random.split(jax.random.fold_in(root, number))
        fake = now.generate(one, batch)
        slope = jax.grad(discriminator_loss)(now.discriminator, draw(two, batch), fake, penalty)
        changed, state = _updated(now.discriminator, slope, now.discriminator_state, lr)
        return now._replace(discriminator=changed, discriminator_state=state)

    def improve(number: Array, now: AdversarialPair, root: Key) -> AdversarialPair:
        noise = jax.random.fold_in(jax.random.fold_in(root, 1), number)

        def loss(generator: DenseNetwork) -> Scalar:
            return generator_loss(
                now.discriminator, now._replace(generator=generator).generate(noise, batch), saturating
            )

        changed, state = _updated(now.generator, jax.grad(loss)(now.generator), now.generator_state, lr)
        return now._replace(generator=changed, generator_state=state)

    def one_round(number: Array, now: AdversarialPair) -> AdversarialPair:
        root = jax.random.fold_in(key, number)
        now = jax.lax.fori_loop(0, discriminator_updates, lambda i, now: judge(i, now, root), now)
        return jax.lax.fori_loop(0, generator_updates, lambda i, now: improve(i, now, root), now)

    return jax.lax.fori_loop(0, rounds, one_round, pair)


def _updated(network: DenseNetwork, slope: Tree, state: Tree, lr: float) -> tuple[DenseNetwork, Tree]:
    changes, state = _ADAM.update(slope, state)
    return jax.tree.map(lambda w, change: w - lr * change, network, changes), state


__all__ = [
    "AdversarialPair",
    "DenseNetwork",
    "Draw",
    "discriminator_loss",
    "generator_loss",
    "play",
    "scores",
]
