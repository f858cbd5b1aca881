"""Control of a trained U-Net by pictures: branches beside it that learn while it stays as it is."""

from chainrule.models.diffusion.control.adapter import Adapted, Adapter
from chainrule.models.diffusion.control.branch import Controlled
from chainrule.models.diffusion.control.edges import edges
from chainrule.models.diffusion.control.extractors import depth, mask
from chainrule.models.diffusion.control.model import ControlModel, adapter_model, control_model

__all__ = [
    "Adapted",
    "Adapter",
    "ControlModel",
    "Controlled",
    "adapter_model",
    "control_model",
    "depth",
    "edges",
    "mask",
]
