"""Settings of tuning what was learnt before: adapters beside it, an anchor that holds it, a teacher that knows it."""

from typing import Literal, final

import pydantic
from pydantic import Field

from chainrule.core.settings import FiniteSettings


class FrozenSettings(FiniteSettings):
    """Common behaviour: frozen, no unknown names, defaults checked like given values."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", validate_default=True)


@final
class Adapters(FrozenSettings):
    """Low-rank adapters (LoRA): the weights a run begins with stay as they are, a thin product learns beside each."""

    rank: int = Field(
        0, ge=0, le=4096, description="rank of what is learned beside every weight; 8 is usual; 0: off"
    )
    alpha: float | None = Field(
        None, gt=0, description="what is learned counts alpha / rank times; unless given, twice"
    )
    layers: tuple[str, ...] = Field(
        (),
        description="layers that get an adapter, by name or pattern: dense, recurrent and convolution layers, all "
        "unless told; e.g. lora.layers=*.attention",
    )
    whole: tuple[str, ...] = Field(
        (),
        description="layers that learn as a whole instead, by name or pattern, such as a new head; those of fresh= do",
    )


@final
class Anchor(FrozenSettings):
    """A penalty that holds parameters where they began: `strength/2 Σ w (θ - θ₀)²`; fresh layers are free."""

    strength: float = Field(0.0, ge=0, description="how strongly; 0: off")
    by: Literal["distance", "fisher"] = Field(
        "distance",
        description="all parameters alike, or each by how much the answers of the run it began with depend on it, on "
        "that run's data (elastic weight consolidation)",
    )


@final
class Distillation(FrozenSettings):
    """A teacher: its softened probabilities are learned beside the targets."""

    teacher: str = Field("", description="the run whose answers are learned; classes are those of the data")
    temperature: float = Field(4.0, gt=0, description="what logits of both are divided by")
    weight: float = Field(
        0.9, ge=0, le=1, description="share of the teacher in the loss; the rest are targets"
    )


__all__ = ["Adapters", "Anchor", "Distillation", "FrozenSettings"]
