"""Noise between the levels of an image, drawn by a flow that sees the image (Ho et al., Flow++, ICML 2019)."""

from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import LogDets
from chainrule.networks.flows.elementwise import over_event
from chainrule.networks.flows.image_couplings import ResidualConvolutions, checkerboard
from chainrule.probability.distributions.normal import log_density

_BOUND = 3.0
"""Logarithms of scales stay below it."""


class Dequantized(NamedTuple):
    """Examples with noise, in the units of the model, and the log-density of the noise in gaps between two levels."""

    value: Float[Array, "batch height width channels"]
    log_q: LogDets


@final
class LevelNoise(eqx.Module):
    """`u = sigmoid(T(e; v))` with normal noise e and couplings T of a checkerboard that see the example v.

    >>> noise = LevelNoise((4, 4, 1), 16, width=4, couplings=2, key=jax.random.key(0))
    >>> drawn = noise(jnp.zeros((2, 4, 4, 1)), jax.random.key(1))
    >>> bool((jnp.abs(drawn.value) < 0.5 / 15).all())
    True
    """

    networks: tuple[ResidualConvolutions, ...]
    masks: tuple[Bool[Array, "height width channels"], ...]
    levels: int = eqx.field(static=True)

    def __init__(
        self, shape: tuple[int, ...], levels: int, *, width: int, couplings: int = 4, key: Key
    ) -> None:
        self.levels = levels
        channels = shape[-1]
        self.networks = tuple(
            ResidualConvolutions(2 * channels, channels, width, 1, key=k)
            for k in jax.random.split(key, couplings)
        )
        self.masks = tuple(checkerboard(shape, odd=turn % 2 == 1) for turn in range(couplings))

    def __call__(self, x: Float[Array, "batch height width channels"], key: Key) -> Dequantized:
        e = jax.random.normal(key, x.shape, x.dtype)
        log_q = over_event(log_density(e, 0.0, 1.0))
        for network, board in zip(self.networks, self.masks, strict=True):
            mask = board[None]
            seen = jnp.concatenate([jnp.where(mask, e, 0), 2 * x - 1], axis=-1)
            raw, shift = jnp.split(network(seen, None).astype(x.dtype), 2, axis=-1)
            log_scale = jnp.where(mask, 0, _BOUND * jnp.tanh(raw / _BOUND))
            e = e * jnp.exp(log_scale) + jnp.where(mask, 0, shift)
            log_q = log_q - over_event(log_scale)
        log_q = log_q - over_event(jax.nn.log_sigmoid(e) + jax.nn.log_sigmoid(-e))
        return Dequantized(x + (jax.nn.sigmoid(e) - 0.5) / (self.levels - 1), log_q)


__all__ = ["Dequantized", "LevelNoise"]
