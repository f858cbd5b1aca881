"""Annealed importance sampling: weights by way of many distributions between an easy one and the one that is meant.

Draws of a start distribution are carried along `p_b = start^(1-b) target^b` as b goes from 0 to 1, by moves that leave
each of these as it is. What the density gains at each step, added up, is the logarithm of a weight, and the mean weight
is the normalisation of the target, as in importance sampling from the start, but with far lighter tails (Neal, 2001).
"""

from collections.abc import Callable
from typing import NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.monte_carlo.chains import LogDensity
from chainrule.probability.monte_carlo.hmc import hamiltonian_transition

Move = Callable[[Key, Array, LogDensity], Array]
"""From one state to the next, such that the density stays what it is."""


@final
class AnnealedDraws(NamedTuple):
    """Where the chains ended, and what each is worth."""

    z: Float[Array, "chains *event"]
    log_weights: Float[Array, " chains"]


def annealed_importance_sampling(
    start: Float[Array, "chains *event"],
    log_start: LogDensity,
    log_target: LogDensity,
    move: Move,
    key: Key,
    *,
    steps: int = 1000,
) -> AnnealedDraws:
    """Chains from draws of a normalised start to the target, whose normalisation their weights estimate.

    Every chain takes `steps` steps of b, each followed by one move. The steps are shorter at both ends, where densities
    change most.
    """
    steps = whole("annealed_importance_sampling", "steps", steps)

    def gain(z: Array, before: Array, after: Array) -> Array:
        return (after - before) * jax.vmap(lambda one: log_target(one) - log_start(one))(z)

    def moved(key: Key, z: Array, b: Array) -> Array:
        def log_density(one: Array) -> Array:
            return (1 - b) * log_start(one) + b * log_target(one)

        return jax.vmap(lambda key, one: move(key, one, log_density))(jax.random.split(key, len(z)), z)

    return annealed_chains(start, gain, moved, key, steps=steps)


def annealed_chains(
    start: Float[Array, "chains *event"],
    gain: Callable[[Array, Array, Array], Float[Array, " chains"]],
    move: Callable[[Key, Array, Array], Float[Array, "chains *event"]],
    key: Key,
    *,
    steps: int = 1000,
) -> AnnealedDraws:
    """The same along any path of densities `p_b`, not only that of their powers.

    `gain(z, before, after)` is `log p_after(z) - log p_before(z)` of each chain, with densities that need not be
    normalised; `move(key, z, b)` moves all chains and leaves `p_b` as it is.
    """
    steps = whole("annealed_chains", "steps", steps)
    ramp = jax.nn.sigmoid(jnp.linspace(-4.0, 4.0, steps + 1, dtype=start.dtype))
    between = (ramp - ramp[0]) / (ramp[-1] - ramp[0])

    def step(carry: AnnealedDraws, now: tuple[Array, Array, Array]) -> tuple[AnnealedDraws, None]:
        before, after, one = now
        log_weights = carry.log_weights + gain(carry.z, before, after)
        return AnnealedDraws(move(one, carry.z, after), log_weights), None

    begun = AnnealedDraws(start, jnp.zeros(len(start), start.dtype))
    ends, _ = jax.lax.scan(step, begun, (between[:-1], between[1:], jax.random.split(key, steps)))
    return ends


def hamiltonian_move(step_size: float = 0.2, leapfrogs: int = 5) -> Move:
    """A move along a frictionless path, accepted by Metropolis' rule (Duane et al., 1987).

    >>> hamiltonian_move(step_size=0.0)
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: hamiltonian_move(step_size=0.0): it must be above zero
    """
    if not step_size > 0:
        raise ArgumentError(f"hamiltonian_move(step_size={step_size}): it must be above zero")
    leapfrogs = whole("hamiltonian_move", "leapfrogs", leapfrogs)

    def move(key: Key, z: Array, log_density: LogDensity) -> Array:
        return hamiltonian_transition(key, z, log_density, step_size, leapfrogs).state

    return move


__all__ = ["AnnealedDraws", "Move", "annealed_chains", "annealed_importance_sampling", "hamiltonian_move"]
