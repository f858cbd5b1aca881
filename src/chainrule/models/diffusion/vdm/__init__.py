"""Variational diffusion model: trained on the bound itself, with a learned noise schedule."""

from chainrule.models.diffusion.denoisers.settings import counted_classes, suited
from chainrule.models.diffusion.former import FORMER_ARRAYS, FORMER_SETTINGS
from chainrule.models.diffusion.vdm.model import VDM, VDMConfig
from chainrule.models.protocol import Entry

entry = Entry(
    name="vdm",
    summary="Variational diffusion: trained on the bound of the likelihood, noise schedule learned, for good codes.",
    config=VDMConfig,
    build=VDM,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "text", "none"),
    data="digits",
    toy={"denoiser": "mlp", "width": 32, "depth": 2},
    toy_data="moons",
    citation="Kingma, Salimans, Poole and Ho, Variational diffusion models, NeurIPS 2021",
    former_settings=FORMER_SETTINGS,
    former_arrays=FORMER_ARRAYS,
    suited=suited,
    measured=counted_classes,
    training={
        "batch": 128,
        "ema": 0.999,
        "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.0, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 100},
    },
    surrogate_gradient="the schedule between its ends follows the variance of the loss, which does not change its mean",
)

__all__ = ["VDM", "VDMConfig", "entry"]
