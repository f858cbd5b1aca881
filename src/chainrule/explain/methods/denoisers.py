"""Which diffusion models a probe applies to."""

from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasDenoiser, Model


def is_class_diffusion(model: Model, schema: Schema) -> bool:
    """Whether the model denoises its way to new examples of a class."""
    del schema
    return isinstance(model, HasDenoiser) and model.classes > 0


def is_image_diffusion(model: Model, schema: Schema) -> bool:
    """Whether it denoises its way to images that can be shown."""
    return isinstance(model, HasDenoiser) and kinds.of(schema).shows_pixels(schema)


__all__ = ["is_class_diffusion", "is_image_diffusion"]
