"""Hamiltonian Monte Carlo: moves along frictionless paths, which go far and are still accepted.

References: Duane, Kennedy, Pendleton, Roweth, 1987; Neal, MCMC using Hamiltonian dynamics, 2011.
"""

from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.types import Array, Key
from chainrule.probability.monte_carlo.adaptation import AdaptiveKernel, adaptive
from chainrule.probability.monte_carlo.chains import LogDensity, MCMCResult, Moved

_BROKEN = 1000.0
"""An energy that has grown by more is no longer that of a path."""


def hamiltonian_transition(
    key: Key, z: Array, log_density: LogDensity, step_size: Any, leapfrogs: Any
) -> Moved:
    """`leapfrogs` steps along a path that begins with a random momentum, accepted by Metropolis' rule."""
    slope = jax.grad(log_density)
    for_momentum, for_choice = jax.random.split(key)
    momentum = jax.random.normal(for_momentum, z.shape, z.dtype)

    def leap(_: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        z, half = state[0], state[1] + step_size / 2 * slope(state[0])
        z = z + step_size * half
        return z, half + step_size / 2 * slope(z)

    there, last = jax.lax.fori_loop(0, leapfrogs, leap, (z, momentum))
    gain = log_density(there) - log_density(z) + (jnp.square(momentum) - jnp.square(last)).sum() / 2
    diverged = ~(gain > -_BROKEN)  # also where it is not a number
    accepted = jnp.log(jax.random.uniform(for_choice, (), z.dtype)) < gain
    acceptance = jnp.where(jnp.isnan(gain), 0.0, jnp.exp(jnp.minimum(gain, 0.0)))
    return Moved(jnp.where(accepted, there, z), acceptance, diverged)


@final
class HamiltonianKernel(AdaptiveKernel):
    """Paths of random length: one that is always the same can come back to where it began."""

    leapfrogs: int

    def move(self, key: Key, z: Array, log_density: LogDensity, step_size: Array) -> Moved:
        """A path of 1 to `leapfrogs` steps."""
        for_length, for_path = jax.random.split(key)
        length = jax.random.randint(for_length, (), 1, self.leapfrogs + 1)
        return hamiltonian_transition(for_path, z, log_density, step_size, length)


def hmc(
    log_density: LogDensity,
    start: Any,
    key: Key,
    *,
    draws: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
    step_size: float | None = None,
    leapfrogs: int = 20,
    target_acceptance: float = 0.8,
    scale: str = "diagonal",
    warn: bool = True,
) -> MCMCResult:
    """Hamiltonian Monte Carlo on `log_density` of one state, a chain from each entry of `start` `[chains, *event]`.

    In burn-in the step size is steered to `target_acceptance`, unless it is given, and the mass matrix (`scale`:
    "diagonal", "full" or "none") is made the inverse covariance of the draws. Paths have 1 to `leapfrogs` steps.

    >>> starts = jax.random.normal(jax.random.key(0), (4, 2))
    >>> found = hmc(lambda x: -(x**2).sum() / 2, starts, jax.random.key(1), draws=500, burn_in=300)
    >>> found.draws.shape, bool((abs(found.mean) < 4 * found.standard_error).all()), bool((found.rhat < 1.01).all())
    ((4, 500, 2), True, True)
    """
    kernel = HamiltonianKernel(whole("hmc", "leapfrogs", leapfrogs))
    return adaptive(
        "hmc", kernel, log_density, start, key, draws=draws, burn_in=burn_in, thin=thin, step_size=step_size,
        target_acceptance=target_acceptance, scale=scale, warn=warn,
    )  # fmt: skip


__all__ = ["HamiltonianKernel", "hamiltonian_transition", "hmc"]
