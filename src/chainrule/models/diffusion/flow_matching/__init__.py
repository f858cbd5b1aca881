"""Flow matching: straight paths from noise to data, and the velocity along them."""

from chainrule.models.diffusion.denoisers.settings import counted_classes, suited
from chainrule.models.diffusion.flow_matching.coupling import shorter_pairs
from chainrule.models.diffusion.flow_matching.curvature import bending
from chainrule.models.diffusion.flow_matching.model import FlowMatching, FlowMatchingConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="flow-matching",
    summary="Flow matching: learns the velocity of straight paths from noise to data, and draws along it in few steps.",
    config=FlowMatchingConfig,
    build=FlowMatching,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "text", "none"),
    data="digits",
    toy={"width": 32, "depth": 1},
    toy_data="moons",
    citation="Lipman, Chen, Ben-Hamu, Nickel and Le, Flow matching for generative modeling, ICLR 2023",
    suited=suited,
    measured=counted_classes,
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
)

__all__ = ["FlowMatching", "FlowMatchingConfig", "bending", "entry", "shorter_pairs"]
