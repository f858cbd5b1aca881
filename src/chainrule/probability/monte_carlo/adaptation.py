"""Step sizes and scales that chains find for themselves during burn-in.

Moves happen in coordinates in which the distribution has, as far as is known, unit scale: from x to `x + scale z`,
where z starts at zero. This is what a mass matrix does to Hamiltonian paths, and it serves random walks and Langevin
moves just as well. The scale is that of the draws of all chains in windows that double; in between and after the last
of them the step size is steered to the acceptance wanted (dual averaging). Its tries swing widely, and at their mean
moves are accepted more often than they are on average; so at the end of burn-in, with the scale known, steps that
shrink settle it (Robbins and Monro). After burn-in neither changes.

References: Nesterov, 2009; Hoffman and Gelman, The No-U-Turn sampler, 2014; Stan's reference manual (warm-up).
"""

import abc
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Key
from chainrule.probability.monte_carlo.chains import (
    LogDensity,
    MCMCResult,
    Moved,
    check_lengths,
    checked_start,
    collect,
    result,
)

SCALES = ("none", "diagonal", "full")
_SHRINKAGE, _OFFSET, _DECAY = 0.05, 10.0, 0.75
"""Constants of dual averaging: how strongly a step is pulled, how slowly it begins, how fast the mean forgets."""
_FADING = 0.6
"""Power of time by which the last steps shrink: fast enough to settle, slowly enough to arrive."""
_FIRST_STEP = 0.1


class AdaptiveKernel(eqx.Module):
    """A move of one chain in coordinates of unit scale that leaves a density as it is (or nearly, and says so)."""

    @abc.abstractmethod
    def move(self, key: Key, z: Array, log_density: LogDensity, step_size: Array) -> Moved:
        """From one state to the next."""


class _Steering(NamedTuple):
    """State of dual averaging, all in logarithms of step sizes."""

    now: Array
    mean: Array
    error: Array
    centre: Array
    time: Array


class _Moments(NamedTuple):
    """Running mean and sum of squared differences of all chains, and of how many draws."""

    number: Array
    mean: Array
    squares: Array


def adaptive(
    where: str,
    kernel: AdaptiveKernel,
    log_density: LogDensity,
    start: Any,
    key: Key,
    *,
    draws: int,
    burn_in: int,
    thin: int,
    step_size: float | None,
    target_acceptance: float,
    scale: str,
    warn: bool,
) -> MCMCResult:
    """Chains of a kernel whose step size and scale are found in burn-in; a `step_size` that is given stays."""
    check_lengths(where, draws, burn_in, thin)
    check_choice(where, "scale", scale, SCALES)
    if step_size is not None and not step_size > 0:
        raise ArgumentError(f"{where}(step_size={step_size}): it must be above zero")
    if not 0 < target_acceptance < 1:
        raise ArgumentError(f"{where}(target_acceptance={target_acceptance}): it must lie between 0 and 1")
    if step_size is None and not burn_in:
        raise ArgumentError(
            f"{where}(burn_in=0): the step size is found in burn-in", remedy="give step_size or burn_in=1000"
        )
    x = checked_start(where, start, log_density)
    first = _FIRST_STEP if step_size is None else step_size
    moved, size, found = _run(
        kernel, log_density, x, key, jnp.asarray(first, x.dtype), jnp.asarray(target_acceptance, x.dtype),
        (draws, burn_in, thin), step_size is None, scale,
    )  # fmt: skip
    shape = x.shape[1:] if found.ndim == 1 else found.shape
    return result(moved, size, np.asarray(found).reshape(shape), warn=warn)


@eqx.filter_jit
def _run(
    kernel: AdaptiveKernel,
    log_density: LogDensity,
    x: Array,
    key: Key,
    step_size: Array,
    target: Array,
    lengths: tuple[int, int, int],
    steer: bool,
    scale: str,
) -> tuple[Moved, Array, Array]:
    draws, burn_in, thin = lengths
    size = math.prod(x.shape[1:])
    begin, walk = jax.random.split(key)
    found = jnp.eye(size, dtype=x.dtype) if scale == "full" else jnp.ones(size, x.dtype)
    steering = _steered_from(jnp.log(step_size))
    if burn_in:
        moments = _Moments(jnp.zeros((), x.dtype), jnp.zeros(size, x.dtype), jnp.zeros_like(found))

        def adapt(carry: tuple[Any, ...], now: tuple[Any, ...]) -> tuple[tuple[Any, ...], None]:
            x, steering, moments, found = carry
            key, counts, ends, settles = now
            moved = _all_moved(kernel, log_density, key, x, jnp.exp(steering.now), found)
            if steer:
                rules = (rule(steering, target, moved.acceptance.mean()) for rule in (_settled, _steered))
                steering = jax.tree.map(lambda a, b: jnp.where(settles, a, b), *rules)
            if scale != "none":
                flat = moved.state.reshape(len(x), size)
                moments = jax.tree.map(lambda a, b: jnp.where(counts, a, b), _seen(moments, flat), moments)
                found = jnp.where(ends & (moments.number > 1), _scale_of(moments), found)
                moments = jax.tree.map(lambda a: jnp.where(ends, jnp.zeros_like(a), a), moments)
            if steer:
                again = _steered_from(steering.mean)
                steering = jax.tree.map(lambda a, b: jnp.where(ends, a, b), again, steering)
            return (moved.state, steering, moments, found), None

        plan = map(jnp.asarray, _windows(burn_in))
        keys = jax.random.split(begin, burn_in)
        (x, steering, _, found), _ = jax.lax.scan(adapt, (x, steering, moments, found), (keys, *plan))
    final_size = jnp.exp(steering.mean) if steer else step_size

    def step(key: Key, x: Array) -> Moved:
        return _all_moved(kernel, log_density, key, x, final_size, found)

    _, moved = collect(step, x, walk, draws, thin)
    return moved, final_size, found


