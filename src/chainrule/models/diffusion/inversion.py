"""DDIM inversion: the noise behind examples, by a deterministic sampler walked upwards, and the way back."""

from typing import Any

import jax

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.sampler import Sampler, walk

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


__all__ = ["decode", "encode"]
