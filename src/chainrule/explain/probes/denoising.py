"""Trajectories of a diffusion model from noise to samples: a strip of one, and a film of all."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines
from chainrule.data.dataset import Data
from chainrule.explain.methods.denoisers import is_image_diffusion
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasDenoiser
from chainrule.networks.pictures.denoising import film, strip
from chainrule.train import Run


@final
class DenoisingSettings(Settings):
    """The samples to watch."""

    n: int = Field(10, ge=1, le=100, description="samples")
    condition: str | None = Field(None, description="class of all samples; none: all classes in turn")
    steps: int = Field(50, ge=1, description="steps of the sampler")
    guidance: float | None = Field(None, ge=0, description="weight of guidance; none: the model's usual one")
    seed: int = Field(0, ge=0, description="noise the samples start from")


def examine(run: Run, data: Data, settings: DenoisingSettings) -> Outcome:
    """Walk from noise to images, keeping every step."""
    del data
    model = run.model
    assert isinstance(model, HasDenoiser)
    walked = model.trajectory(
        random.key(settings.seed, "probe"),
        settings.n,
        condition=settings.condition,
        steps=settings.steps,
        guidance=settings.guidance,
    )
    lams = walked.lams
    noisy, estimates = (
        np.clip(np.asarray(model.to_model_units(x)), 0, 1) for x in (walked.noisy, walked.estimates)
    )
    left = np.sqrt(np.square(estimates - estimates[-1:]).reshape(len(lams), -1).mean(axis=1))
    half = float(lams[int((left <= left[0] / 2).argmax())])
    return Outcome(
        [
            f"By lam = {half:.1f} the estimate has come half of the way from the first one to the finished image "
            f"({settings.n} samples, {settings.steps} steps).",
        ],
        [
            strip(noisy, estimates, lams),
            film(noisy, estimates, lams),
            Lines(
                "denoising-distance",
                "How far the estimate still has to go",
                "lam = log signal-to-noise ratio",
                "root mean square of a pixel",
                {"from the finished image": (lams, left)},
                caption="Mean over the samples; pixels run from 0 to 1.",
            ),
        ],
        None,
        {"lam": lams.tolist(), "distance": left.tolist(), "half": half},
    )


probe = Probe(
    "Samples of a diffusion model as they come about, as a film.",
    "a diffusion model of images",
    is_image_diffusion,
    examine,
    DenoisingSettings,
    toy={"n": 2, "steps": 3},
)

__all__ = ["DenoisingSettings", "examine", "probe"]
