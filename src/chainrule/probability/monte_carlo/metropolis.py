"""Random-walk Metropolis: a step is proposed at random, and made as often as the density there asks for.

References: Metropolis et al., 1953; Roberts, Gelman, Gilks, 1997 (the acceptance that is best in many dimensions).
"""

from collections.abc import Callable
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.probability.monte_carlo.adaptation import AdaptiveKernel, adaptive
from chainrule.probability.monte_carlo.chains import (
    LogDensity,
    MCMCResult,
    Moved,
    check_lengths,
    checked_start,
    collect,
    result,
)

Proposal = Callable[[Key, Array], Array]
"""From one state to another, as likely as the way back."""


def metropolis_transition(key: Key, x: Array, there: Array, log_density: LogDensity) -> Moved:
    """The state after `there` was proposed by a symmetric rule: there, or still `x`."""
    gain = log_density(there) - log_density(x)
    accepted = jnp.log(jax.random.uniform(key)) < gain  # never, where it is not a number
    acceptance = jnp.where(jnp.isnan(gain), 0.0, jnp.exp(jnp.minimum(gain, 0.0)))
    return Moved(jnp.where(accepted, there, x), acceptance, jnp.isnan(gain))


@final
class WalkKernel(AdaptiveKernel):
    """Gaussian steps of random walks."""

    def move(self, key: Key, z: Array, log_density: LogDensity, step_size: Array) -> Moved:
        """A step in every direction at once."""
        for_step, for_choice = jax.random.split(key)
        there = z + step_size * jax.random.normal(for_step, z.shape, z.dtype)
        return metropolis_transition(for_choice, z, there, log_density)


def metropolis(
    log_density: LogDensity,
    start: Any,
    key: Key,
    *,
    propose: Proposal | None = None,
    draws: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
    step_size: float | None = None,
    target_acceptance: float | None = None,
    scale: str = "diagonal",
    warn: bool = True,
) -> MCMCResult:
    """Random-walk Metropolis on `log_density` of one state, a chain from each entry of `start` `[chains, *event]`.

    Steps are Gaussian; in burn-in their size is steered to `target_acceptance` (0.44 for single numbers, 0.234 for
    vectors), unless it is given, and their `scale` ("diagonal", "full" or "none") becomes that of the draws. Or
    `propose(key, state)` draws the step, with the way back as likely as the way there: then nothing is adapted, and
    states may be whole numbers.

    >>> found = metropolis(lambda x: -abs(x), jnp.zeros(4), jax.random.key(0), draws=2000, thin=5)  # Laplace
    >>> bool(abs(found.mean) < 4 * found.standard_error), 0.3 < float(found.acceptance.mean()) < 0.6
    (True, True)
    """
    if propose is None:
        if target_acceptance is None:
            target_acceptance = 0.44 if np.prod(np.shape(start)[1:]) == 1 else 0.234
        return adaptive(
            "metropolis", WalkKernel(), log_density, start, key, draws=draws, burn_in=burn_in, thin=thin,
            step_size=step_size, target_acceptance=target_acceptance, scale=scale, warn=warn,
        )  # fmt: skip
    if step_size is not None or target_acceptance is not None:
        raise ArgumentError(
            "metropolis: propose draws the steps, so there is no step_size or target_acceptance to set",
            remedy="leave out propose, or the other two",
        )
    check_lengths("metropolis", draws, burn_in, thin)
    x = checked_start("metropolis", start, None)
    return result(_proposed(log_density, propose, x, key, (draws, burn_in, thin)), warn=warn)


@eqx.filter_jit
def _proposed(
    log_density: LogDensity, propose: Proposal, x: Array, key: Key, lengths: tuple[int, int, int]
) -> Moved:
    def one(key: Key, x: Array) -> Moved:
        for_step, for_choice = jax.random.split(key)
        return metropolis_transition(for_choice, x, propose(for_step, x), log_density)

    def step(key: Key, x: Array) -> Moved:
        return jax.vmap(one)(jax.random.split(key, len(x)), x)

    draws, burn_in, thin = lengths
    begin, walk = jax.random.split(key)
    if burn_in:
        x, _ = collect(step, x, begin, 1, burn_in)
    return collect(step, x, walk, draws, thin)[1]


__all__ = ["Proposal", "WalkKernel", "metropolis", "metropolis_transition"]
