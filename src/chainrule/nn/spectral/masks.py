"""Masks: what share of a mixture's spectrum belongs to each of its sources, by rules that know the sources.

They are the ceilings that learned masks are compared with. A mask multiplies the complex spectrum of the mixture, never
an angle. Sources lie on the axis before (bins, frames).
"""

import jax.numpy as jnp
from jaxtyping import Complex, Inexact

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float


def ideal_binary_mask(
    sources: Inexact[Array, "*leading sources bins frames"],
) -> Float[Array, "*leading sources bins frames"]:
    """One for the source with the largest magnitude at each point, the first among equals, and zero for the others.

    >>> ideal_binary_mask(jnp.array([[[3.0]], [[1.0]]])).ravel().tolist()
    [1.0, 0.0]
    """
    _check("ideal_binary_mask", sources)
    size = jnp.abs(sources)
    largest = size.argmax(axis=-3, keepdims=True)
    numbers = jnp.arange(sources.shape[-3]).reshape(-1, 1, 1)
    return (jnp.broadcast_to(numbers, sources.shape) == jnp.broadcast_to(largest, sources.shape)).astype(
        size.dtype
    )


def ideal_ratio_mask(
    sources: Inexact[Array, "*leading sources bins frames"], exponent: float = 2.0
) -> Float[Array, "*leading sources bins frames"]:
    """`|S|^p / Σ |S|^p`: shares of amplitude for an exponent p of 1, of power for 2; equal where all are silent.

    >>> [round(float(share), 2) for share in ideal_ratio_mask(jnp.array([[[3.0]], [[1.0]]]), 2).ravel()]
    [0.9, 0.1]
    """
    _check("ideal_ratio_mask", sources)
    if exponent <= 0:
        raise ArgumentError(
            f"ideal_ratio_mask(exponent={exponent}): exponent must be above 0", remedy="use 1 or 2"
        )
    size = jnp.abs(sources)
    largest = size.max(axis=-3, keepdims=True)
    # Relative to the largest, so that no power of small numbers is lost.
    shares = (size / jnp.where(largest > 0, largest, 1)) ** exponent
    total = shares.sum(axis=-3, keepdims=True)
    return jnp.where(total > 0, shares / jnp.where(total > 0, total, 1), 1 / sources.shape[-3])


def ideal_complex_mask(
    sources: Complex[Array, "*leading sources bins frames"], mixture: Complex[Array, "*leading bins frames"]
) -> Complex[Array, "*leading sources bins frames"]:
    """`S / Y`, which restores every source; zero where the mixture is."""
    _check("ideal_complex_mask", sources, mixture)
    whole = jnp.expand_dims(mixture, -3)
    there = jnp.abs(whole) > 0
    return jnp.where(there, sources / jnp.where(there, whole, 1), 0)


def apply_mask(
    mask: Inexact[Array, "*leading sources bins frames"], mixture: Complex[Array, "*leading bins frames"]
) -> Complex[Array, "*leading sources bins frames"]:
    """The spectrum of each source: the mask times the complex spectrum of the mixture."""
    _check("apply_mask", mask, mixture)
    return mask * jnp.expand_dims(mixture, -3)


def _check(where: str, sources: Array, mixture: Array | None = None) -> None:
    """Raise unless the axis of the sources is there, and they have the bins and frames of the mixture."""
    if sources.ndim < 3 or (
        mixture is not None and (mixture.ndim < 2 or mixture.shape[-2:] != sources.shape[-2:])
    ):
        beside = "" if mixture is None else f" beside a mixture of shape {mixture.shape}"
        raise ArgumentError(
            f"{where}: an array of shape {sources.shape}{beside}",
            remedy="give (..., sources, bins, frames)" + (" and (..., bins, frames)" if beside else ""),
        )


__all__ = ["apply_mask", "ideal_binary_mask", "ideal_complex_mask", "ideal_ratio_mask"]