def _all_moved(
    kernel: AdaptiveKernel, log_density: LogDensity, key: Key, x: Array, step_size: Array, scale: Array
) -> Moved:
    """Every chain after one move."""

    def placed(x: Array, z: Array) -> Array:
        return x + (scale * z if scale.ndim == 1 else scale @ z).reshape(x.shape)

    def one(key: Key, x: Array) -> Moved:
        zero = jnp.zeros(scale.shape[-1], x.dtype)
        moved = kernel.move(key, zero, lambda z: log_density(placed(x, z)), step_size)
        return Moved(placed(x, moved.state), moved.acceptance, moved.diverged)

    return jax.vmap(one)(jax.random.split(key, len(x)), x)


def _steered_from(log_size: Array) -> _Steering:
    """Begin anew: first tries are larger than the size known so far, since too small ones cost more to notice."""
    zero = jnp.zeros_like(log_size)
    return _Steering(log_size, log_size, zero, log_size + math.log(10.0), zero)


def _steered(s: _Steering, target: Array, acceptance: Array) -> _Steering:
    time = s.time + 1
    part = 1 / (time + _OFFSET)
    error = (1 - part) * s.error + part * (target - acceptance)
    now = s.centre - jnp.sqrt(time) / _SHRINKAGE * error
    part = time**-_DECAY
    return _Steering(now, part * now + (1 - part) * s.mean, error, s.centre, time)


def _settled(s: _Steering, target: Array, acceptance: Array) -> _Steering:
    """A step in proportion to what the acceptance is off by, each shorter than the last, and the mean of them all."""
    time = s.time + 1
    now = s.now + time**-_FADING * (acceptance - target)
    return _Steering(now, s.mean + (now - s.mean) / time, s.error, s.centre, time)


def _seen(moments: _Moments, x: Array) -> _Moments:
    """With one more draw of every chain (Chan's rule for the union of two sets)."""
    count = moments.number + len(x)
    centred = x - x.mean(axis=0, keepdims=True)
    step = x.mean(axis=0) - moments.mean
    share = moments.number * len(x) / count
    if moments.squares.ndim == 2:
        more = centred.T @ centred + share * jnp.outer(step, step)
    else:
        more = jnp.square(centred).sum(axis=0) + share * jnp.square(step)
    return _Moments(count, moments.mean + step * len(x) / count, moments.squares + more)


def _scale_of(moments: _Moments) -> Array:
    """Deviations, or a Cholesky factor; drawn to a small multiple of one as if five draws had said so, as Stan does."""
    weight = moments.number / (moments.number + 5)
    covariance = moments.squares / jnp.maximum(moments.number - 1, 1) * weight
    if covariance.ndim == 2:
        return jnp.linalg.cholesky(
            covariance + 1e-3 * (1 - weight) * jnp.eye(len(covariance), dtype=covariance.dtype)
        )
    return jnp.sqrt(covariance + 1e-3 * (1 - weight))


def _windows(burn_in: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """When draws count for the scale, when a window ends (each twice the last), and when the step size settles."""
    counts, ends = np.zeros(burn_in, bool), np.zeros(burn_in, bool)
    first, last = burn_in // 10, burn_in - burn_in // 5
    settles = np.arange(burn_in) >= last
    if last - first < 20:  # too short to learn a scale from
        ends[last - 1] = True
        return counts, ends, settles
    counts[first:last] = True
    edges = [first + round((last - first) * share) for share in (1 / 15, 3 / 15, 7 / 15, 1)]
    ends[np.array(edges) - 1] = True
    return counts, ends, settles


__all__ = ["SCALES", "AdaptiveKernel", "adaptive"]
