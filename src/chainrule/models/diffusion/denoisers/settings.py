"""Settings that all models with a denoiser share."""

from pydantic import Field

from chainrule.models.diffusion.denoisers.selection import Name
from chainrule.models.protocol import Config


class DenoiserConfig(Config):
    """Which network denoises, how large it is, and what it is conditioned on."""

    denoiser: Name = Field(
        "auto", description="network; auto takes dense layers except for images of more than 256 entries"
    )
    width: int | None = Field(
        None, ge=1, description="units or channels of a layer; none: 256 (mlp), 32 or 64 (unet), 192 (dit)"
    )
    depth: int | None = Field(
        None, ge=1, le=100, description="blocks, of each resolution in a unet; none: 3 (mlp), 1 or 2, 6 (dit)"
    )
    pad: bool = Field(False, description="unet: pad images whose sides cannot be halved often enough")
    conditional: bool = Field(
        True, description="learn the targets (classes, values, captions), where the data have them"
    )
    condition_dropout: float = Field(
        0.1, ge=0, lt=1, description="share of examples trained without their target, as guidance needs it"
    )


__all__ = ["DenoiserConfig"]
