"""How well a source was separated: the scale-invariant signal-to-distortion ratio (Le Roux et al., 2019).

`10 log10(|a s|² / |a s - e|²)` with `a = <e, s> / |s|²`: what part of the estimate e lies along the source s. Where one
of the two is silent there is no such number, and a policy says what stands there: `si_sdr` has infinities and NaN,
`si_sdr_bounded` a floor of energy, so that it can be averaged and differentiated.
"""

import itertools

import jax
import jax.numpy as jnp

from chainrule.core.checks import check_same_shape
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int

_MOST = 7
"""Sources whose orders are all tried: 5,040 of them."""


def si_sdr(
    estimate: Float[Array, "*leading samples"], reference: Float[Array, "*leading samples"]
) -> Float[Array, "*leading"]:
    """The ratio in decibels, exactly as defined.

    A perfect estimate has infinity, a silent one minus infinity, and where the source itself is silent there is no such
    ratio: NaN.

    >>> s, noise = jnp.array([1.0, 1.0, 1.0, 1.0]), jnp.array([1.0, -1.0, 1.0, -1.0])
    >>> round(float(si_sdr(3 * (s + jnp.sqrt(0.1) * noise), s)), 4)
    10.0
    """
    _check("si_sdr", estimate, reference)
    energy = jnp.sum(jnp.square(reference), axis=-1, keepdims=True)
    share = jnp.sum(estimate * reference, axis=-1, keepdims=True) / energy
    target = share * reference
    signal, noise = (jnp.sum(jnp.square(part), axis=-1) for part in (target, target - estimate))
    found = 10 * jnp.log10(signal / noise)
    silent = jnp.sum(jnp.square(estimate), axis=-1) == 0
    return jnp.where(energy[..., 0] == 0, jnp.nan, jnp.where(silent, -jnp.inf, found))


def si_sdr_bounded(
    estimate: Float[Array, "*leading samples"],
    reference: Float[Array, "*leading samples"],
    *,
    limit: float = 60.0,
) -> Float[Array, "*leading"]:
    """The ratio between `-limit` and `limit` decibels, with a derivative everywhere; 0 where the source is silent.

    Both energies have `10^(-limit/10)` of their sum added, so that ratios well within the limits hardly change.

    >>> float(si_sdr_bounded(jnp.ones(4), jnp.zeros(4))), round(float(si_sdr_bounded(jnp.ones(4), jnp.ones(4))), 1)
    (0.0, 60.0)
    """
    _check("si_sdr_bounded", estimate, reference)
    if limit <= 0:
        raise ArgumentError(f"si_sdr_bounded(limit={limit}): limit must be above 0 dB", remedy="use limit=60")
    energy = jnp.sum(jnp.square(reference), axis=-1, keepdims=True)
    there = energy > 0
    share = jnp.sum(estimate * reference, axis=-1, keepdims=True) / jnp.where(there, energy, 1)
    target = share * reference
    signal, noise = (jnp.sum(jnp.square(part), axis=-1) for part in (target, target - estimate))
    whole = signal + noise
    floor = 10 ** (-limit / 10) * jnp.where(whole > 0, whole, 1)
    ratio = 10 / jnp.log(10.0) * (jnp.log(signal + floor) - jnp.log(noise + floor))
    lowest = jnp.where(whole > 0, ratio, -limit)
    return jnp.where(there[..., 0], lowest, 0.0)


def _check(where: str, estimate: Array, reference: Array) -> None:
    check_same_shape(where, "estimate", estimate, "reference", reference)
    if not reference.ndim:
        raise ArgumentError(f"{where}: a single number is no signal", remedy="samples lie on the last axis")


def best_order(
    scores: Float[Array, "*leading estimates references"],
) -> tuple[Float[Array, "*leading"], Int[Array, "*leading references"]]:
    """The best mean score over all ways of giving estimates to sources, and for each source its estimate.

    `scores` are the higher the better; for losses give their negatives.

    >>> value, order = best_order(jnp.array([[0.0, 3.0], [5.0, 1.0]]))
    >>> float(value), order.tolist()
    (4.0, [1, 0])
    """
    count = scores.shape[-1]
    if scores.ndim < 2 or scores.shape[-2] != count or not 1 <= count <= _MOST:
        raise ArgumentError(
            f"best_order: scores of shape {scores.shape} do not pair up to {_MOST} estimates with as many sources",
            remedy="the last two axes are (estimates, sources)",
        )
    orders = jnp.array(list(itertools.permutations(range(count))))
    means = jnp.stack(
        [
            sum((scores[..., one, source] for source, one in enumerate(order)), jnp.zeros(scores.shape[:-2]))
            / count
            for order in itertools.permutations(range(count))
        ],
        axis=-1,
    )
    best = jax.lax.stop_gradient(means).argmax(axis=-1)
    return jnp.take_along_axis(means, best[..., None], axis=-1)[..., 0], orders[best]


__all__ = ["best_order", "si_sdr", "si_sdr_bounded"]
