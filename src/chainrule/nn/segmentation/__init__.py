"""A class for each pixel of an image: losses, agreement of masks, and refinement by conditional random fields."""

from chainrule.nn.segmentation.agreement import MaskAgreement, agreement, boundary, tolerance
from chainrule.nn.segmentation.crf import (
    DENSE,
    Potentials,
    crf,
    dense_kernel,
    free_energy,
    kernel,
    mean_field,
    superpixel_crf,
    unary,
)
from chainrule.nn.segmentation.losses import border_weights, dice_loss, objects, pixel_cross_entropy

__all__ = [
    "DENSE",
    "MaskAgreement",
    "Potentials",
    "agreement",
    "border_weights",
    "boundary",
    "crf",
    "dense_kernel",
    "dice_loss",
    "free_energy",
    "kernel",
    "mean_field",
    "objects",
    "pixel_cross_entropy",
    "superpixel_crf",
    "tolerance",
    "unary",
]
