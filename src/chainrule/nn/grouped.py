"""Group normalisation, scale, shift and activation in one go, in native code on a CPU.

XLA goes through the data a dozen times for a normalised, modulated and activated map and its gradient, several times in
strides of a few channels: a third of the time of a training step of a U-Net. The programs of
`chainrule.nn.native.group_norm` read an example once, forward and backward, and nothing but its input is kept.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array
from chainrule.nn.native import availability
from chainrule.nn.native import group_norm as programs
from chainrule.nn.native.group_norm import GroupNormShape
from chainrule.nn.native.operations import operation


def fast(x: Array, groups: int) -> bool:
    """Whether there are programs for maps (batch, positions, channels) of these numbers on this machine."""
    registers = availability.registers() if jax.default_backend() == "cpu" else None
    return (
        registers is not None
        and x.size > 0
        and x.dtype == jnp.float32
        and programs.fits(_given(x, groups, 0.0, False), registers)
    )


def normalised(x: Array, scale: Array, shift: Array, *, groups: int, eps: float, silu: bool) -> Array:
    """`unit scale + shift`, and its SiLU if asked for, where `unit` has mean 0 and variance 1 in every group.

    `x` is (batch, positions, channels), `scale` and `shift` are (batch, channels). A program reads numbers of one type,
    that of `x`, and would take others for what they are not.
    """
    scale, shift = scale.astype(x.dtype), shift.astype(x.dtype)
    return _normalised(x, scale, shift, groups=groups, eps=eps, silu=silu)


def _given(x: Array, groups: int, eps: float, silu: bool) -> GroupNormShape:
    batch, positions, channels = x.shape
    return GroupNormShape(batch, positions, channels, groups, eps, silu)


def _formula(x: Array, scale: Array, shift: Array, *, groups: int, eps: float, silu: bool) -> Array:
    parts = x.reshape(*x.shape[:2], groups, -1)
    mean = parts.mean((1, 3), keepdims=True)
    var = jnp.square(parts - mean).mean((1, 3), keepdims=True)
    unit = ((parts - mean) * jax.lax.rsqrt(var + eps)).reshape(x.shape)
    out = unit * scale[:, None] + shift[:, None]
    return jax.nn.silu(out) if silu else out


def _level(x: Any, scale: Any, shift: Any, **how: Any) -> tuple[int, ...]:
    """Mean and inverse deviation, at every channel those of its group."""
    del scale, shift, how
    return x.shape[0], 2, x.shape[2]


_normalised = operation(
    "group_normalisation",
    _formula,
    _level,
    lambda x, *others, **how: _given(x, **how),
    (programs.normalisation, programs.gradients),
    ("groups", "eps", "silu"),
)

__all__ = ["fast", "normalised"]
