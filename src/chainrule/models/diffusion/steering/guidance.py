"""Guidance: samples that heed their condition more strongly than the data do."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import pydantic
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.data import kinds
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.denoisers.guided import guided
from chainrule.models.diffusion.steering.classifier import by_classifier
from chainrule.models.diffusion.steering.draw import Draw, Steering
from chainrule.networks.conditions import class_numbers

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative

_WEIGHT = 2.0
"""For images, whose looks count more than their distribution; points and rows are drawn as their class has them."""


@final
class Guidance(Steering):
    """Resolves the condition, and leads towards it more strongly than the data do."""

    name: ClassVar[str] = "guidance"
    summary: ClassVar[str] = "Towards a condition, by the network itself or by a classifier."
    order: ClassVar[int] = 0

    guidance: float | None = Field(
        None,
        ge=0,
        description="weight: 0 ignores the condition, 1 heeds it as the data do; none: 2 for images, else 1",
    )
    negative: Any = Field(None, description="a condition to lead away from")
    interval: tuple[float, float] | None = Field(
        None, description="two values of lam; guidance is kept to noise levels between them"
    )
    rescale: float = Field(
        0.0, ge=0, le=1, description="share of the contrast that guidance adds to take back"
    )
    classifier: Any = Field(
        None,
        description="a run of a classifier, best a noisy-classifier, to lead by its gradient; or its model",
    )

    @pydantic.field_validator("interval", mode="before")
    @classmethod
    def _rising(cls, interval: Any) -> Any:
        given = np.asarray(interval)
        if given.shape != (2,) or given.dtype.kind not in "iuf" or not given[0] < given[1]:
            raise ValueError(f"interval={interval}: two values of lam, the lower one first")
        return float(given[0]), float(given[1])

    @property
    def shows_what(self) -> bool:
        """Whether a class is to be ignored, or that of a classifier is missing."""
        return self.guidance == 0 or self.classifier is not None

    def steer(self, draw: Draw) -> Draw:
        """The draw with its conditions, and its denoiser under guidance."""
        model, n = draw.model, draw.n
        if self.classifier is None:
            condition = None if draw.given is None else model.conditions(draw.given, n)
            return replace(draw, condition=condition, denoiser=self.guided(model, condition is not None))
        if draw.given is None:
            raise CapabilityError("a classifier leads towards a class", remedy="name one: class=")
        weight = 1.0 if self.guidance is None else self.guidance
        led = by_classifier(draw.denoiser, self.classifier, weight, model.schema)
        return replace(draw, condition=class_numbers(model.schema, draw.given, n), denoiser=led)

    def guided(self, model: "Generative", conditional: bool) -> Denoiser:
        """The denoiser of a model under guidance, for a draw with or without a condition."""
        dropped = model.config.condition_dropout
        if not conditional:
            if model.conditional and not dropped:
                raise CapabilityError(
                    "the model was trained with condition_dropout=0: it knows nothing of data without a condition",
                    remedy="name one (class=, text= or y=), or train with condition_dropout=0.1",
                )
            asked = {"guidance": self.guidance or None, "negative": self.negative, "interval": self.interval}
            for name, value in asked.items():
                if value is not None:
                    shown = f"{value:g}" if isinstance(value, float) else value
                    raise CapabilityError(
                        f"{name}={shown} leads towards a condition", remedy="name one: class=, text= or y="
                    )
            return model.denoiser
        if self.guidance not in (None, 1) and not dropped:
            raise CapabilityError(
                f"guidance={self.guidance:g}: the model was trained without dropping conditions",
                remedy="use guidance=1, or train with condition_dropout=0.1",
            )
        weight = self.guidance
        if weight is None:
            weight = usual_weight(model)
        away = None if self.negative is None else model.conditions(self.negative, 1)[0]
        return guided(model.denoiser, weight, interval=self.interval, negative=away, rescale=self.rescale)


def usual_weight(model: "Generative") -> float:
    """The weight of guidance where none is given."""
    return _WEIGHT if model.config.condition_dropout and kinds.of(model.schema).spatial else 1.0


__all__ = ["Guidance", "usual_weight"]
