"""Noise of an example: what a generator would have to be given to make it, by gradient descent from several starts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from chainrule.core.types import Array, Float


class Inverted(NamedTuple):
    """The best noise that was found for each example, and how far what it makes is from the example."""

    noise: Float[Array, "n size"]
    made: Float[Array, "n ..."]
    residual: Float[Array, " n"]
    """Root of the mean squared difference over the entries of an example."""
    of_starts: Float[Array, "starts n"]
    """The same from every start: far apart where the way down has many ends."""


@eqx.filter_jit
def invert(
    generate: Callable[[Array], Array],
    x: Float[Array, "n ..."],
    starts: Float[Array, "starts n size"],
    steps: int,
    rate: float = 0.05,
) -> Inverted:
    """Descend from every start with Adam at a falling rate, all together, and keep the end that is nearest."""
    many, n, size = starts.shape

    def apart(z: Array) -> Array:
        made = generate(z.reshape(many * n, size)).reshape(many, n, -1)
        return jnp.square(made - x.reshape(1, n, -1)).mean(axis=-1)

    method = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def step(_: Any, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
        z, state = carry
        updates, state = method.update(jax.grad(lambda z: apart(z).sum())(z), state, z)
        return optax.apply_updates(z, updates), state

    z, _ = jax.lax.fori_loop(0, steps, step, (starts, method.init(starts)))
    ends = jnp.sqrt(apart(z))
    best = ends.argmin(axis=0)
    noise = z[best, jnp.arange(n)]
    return Inverted(noise, generate(noise), ends.min(axis=0), ends)


__all__ = ["Inverted", "invert"]
