"""Learned variance of the reverse step (Nichol and Dhariwal, 2021).

Given x, a step to a cleaner level has the variance `small` if the clean data are known and up to `large` if nothing is.
Between them, on a logarithmic scale, lies the variance that suits what is left unknown; a second network says where,
entry by entry. It is trained on the divergence of the step, in which the error of the estimate counts as given.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser
from chainrule.models.diffusion.process import Level, per_example
from chainrule.networks.conditions import ConditionEncoder

_X = Float[Array, "batch ..."]


@final
class WithVariance(LearnedDenoiser):
    """A network, and beside it one that says what share of the way from `small` to `large` a step's variance takes."""

    inner: LearnedDenoiser
    beside: LearnedDenoiser
    target: str = eqx.field(static=True)

    def __init__(self, inner: LearnedDenoiser, beside: LearnedDenoiser) -> None:
        self.inner, self.beside = inner, beside
        self.target = inner.target

    @property
    def condition_encoder(self) -> ConditionEncoder | None:
        return self.inner.condition_encoder

    def attention_maps(self, x: _X, level: Level, condition: Any) -> Sequence[Array]:
        return self.inner.attention_maps(x, level, condition)

    def predict(self, x: _X, level: Level, condition: Any = None) -> Array:
        return self.inner.predict(x, level, condition)

    def share(self, x: _X, level: Level, condition: Any = None) -> _X:
        """Between 0 (`small`) and 1 (`large`); half of the way before training."""
        return jax.nn.sigmoid(self.beside.predict(x, level, condition))


def divergence(error: _X, share: _X, here: Level, there: Level) -> Float[Array, " batch"]:
    """Mean divergence of an entry of the exact step from the modelled one, in nats.

    `error` is that of the estimate of the clean data. In terms of the logarithm g of the modelled over the exact
    variance it is ½ (g + exp(-g) (1 + (SNR' - SNR) error²) - 1), least where the variance is the mean square of what
    is left unknown.
    """
    grown = share * per_example(2 * (jnp.log(here.s) - jnp.log(there.s)), share)
    gain = per_example(here.snr * jnp.expm1(there.lam - here.lam), error)
    each = grown + jnp.exp(-grown) * (1 + gain * jnp.square(error)) - 1
    return 0.5 * each.reshape(len(error), -1).mean(axis=1)


__all__ = ["WithVariance", "divergence"]
