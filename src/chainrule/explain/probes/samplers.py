"""Samplers of one diffusion model at equal cost: how near each comes to the flow solved finely, and to the data."""

from typing import NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data.base import Data
from chainrule.explain.base import Outcome, Probe, Settings
from chainrule.explain.generated import is_diffusion, real
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import Level
from chainrule.train import Run

_FINE = 500
_SAMPLERS = {
    "ddim": samplers.DDIM(),
    "gradient-estimation": samplers.GradientEstimation(),
    "heun": samplers.Heun(),
    "dpm-solver": samplers.DPMSolver(),
    "ddpm": samplers.Ancestral(),
    "ddim, eta=1": samplers.DDIM(1.0),
    "reverse-sde": samplers.ReverseSDE(),
}


@final
class SamplersSettings(Settings):
    """The walks."""

    evaluations: tuple[int, ...] = Field(
        (5, 10, 20, 40), description="evaluations of the network for each sample"
    )
    n: int = Field(200, ge=20, description="samples for each walk")
    seed: int = Field(0, ge=0, description="noise all walks start from")


def look(run: Run, data: Data, settings: SamplersSettings) -> Outcome:
    """Every sampler from the same noise with the same number of evaluations."""
    model = run.model
    assert isinstance(model, Generative)
    key = random.key(settings.seed, "probe")
    noise = jax.random.normal(key, (settings.n, *model.schema.shape))
    classes = model.denoiser.classes
    condition = jnp.arange(settings.n) % classes if classes else None
    clip = "static" if model.unit else "none"

    def walk(sampler: samplers.Sampler, steps: int) -> np.ndarray:
        levels = _levels(model.schedule, steps)
        start = jnp.asarray(model.schedule.process.prior_std(levels.at(0)), noise.dtype) * noise
        out = samplers.walk(
            model.denoiser, start, levels, sampler, key, condition=condition, clip=clip
        ).samples
        return np.asarray(model.outside(out), np.float64).reshape(settings.n, -1)

    fine = walk(samplers.DDIM(), _FINE)
    known = real(data)
    law: dict[str, list[float]] = {name: [] for name in _SAMPLERS}
    error: dict[str, list[float]] = {name: [] for name in _SAMPLERS}
    gauss: dict[str, list[float]] = {name: [] for name in _SAMPLERS}
    for name, sampler in _SAMPLERS.items():
        for count in settings.evaluations:
            # Heun's method asks twice in every step but the last.
            drawn = walk(sampler, (count + 1) // 2 if name == "heun" else count)
            law[name].append(known.kernel_distance(drawn))
            gauss[name].append(known.frechet_distance(drawn))
            error[name].append(float(np.linalg.norm(drawn - fine, axis=1).mean()))
    ends = {"kernel": known.kernel_distance(fine), "frechet": known.frechet_distance(fine)}
    return _outcome(settings, _Found(law, gauss, error), ends)


class _Found(NamedTuple):
    """By sampler, one number for each count of evaluations."""

    law: dict[str, list[float]]
    gauss: dict[str, list[float]]
    error: dict[str, list[float]]


def _levels(schedule: schedules.Schedule, steps: int) -> Level:
    """Levels evenly spaced in lam, which suits samplers of every kind; below -10 there is nothing but noise."""
    clean, noisy = schedule.ends()
    a, s = schedule.process.level(jnp.linspace(max(noisy, -10.0), clean, steps))
    return Level(np.append(np.asarray(a), 1.0), np.append(np.asarray(s), 0.0))


def _outcome(settings: SamplersSettings, found: _Found, fine: dict[str, float]) -> Outcome:
    counts = np.asarray(settings.evaluations)
    law, gauss, error = found
    fixed = [name for name, sampler in _SAMPLERS.items() if sampler.deterministic]
    pictures: list[Picture] = [
        Lines(
            "samplers-law",
            "Distance of samples from the data",
            "evaluations of the network",
            "kernel distance",
            {name: (counts, np.asarray(values)) for name, values in law.items()},
            log_x=True,
            caption=f"The flow solved in {_FINE} steps has {fine['kernel']:.4f}.",
        ),
        Lines(
            "samplers-frechet",
            "Distance of samples from the data, by means and covariances",
            "evaluations of the network",
            "Fréchet distance",
            {name: (counts, np.asarray(values)) for name, values in gauss.items()},
            log_x=True,
            log_y=True,
            caption=f"Of {settings.n} samples each. The flow solved in {_FINE} steps has {fine['frechet']:.2f}.",
        ),
        Lines(
            "samplers-error",
            "Distance from the flow solved finely",
            "evaluations of the network",
            "mean distance of a sample",
            {name: (counts, np.asarray(error[name])) for name in fixed},
            log_x=True,
            log_y=True,
            caption="Samplers without noise follow one flow, and can be held against it sample by sample.",
        ),
    ]
    few = min(fixed, key=lambda name: error[name][0])
    best = min(law, key=lambda name: law[name][-1])
    return Outcome(
        [
            f"With {counts[0]} evaluations {few} is nearest to the flow; with {counts[-1]}, {best} is nearest to the "
            f"data ({law[best][-1]:.4f}; the flow itself {fine['kernel']:.4f}).",
        ],
        pictures,
        Table(
            "samplers",
            "Kernel distance from the data",
            ["sampler", *(f"{count} evaluations" for count in counts)],
            [[name, *values] for name, values in law.items()],
        ),
        {
            "evaluations": counts.tolist(),
            "kernel_distance": law,
            "frechet_distance": gauss,
            "distance_to_flow": error,
            "fine": fine,
        },
    )


probe = Probe(
    "All samplers of a diffusion model at equal numbers of evaluations.",
    "a diffusion model",
    is_diffusion,
    look,
    SamplersSettings,
)

__all__ = ["SamplersSettings", "look", "probe"]
