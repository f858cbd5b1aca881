"""Restoration: images whose smaller or blurred version is known (super-resolution, deblurring).

What is known is `y = A x` with a matrix A that averages blocks of pixels or blurs them; the estimate of the clean image
is moved towards agreement as in inpainting by the posterior.
"""

import dataclasses
from typing import Any, ClassVar, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import kinds
from chainrule.data.example_files import one_image
from chainrule.models.diffusion.steering.draw import Draw, Steering
from chainrule.models.diffusion.steering.inpainting import LARGE, PosteriorDenoiser, blurring, downsampling


@final
class Restoration(Steering):
    """Images that agree with a smaller or a blurred version of them."""

    name: ClassVar[str] = "restoration"
    summary: ClassVar[str] = "Super-resolution and deblurring."
    order: ClassVar[int] = 4

    upscale: Any = Field(
        None,
        description="super-resolution: a smaller image whose sides divide those of the data (PNG, JPEG, an NPZ file "
        "with an array samples, or an array in the units of the model); samples average to it",
    )
    deblur: Any = Field(
        None, description="deblurring: a blurred image, given likewise; samples blurred by blur agree with it"
    )
    blur: float = Field(1.0, gt=0, description="standard deviation of the blur in pixels")
    observed_noise: float = Field(
        0.02, gt=0, description="standard deviation of the noise in what is given, black to white being 1"
    )

    @property
    def shows_what(self) -> bool:
        """Whether an image is given."""
        return self.upscale is not None or self.deblur is not None

    def steer(self, draw: Draw) -> Draw:
        """The draw with a denoiser that has seen the smaller or blurred image."""
        if self.upscale is None and self.deblur is None:
            return draw
        if self.upscale is not None and self.deblur is not None:
            raise ArgumentError("upscale and deblur: one image is known", remedy="give one of them")
        model = draw.model
        shape, entries = model.schema.shape, model.schema.dimensions
        if not kinds.of(model.schema).spatial:
            raise CapabilityError(f"upscale, deblur: of images; these are {model.schema.kind} data")
        if entries > LARGE:
            raise CapabilityError(
                f"upscale, deblur: {shape} images have {entries} entries; up to {LARGE} can be restored"
            )
        if self.deblur is not None:
            seen, matrix = one_image("deblur", self.deblur, model.schema), blurring(shape, self.blur)
        else:
            seen = one_image("upscale", self.upscale, model.schema)
            factor = shape[0] // seen.shape[0] if seen.shape[0] else 0
            if factor < 2 or seen.shape != (*(side // factor for side in shape[:2]), shape[2]):
                raise ArgumentError(
                    f"upscale: an image of shape {seen.shape}; the data have shape {shape}",
                    remedy="its sides have to be a half, a third, ... of those",
                )
            matrix = downsampling(shape, factor)
        if len(matrix) != seen.size:
            raise ArgumentError(
                f"deblur: an image of shape {seen.shape}; the data have shape {shape}",
                remedy="bring it to that height and width",
            )
        y = model.to_network_units(jnp.asarray(seen.ravel(), jnp.float32))
        noise = self.observed_noise * (2 if model.unit else 1)
        informed = PosteriorDenoiser(draw.denoiser, matrix.astype(np.float32), y, noise)
        return dataclasses.replace(draw, denoiser=informed)


__all__ = ["Restoration"]
