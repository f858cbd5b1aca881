"""The interface of denoisers, between networks, samplers, bounds and losses.

A denoiser predicts one of the targets from noisy data, a noise level and perhaps a condition; all the others follow by
exact conversion. Samplers and bounds know nothing else of it.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.targets import convert
from chainrule.networks.conditions import ClassEncoder, ConditionEncoder


class DenoiserEstimate(NamedTuple):
    """What a denoiser says about noisy data: the clean data and the noise, as conditional means."""

    x0: Array
    eps: Array
    share: Array | None = None
    """Where the variance of a step back lies between the least and the most it can be, if the denoiser knows."""


class Denoiser(eqx.Module):
    """Predicts `target` (x0, eps, score, v or u) from noisy data, example by example."""

    target: eqx.AbstractVar[str]

    @abc.abstractmethod
    def predict(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array:
        """The prediction of `target`; `level` is one for all examples or one for each. No condition: all data."""

    @property
    def condition_encoder(self) -> ConditionEncoder | None:
        """Default: conditions are not encoded."""
        return None

    @property
    def classes(self) -> int:
        """How many classes its conditions are; 0 for a denoiser without conditions or with others."""
        encoder = self.condition_encoder
        return encoder.none if isinstance(encoder, ClassEncoder) else 0

    def null(self, condition: Any) -> Any:
        """Default: a condition that stands for no condition is unknown."""
        del condition
        raise CapabilityError(
            f"{type(self).__name__} has no null condition, so both evaluations of guidance cannot share a batch",
            remedy="give a second, unconditional denoiser",
        )

    def share(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> Array | None:
        """Default: nothing is known of the variance of a step back."""
        del x, level, condition
        return None

    def value(
        self, target: str, x: Float[Array, "batch ..."], level: Level, condition: Any = None
    ) -> Float[Array, "batch ..."]:
        """The prediction as any target."""
        return convert(self.predict(x, level, condition), self.target, target, x, level)

    def estimate(self, x: Float[Array, "batch ..."], level: Level, condition: Any = None) -> DenoiserEstimate:
        """Clean data and noise from one prediction."""
        raw = self.predict(x, level, condition)
        x0, eps = (convert(raw, self.target, target, x, level) for target in ("x0", "eps"))
        return DenoiserEstimate(x0, eps, self.share(x, level, condition))


__all__ = ["Denoiser", "DenoiserEstimate"]
