"""Score model: the gradient of the log-density at every noise level, sampled by Langevin dynamics."""

from chainrule.models.diffusion.denoisers.settings import counted_classes, suited
from chainrule.models.diffusion.former import FORMER_ARRAYS, FORMER_SETTINGS
from chainrule.models.diffusion.score.model import ScoreConfig, ScoreModel
from chainrule.models.protocol import Entry

entry = Entry(
    name="score",
    summary="Score model: learns where the density of noised data grows, and walks there by annealed Langevin moves.",
    config=ScoreConfig,
    build=ScoreModel,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "text", "none"),
    data="moons",
    toy={"width": 32, "depth": 2},
    toy_data="moons",
    citation="Song and Ermon, Generative modeling by estimating gradients of the data distribution, NeurIPS 2019",
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
)

__all__ = ["ScoreConfig", "ScoreModel", "entry"]
