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
    ramp = jax.nn.sigmoid(jnp.linspace(-4.0, 4.0, steps + 1, dtype=start.dtype))
    between = (ramp - ramp[0]) / (ramp[-1] - ramp[0])

    def step(carry: AnnealedDraws, now: tuple[Array, Array, Array]) -> tuple[AnnealedDraws, None]:
        before, after, one = now
        gain = jax.vmap(lambda z: log_target(z) - log_start(z))(carry.z)

        def log_density(z: Array) -> Array:
            return (1 - after) * log_start(z) + after * log_target(z)

        moved = jax.vmap(lambda key, z: move(key, z, log_density))(jax.random.split(one, len(start)), carry.z)
        return AnnealedDraws(moved, carry.log_weights + (after - before) * gain), None

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


__all__ = ["AnnealedDraws", "Move", "annealed_importance_sampling", "hamiltonian_move"]
