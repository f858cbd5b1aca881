"""Codes shifted and scaled to mean 0 and deviation 1, entry by entry or channel by channel of maps, and back."""

from typing import Self, final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar

_LEAST = 1e-3
"""Deviation that an entry has at least, over the largest: one that says nothing is not made to say something."""
_DECAY = 0.99
"""Of running moments, from step to step."""

_Codes = Float[Array, "batch size"]


@final
class UnitCodes(eqx.Module):
    """Mean and variance of every entry of the codes of a first stage.

    >>> unit = UnitCodes.of(jnp.array([[1.0, 10.0], [3.0, 30.0]]))
    >>> unit.scaled(jnp.array([[3.0, 20.0]])).tolist()
    [[1.0, 0.0]]
    """

    mean: Float[Array, " size"]
    variance: Float[Array, " size"]
    channels: int | None = eqx.field(static=True, default=None)
    """Codes that are maps: entries of a cell; the cells of a map have the same moments. None: every entry its own."""

    @classmethod
    def of(cls, codes: _Codes, channels: int | None = None) -> Self:
        """Those of some codes."""
        size = codes.shape[1]
        rows = codes.reshape(-1, channels or size)
        mean, variance = (
            jnp.tile(found, size // len(found)) for found in (rows.mean(axis=0), rows.var(axis=0))
        )
        return cls(mean, variance, channels)

    @property
    def deviation(self) -> Float[Array, " size"]:
        """What an entry is divided by."""
        found = jnp.sqrt(self.variance)
        return jnp.maximum(found, jnp.maximum(_LEAST * found.max(), jnp.finfo(found.dtype).tiny))

    @property
    def log_volume(self) -> Scalar:
        """By this a log-density of scaled codes is larger than that of the codes themselves."""
        return jnp.log(self.deviation).sum()

    def scaled(self, codes: _Codes) -> _Codes:
        """Codes as diffusion sees them."""
        return (codes - self.mean[None]) / self.deviation[None]

    def unscaled(self, codes: _Codes) -> _Codes:
        """The inverse of `scaled`."""
        return self.mean[None] + self.deviation[None] * codes

    def moved(self, codes: _Codes) -> "UnitCodes":
        """Moved a little towards the moments of these codes."""
        fresh = UnitCodes.of(codes, self.channels)
        spread = fresh.variance + (1 - _DECAY) * jnp.square(fresh.mean - self.mean)
        mean, variance = (
            _DECAY * old + (1 - _DECAY) * new
            for old, new in ((self.mean, fresh.mean), (self.variance, spread))
        )
        return UnitCodes(mean, variance, self.channels)


__all__ = ["UnitCodes"]
