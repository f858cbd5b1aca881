"""Deep variational information bottleneck."""

from chainrule.models.protocol import Entry
from chainrule.models.supervised.vib.model import VIB, VIBConfig

entry = Entry(
    name="vib",
    summary="Deep variational information bottleneck: a class read from a noisy code that costs its bits.",
    config=VIBConfig,
    build=VIB,
    kinds=("image", "table", "points", "sequence"),
    targets=("class",),
    data="digits",
    toy={"width": 16, "depth": 2, "latent": 3, "beta": 0.1},
    toy_data="moons",
    citation="Alemi, Fischer, Dillon and Murphy, Deep variational information bottleneck, ICLR 2017, arXiv:1612.00410",
    training={"batch": 64, "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.0}},
)

__all__ = ["VIB", "VIBConfig", "entry"]
