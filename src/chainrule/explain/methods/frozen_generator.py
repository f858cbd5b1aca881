"""Gradients that a frozen generator would get from a discriminator that goes on learning, and what bounds them.

With D the probability that an example is real, the saturating gradient of the generator's parameters is
`-E[J' grad D / (1 - D)]`, J the Jacobian of an example in them. Where D and its slope are within eps of a perfect
discriminator, which is 1 on data, 0 on generated examples and flat around both, its squared norm is at most
`(eps / (1 - eps))² E |J|²`. The non-saturating gradient, `-E[J' grad D / D]`, has no such bound.

Reference: Arjovsky and Bottou, Towards principled methods for training generative adversarial networks, ICLR 2017.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from chainrule.core.types import Array, Float, Key, Scalar, Tree
from chainrule.probability.divergences import game

softplus = jax.nn.softplus
_EXACT = 64
"""Entries of an example up to which its Jacobian is computed in full; of more, so many random directions do."""


class GradientLook(NamedTuple):
    """One look at the generator, or a column of many."""

    saturating: Any
    """Norm of the gradient of log(1 - D)."""
    non_saturating: Any
    """Norm of the gradient of -log D."""
    bound: Any
    """On the first; infinite where eps is 1 or more."""
    eps: Any
    """The largest distance of D and of its slope from a perfect discriminator's, over all examples looked at."""
    fake: Any
    """Mean D of generated examples."""
    real: Any
    """Mean D of real examples."""


class FrozenGame(NamedTuple):
    """A game whose generator stands still, as functions of the parameters of its players."""

    generate: Callable[[Tree, Float[Array, "n size"]], Array]
    """Examples from the generator's parameters and noise."""
    score: Callable[[Tree, Array], Float[Array, " n"]]
    """Scores from the discriminator's parameters and examples; their sigmoid is D."""
    noise: Callable[[Key, int], Float[Array, "n size"]]


def squared_jacobian(play: FrozenGame, generator: Tree, noise: Float[Array, "n size"], key: Key) -> Scalar:
    """The mean over examples of the squared (Frobenius) norm of their Jacobians in the generator's parameters."""

    def one(z: Array, key: Key) -> Scalar:
        example, back = jax.vjp(lambda g: play.generate(g, z[None]).reshape(-1), generator)
        size = example.size
        if size <= _EXACT:
            ways = jnp.eye(size, dtype=example.dtype)
        else:  # random signs: exact in the mean (Hutchinson, 1990)
            ways = jax.random.rademacher(key, (_EXACT, size), example.dtype) / jnp.sqrt(_EXACT)
        total = jax.tree.map(lambda g: jnp.square(g).sum(), jax.lax.map(lambda way: back(way)[0], ways))
        return jnp.asarray(sum(jax.tree.leaves(total)))

    found: Array = jax.lax.map(lambda pair: one(*pair), (noise, jax.random.split(key, len(noise))))
    return found.mean()


def look(
    play: FrozenGame, generator: Tree, discriminator: Tree, real: Array, noise: Array, jacobian: Scalar
) -> GradientLook:
    """Both gradients of the generator and the bound, at this state of the discriminator."""

    def loss(generator: Tree, saturating: bool) -> Scalar:
        a = play.score(discriminator, play.generate(generator, noise))
        return (-softplus(a) if saturating else softplus(-a)).mean()

    norms = [optax.tree.norm(jax.grad(loss)(generator, saturating)) for saturating in (True, False)]

    def decisions(x: Array) -> Array:
        return jax.nn.sigmoid(play.score(discriminator, x))

    def steepest(x: Array) -> Scalar:
        slopes = jax.grad(lambda x: decisions(x).sum())(x)
        return jnp.sqrt(jnp.square(slopes).reshape(len(x), -1).sum(axis=1).max())

    fake = play.generate(generator, noise)
    of_fake, of_real = decisions(fake), decisions(real)
    off = jnp.maximum(of_fake.max(), (1 - of_real).max())
    eps = jnp.maximum(off, jnp.maximum(steepest(fake), steepest(real)))
    bound = jnp.sqrt(game.gradient_bound(eps, jacobian))
    return GradientLook(norms[0], norms[1], bound, eps, of_fake.mean(), of_real.mean())


@eqx.filter_jit
def looks(
    play: FrozenGame,
    generator: Tree,
    discriminator: Tree,
    real: Array,
    key: Key,
    *,
    counts: int,
    every: int,
    batch: int,
    examples: int,
    lr: float,
) -> GradientLook:
    """Looks before, and after every few updates of the discriminator by Adam on the cross-entropy of both kinds.

    Updates draw from all real examples; looks are at the first `examples` of them and at as many generated ones.
    """
    optimizer = optax.adam(lr)
    for_noise, for_jacobian, for_updates = jax.random.split(key, 3)
    noise, seen = play.noise(for_noise, examples), real[:examples]
    jacobian = squared_jacobian(play, generator, noise, for_jacobian)

    def loss(discriminator: Tree, x: Array, fake: Array) -> Scalar:
        a_real, a_fake = play.score(discriminator, x), play.score(discriminator, fake)
        return (softplus(-a_real) + softplus(a_fake)).mean()

    def update(number: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        now, state = carry
        one, two = jax.random.split(jax.random.fold_in(for_updates, number))
        x = real[jax.random.randint(one, (batch,), 0, len(real))]
        slope = jax.grad(loss)(now, x, play.generate(generator, play.noise(two, batch)))
        changes, state = optimizer.update(slope, state)
        return optax.apply_updates(now, changes), state

    def watched(carry: tuple[Any, Any], number: Array) -> tuple[tuple[Any, Any], GradientLook]:
        found = look(play, generator, carry[0], seen, noise, jacobian)
        return jax.lax.fori_loop(number * every, (number + 1) * every, update, carry), found

    start = (discriminator, optimizer.init(discriminator))
    (last, _), found = jax.lax.scan(watched, start, jnp.arange(counts))
    end = look(play, generator, last, seen, noise, jacobian)
    return jax.tree.map(lambda many, one: jnp.concatenate([many, one[None]]), found, end)


__all__ = ["FrozenGame", "GradientLook", "look", "looks", "squared_jacobian"]
