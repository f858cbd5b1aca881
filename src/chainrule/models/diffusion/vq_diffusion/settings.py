"""Settings of diffusion of codes of a codebook."""

from typing import Any, Literal, final

import pydantic
from pydantic import Field

from chainrule.models.diffusion import stages
from chainrule.models.protocol import Config

USUAL = "vq-vae"
"""The first stage where none is named."""


@final
class VQDiffusionConfig(Config):
    """Settings of diffusion of codes of a codebook."""

    body: dict[str, Any] = Field(
        default_factory=lambda: {"name": USUAL},
        description="the first stage: body.name=vq-vae and its settings, e.g. body.codes=128; from=RUN takes that of "
        "the run",
    )
    frozen: bool = Field(
        False, description="the first stage stays as it is: what from=RUN chooses; otherwise both learn"
    )
    example_shape: tuple[int, ...] | None = Field(
        None,
        description="shape of the examples that the first stage knows; none: that of the data. from=RUN sets it",
    )
    kernel: Literal["absorbing", "uniform"] = Field(
        "absorbing", description="what codes are replaced by: a mark that hides them, or any other code"
    )
    timesteps: int = Field(100, ge=1, le=10_000, description="steps of the chain whose bound is trained")
    cross_entropy: float = Field(
        0.01, ge=0, description="weight of the cross-entropy of all clean codes, beside the bound"
    )
    width: int = Field(64, ge=4, description="numbers that stand for a code in the transformer")
    depth: int = Field(3, ge=1, le=100, description="blocks of the transformer")
    conditional: bool = Field(
        True, description="learn the targets (classes, values), where the data have them"
    )
    condition_dropout: float = Field(
        0.1, ge=0, lt=1, description="share of examples trained without their target, as guidance needs it"
    )

    @pydantic.field_validator("body", mode="before")
    @classmethod
    def _named(cls, body: Any) -> Any:
        """Settings of a first stage without a name are those of the usual one."""
        return stages.named(body, USUAL)


__all__ = ["USUAL", "VQDiffusionConfig"]
