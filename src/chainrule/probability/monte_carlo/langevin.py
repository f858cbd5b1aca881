"""Langevin dynamics: random moves along the score of a distribution.

It needs a score that is right everywhere, and crosses gaps between modes only by luck.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.probability.monte_carlo.adaptation import AdaptiveKernel, adaptive
from chainrule.probability.monte_carlo.chains import LogDensity, MCMCResult, Moved

_X = Float[Array, "batch ..."]


class Chains(NamedTuple):
    """States kept of every chain, and the share of proposed moves that were made."""

    states: Float[Array, "kept batch ..."]
    accepted: Float[Array, ""]


def langevin(score: Callable[[Array], Array], x: _X, size: float, steps: int, key: Key) -> _X:
    """`steps` moves x <- x + size score(x) + sqrt(2 size) noise of every chain in `x`.

    The size of a step is an error of its own: the variance of a standard normal variable comes out as 1/(1 - size/2).
    """
    return langevin_chains(score, x, size, key, kept=1, thin=steps).states[-1]


def langevin_chains(
    score: Callable[[Array], Array],
    x: _X,
    size: float,
    key: Key,
    *,
    kept: int,
    burn_in: int = 0,
    thin: int = 1,
    log_density: Callable[[Array], Array] | None = None,
) -> Chains:
    """`kept` states of every chain in `x`, `thin` moves apart, after `burn_in` moves that are forgotten.

    With `log_density`, whose gradient is the score, a move is made with the probability of Metropolis and Hastings and
    otherwise not at all; the chains then have the distribution itself, whatever the size (Roberts and Tweedie, 1996).
    """
    if not size > 0 or kept < 1 or burn_in < 0 or thin < 1:
        raise ArgumentError(
            f"langevin(size={size}, kept={kept}, burn_in={burn_in}, steps={thin}): "
            "all have to be positive, burn_in may be 0"
        )
    begin, walk = jax.random.split(key) if burn_in else (key, key)

    def several(x: Array, key: Key, count: int) -> tuple[Array, Array]:
        def move(x: Array, key: Key) -> tuple[Array, Array]:
            x, made, _ = _moved(score, log_density, x, size, key)
            return x, made

        x, made = jax.lax.scan(move, x, jax.random.split(key, count))
        return x, made.mean()

    if burn_in:
        x, _ = several(x, begin, burn_in)
    if kept == 1:
        x, made = several(x, walk, thin)
        return Chains(x[None], made)

    def keep(x: Array, key: Key) -> tuple[Array, tuple[Array, Array]]:
        x, made = several(x, key, thin)
        return x, (x, made)

    _, (states, made) = jax.lax.scan(keep, x, jax.random.split(walk, kept))
    return Chains(states, made.mean())


def _moved(
    score: Callable[[Array], Array],
    log_density: Callable[[Array], Array] | None,
    x: Array,
    size: Any,
    key: Key,
) -> tuple[Array, Array, Array]:
    """Every chain after one move, the share of moves that were made, and the logarithms of Metropolis' ratios."""
    draw, choose = jax.random.split(key) if log_density is not None else (key, key)
    noise = jax.random.normal(draw, x.shape, x.dtype)
    drift = x + size * score(x)
    new = drift + (2 * size) ** 0.5 * noise
    if log_density is None:
        return new, jnp.ones((), x.dtype), jnp.zeros(len(x), x.dtype)
    back = new + size * score(new)
    axes = tuple(range(1, x.ndim))
    ratio = log_density(new) - log_density(x)
    ratio = ratio + (jnp.square(new - drift) - jnp.square(x - back)).sum(axis=axes) / (4 * size)
    made = jnp.log(jax.random.uniform(choose, ratio.shape, x.dtype)) < ratio
    return jnp.where(made.reshape(-1, *(1,) * (x.ndim - 1)), new, x), made.mean(dtype=x.dtype), ratio


@final
class LangevinKernel(AdaptiveKernel):
    """Moves along the gradient of the density, with noise; `accept` tells whether they may be refused."""

    accept: bool

    def move(self, key: Key, z: Array, log_density: LogDensity, step_size: Array) -> Moved:
        """One move; with the deviation `step_size` of its noise, as random walks have it."""
        score = jax.vmap(jax.grad(log_density))
        density = jax.vmap(log_density) if self.accept else None
        moved, _, ratio = _moved(score, density, z[None], step_size**2 / 2, key)
        broken = jnp.isnan(ratio[0]) | ~jnp.isfinite(moved).all()
        acceptance = jnp.where(broken, 0.0, jnp.exp(jnp.minimum(ratio[0], 0.0)))
        return Moved(jnp.where(broken, z, moved[0]), acceptance, broken)


def mala(
    log_density: LogDensity,
    start: Any,
    key: Key,
    *,
    draws: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
    step_size: float | None = None,
    target_acceptance: float = 0.574,
    scale: str = "diagonal",
    warn: bool = True,
) -> MCMCResult:
    """Langevin moves with Metropolis' acceptance on `log_density` of one state: exact, whatever the step.

    A chain starts from each entry of `start` `[chains, *event]`. In burn-in the step size (the deviation of the noise)
    is steered to `target_acceptance`, unless it is given, and the `scale` ("diagonal", "full" or "none") becomes that
    of the draws (Roberts and Tweedie, 1996).

    >>> found = mala(lambda x: -(x**2).sum() / 2, jnp.ones((4, 3)), jax.random.key(0))
    >>> bool((abs(found.mean) < 4 * found.standard_error).all())
    True
    """
    return adaptive(
        "mala", LangevinKernel(True), log_density, start, key, draws=draws, burn_in=burn_in, thin=thin,
        step_size=step_size, target_acceptance=target_acceptance, scale=scale, warn=warn,
    )  # fmt: skip


def ula(
    log_density: LogDensity,
    start: Any,
    key: Key,
    *,
    step_size: float,
    draws: int = 1000,
    burn_in: int = 1000,
    thin: int = 1,
    warn: bool = True,
) -> MCMCResult:
    """Langevin moves that are always made, on `log_density` of one state: the step size is an error of its own.

    With noise of deviation `step_size` = h a standard normal variable comes out with variance 1 / (1 - h^2 / 4); no
    diagnostic of chains shows it. `mala` has no such error.
    """
    return adaptive(
        "ula", LangevinKernel(False), log_density, start, key, draws=draws, burn_in=burn_in, thin=thin,
        step_size=step_size, target_acceptance=0.5, scale="none", warn=warn,
    )  # fmt: skip


__all__ = ["Chains", "LangevinKernel", "langevin", "langevin_chains", "mala", "ula"]
