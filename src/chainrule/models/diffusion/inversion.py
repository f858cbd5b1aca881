"""Codes of examples: a deterministic sampler walked upwards, and the way back; and paths between codes."""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.base import Sampler, walk

_X = Float[Array, "batch ..."]


def encode(denoiser: Denoiser, x: _X, levels: Level, sampler: Sampler, condition: Any = None) -> _X:
    """The noise that a deterministic sampler would turn into `x`; `levels` are those of the sampler, noisiest first.

    The last level must have noise: the example is taken as it is there. The error falls with the number of levels.
    """
    _need_deterministic(sampler)
    upwards = levels.at(slice(None, None, -1))
    return walk(denoiser, x, upwards, sampler, jax.random.key(0), condition=condition).samples


def decode(denoiser: Denoiser, z: _X, levels: Level, sampler: Sampler, condition: Any = None) -> _X:
    """The example of a code."""
    _need_deterministic(sampler)
    return walk(denoiser, z, levels, sampler, jax.random.key(0), condition=condition).samples


def _need_deterministic(sampler: Sampler) -> None:
    if not sampler.deterministic:
        raise CapabilityError(
            f"{sampler} adds noise in every step, so its way cannot be walked back",
            remedy="use eta=0, mu=0 or noise=0, or a deterministic sampler",
        )


def between(one: Float[Array, "..."], other: Float[Array, "..."], count: int) -> Float[Array, "count ..."]:
    """Codes on the great circle between two codes; on the straight line they would lose length, as no code does.

    >>> path = between(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), 3)
    >>> bool(jnp.allclose(path[1], 0.5**0.5))
    True
    """
    cosine = (one * other).sum() / jnp.sqrt(jnp.square(one).sum() * jnp.square(other).sum())
    angle = jnp.arccos(jnp.clip(cosine, -1, 1))
    share = jnp.linspace(0, 1, count, dtype=one.dtype).reshape(-1, *(1,) * one.ndim)
    sine = jnp.sin(angle)
    straight = jnp.abs(sine) < 1e-6
    safe = jnp.where(straight, 1.0, sine)
    left = jnp.where(straight, 1 - share, jnp.sin((1 - share) * angle) / safe)
    right = jnp.where(straight, share, jnp.sin(share * angle) / safe)
    return left * one[None] + right * other[None]


__all__ = ["between", "decode", "encode"]
