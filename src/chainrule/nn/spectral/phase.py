"""Phases for magnitudes without: the algorithm of Griffin and Lim, 1984, with momentum (Perraudin et al., 2013)."""

import jax
import jax.numpy as jnp
from jaxtyping import Complex

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.nn.spectral.transform import STFT


def griffin_lim(
    transform: STFT,
    magnitude: Float[Array, "*leading bins frames"],
    samples: int,
    *,
    key: Key,
    steps: int = 60,
    momentum: float = 0.99,
) -> Float[Array, "*leading samples"]:
    """A signal whose spectrum has about these magnitudes.

    Phases begin at random; in turn the signal of the spectrum is taken, and its phases with the magnitudes asked for.
    Without `momentum` the distance between the two never grows.
    """
    steps = whole("griffin_lim", "steps", steps)
    if not 0 <= momentum < 1:
        raise ArgumentError(f"griffin_lim(momentum={momentum}): momentum must be at least 0 and below 1")
    turn = jax.random.uniform(key, magnitude.shape, magnitude.dtype, 0, 2 * jnp.pi)
    phase = jnp.exp(1j * turn)

    def step(
        carry: tuple[Complex[Array, "..."], Complex[Array, "..."]], _: None
    ) -> tuple[tuple[Array, Array], None]:
        phase, before = carry
        found = transform(transform.inverse(magnitude * phase, samples))
        return (_unit(found + momentum * (found - before)), found), None

    carry = (phase, magnitude * phase)
    (phase, _), _ = jax.lax.scan(step, carry, None, length=steps)
    return transform.inverse(magnitude * phase, samples)


def _unit(spectrum: Complex[Array, "*axes"]) -> Complex[Array, "*axes"]:
    """Numbers of length one in the same directions; one for zero."""
    size = jnp.abs(spectrum)
    return jnp.where(size > 0, spectrum / jnp.where(size > 0, size, 1), 1)


__all__ = ["griffin_lim"]
