"""WaveNet: dilated causal convolutions over series and sound."""

from chainrule.models.autoregressive.wavenet.model import WaveNet, WaveNetConfig, suited
from chainrule.models.protocol import Entry

entry = Entry(
    name="wavenet",
    summary="Dilated causal convolutions over series and sound: exact densities, fast sampling, possible futures.",
    config=WaveNetConfig,
    build=WaveNet,
    kinds=("sequence", "audio"),
    targets=("none", "class", "value"),
    data="cycles",
    toy={"width": 4, "layers": 3, "components": 2},
    toy_data="cycles",
    citation="van den Oord et al., WaveNet: a generative model for raw audio, 2016",
    suited=suited,
    training={
        "batch": 64,
        "steps": 1000,
        "optimizer": {"name": "adam", "lr": 3e-3, "clip": 1.0},
        "schedule": {"name": "cosine", "warmup": 50},
    },
)

__all__ = ["WaveNet", "WaveNetConfig", "entry"]
