"""Denoisers with parameters, which may be conditioned; and the one that is a network."""

import abc
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level
from chainrule.networks.conditioning import ConditionedNetwork
from chainrule.networks.conditions import ConditionEncoder


class LearnedDenoiser(Denoiser):
    """A denoiser with arrays."""

    @property
    @abc.abstractmethod
    def condition_encoder(self) -> ConditionEncoder | None:
        """The encoder of its conditions, if it takes any."""

    def null(self, condition: Any) -> Array:
        """Conditions that say nothing, as many as are given."""
        encoder = self.condition_encoder
        return jnp.asarray(condition) if encoder is None else encoder.null(len(condition))

    def attention_maps(
        self, x: Float[Array, "batch ..."], level: Level, condition: Any
    ) -> Sequence[Float[Array, "batch rows columns heads tokens"]]:
        """Default: nothing, for a denoiser without attention to the tokens of a condition; see `ConditionedNetwork`."""
        del x, level, condition
        return ()


@final
class NetworkDenoiser(LearnedDenoiser):
    """A network that is given noisy data, lam and the condition, and predicts `target`."""

    body: ConditionedNetwork
    target: str = eqx.field(static=True)

    def __init__(self, body: ConditionedNetwork, target: str) -> None:
        self.body, self.target = body, target

    @property
    def condition_encoder(self) -> ConditionEncoder | None:
        return self.body.embedding.condition

    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        return self.body(x, level.lam, condition)

    def attention_maps(self, x: Float[Array, "batch ..."], level: Level, condition: Any) -> Sequence[Array]:
        return self.body.attention_maps(x, level.lam, condition)


__all__ = ["LearnedDenoiser", "NetworkDenoiser"]
