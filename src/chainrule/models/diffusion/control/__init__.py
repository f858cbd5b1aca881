"""Control of a trained U-Net by pictures: branches beside it that learn while it stays as it is."""

from chainrule.models.diffusion.control.adapter import Adapted, Adapter
from chainrule.models.diffusion.control.branch import Combined
from chainrule.models.diffusion.control.control_net import Controlled, ControlNet
from chainrule.models.diffusion.control.edges import edges
from chainrule.models.diffusion.control.extractors import depth, extractors, mask
from chainrule.models.diffusion.control.model import Control, ControlConfig, adopts
from chainrule.models.diffusion.former import FORMER_ARRAYS, FORMER_SETTINGS
from chainrule.models.protocol import Entry

entry = Entry(
    name="control",
    summary="Branch beside a trained diffusion model: its pictures follow the edges, mask or relief of a given one.",
    config=ControlConfig,
    build=Control,
    kinds=("image",),
    targets=("class", "labels", "value", "text", "none"),
    data="digits",
    toy={"kind": "adapter", "body": {"denoiser": "unet", "width": 4, "depth": 1}},
    toy_data="digits",
    citation="Zhang, Rao and Agrawala, Adding conditional control to text-to-image diffusion models, ICCV 2023",
    former_settings={f"body.{old}": f"body.{new}" for old, new in FORMER_SETTINGS.items()},
    former_arrays=FORMER_ARRAYS,
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    adopts=adopts,
)

__all__ = [
    "Adapted",
    "Adapter",
    "Combined",
    "Control",
    "ControlConfig",
    "ControlNet",
    "Controlled",
    "depth",
    "edges",
    "entry",
    "extractors",
    "mask",
]
