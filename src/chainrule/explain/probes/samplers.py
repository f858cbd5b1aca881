"""Samplers of one diffusion model at equal cost: how near each comes to the flow solved finely, and to the data."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import progress, random
from chainrule.core.errors import check_choice
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data.dataset import Data
from chainrule.explain.base import Outcome, Probe, Settings
from chainrule.explain.methods.generated import is_diffusion, real
from chainrule.explain.methods.generation import Estimate
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.process import Level
from chainrule.train import Run

_FINE = (100, 500)
"""Steps at least and at most of the walk that stands for the flow, in second order; in between twice the longest."""
_SAMPLERS = {
    "ddim": samplers.DDIM(),
    "gradient-estimation": samplers.GradientEstimation(),
    "heun": samplers.Heun(),
    "dpm-solver": samplers.DPMSolver(),
    "ddpm": samplers.Ancestral(),
    "ddim-eta-1": samplers.DDIM(1.0),
    "reverse-sde": samplers.ReverseSDE(),
}


@final
class SamplersSettings(Settings):
    """The walks."""

    evaluations: tuple[int, ...] = Field(
        (5, 10, 20, 40), min_length=1, description="evaluations of the network for each sample, rising"
    )
    samplers: tuple[str, ...] = Field(tuple(_SAMPLERS), min_length=1, description="which samplers")
    n: int = Field(200, ge=20, description="samples for each walk; four times as many halve the errors")
    seed: int = Field(0, ge=0, description="noise all walks start from")


def look(run: Run, data: Data, settings: SamplersSettings) -> Outcome:
    """Every sampler from the same noise with the same number of evaluations."""
    for name in settings.samplers:
        check_choice("samplers", "samplers", name, tuple(_SAMPLERS))
    model = run.model
    assert isinstance(model, Generative)
    key = random.key(settings.seed, "probe")
    noise = jax.random.normal(key, (settings.n, *model.schema.shape))
    classes = model.denoiser.classes
    # Drawn: classes in turn would be spread more evenly than those of the data, and the distance come out too small.
    drawn_classes = jax.random.randint(
        random.key(settings.seed, "classes"), (settings.n,), 0, max(classes, 1)
    )
    condition = drawn_classes if classes else None
    clip = "static" if model.unit else "none"

    done = 0

    def walk(name: str, sampler: samplers.Sampler, evaluations: int) -> np.ndarray:
        nonlocal done
        progress.tell(f"evaluations of the network, {name} with {evaluations}", done, total)
        done += evaluations
        # Heun's method asks twice in every step but the last.
        steps = (evaluations + 1) // 2 if isinstance(sampler, samplers.Heun) else evaluations
        levels = _levels(model.schedule, steps)
        start = jnp.asarray(model.schedule.process.prior_std(levels.at(0)), noise.dtype) * noise
        out = samplers.walk(
            model.denoiser, start, levels, sampler, key, condition=condition, clip=clip
        ).samples
        return np.asarray(model.outside(out), np.float64).reshape(settings.n, -1)

    steps = min(max(_FINE[0], 2 * max(settings.evaluations)), _FINE[1])
    total = steps + len(settings.samplers) * sum(settings.evaluations)
    fine = walk("the flow", samplers.DPMSolver(), steps)
    known = real(data)
    found: dict[str, list[_Walked]] = {}
    for name in settings.samplers:
        found[name] = []
        for count in settings.evaluations:
            drawn = walk(name, _SAMPLERS[name], count)
            apart = float(np.linalg.norm(drawn - fine, axis=1).mean())
            found[name].append(_Walked(known.kernel_distance(drawn), known.frechet_distance(drawn), apart))
    flow = _Walked(known.kernel_distance(fine), known.frechet_distance(fine), 0.0)
    return _outcome(settings, found, flow, steps, total)


class _Walked(NamedTuple):
    """Where a walk led: distances of its samples from the data, and from those of the flow."""

    law: Estimate
    gauss: float
    error: float


def _levels(schedule: schedules.Schedule, steps: int) -> Level:
    """Levels evenly spaced in lam, which suits samplers of every kind; below -10 there is nothing but noise."""
    clean, noisy = schedule.ends()
    a, s = schedule.process.level(jnp.linspace(max(noisy, -10.0), clean, steps))
    return Level(np.append(np.asarray(a), 1.0), np.append(np.asarray(s), 0.0))


def _outcome(
    settings: SamplersSettings, found: dict[str, list[_Walked]], flow: _Walked, steps: int, total: int
) -> Outcome:
    counts = np.asarray(settings.evaluations)
    best = min(found, key=lambda name: found[name][-1].law.value)
    fixed = [name for name in found if _SAMPLERS[name].deterministic]
    nearest = f"with {counts[-1]}, {best} is nearest to the data ({_measured(found[best][-1].law)}; the flow itself "
    findings = [
        (
            f"With {counts[0]} evaluations {min(fixed, key=lambda name: found[name][0].error)} is nearest to the flow; "
            if fixed
            else ""
        )
        + f"{nearest}{_measured(flow.law)}).",
        f"Every walk drew {settings.n:,} samples; the network was evaluated {total:,} times on all of them, "
        f"{steps:,} times for the flow.",
    ]
    rows: list[list[str | float | int]] = [
        [name, *(_measured(walked.law) for walked in walks)] for name, walks in found.items()
    ]
    heads = ["sampler", *(f"{count} evaluations" for count in counts)]
    numbers = {
        "evaluations": counts.tolist(),
        "n": settings.n,
        "evaluations_in_all": total,
        "kernel_distance": {name: [w.law.value for w in walks] for name, walks in found.items()},
        "kernel_distance_error": {name: [w.law.error for w in walks] for name, walks in found.items()},
        "frechet_distance": {name: [w.gauss for w in walks] for name, walks in found.items()},
        "distance_to_flow": {name: [w.error for w in walks] for name, walks in found.items()},
        "fine": {"kernel": flow.law.value, "kernel_error": flow.law.error, "frechet": flow.gauss},
    }
    return Outcome(
        findings,
        _pictures(settings, numbers, steps, fixed),
        Table("samplers", "Kernel distance from the data and its standard error", heads, rows),
        numbers,
    )


def _measured(found: Estimate) -> str:
    return f"{found.value:.4f} ± {found.error:.4f}"


def _pictures(
    settings: SamplersSettings, numbers: Mapping[str, Any], steps: int, fixed: Sequence[str]
) -> list[Picture]:
    counts = np.asarray(settings.evaluations)
    fine = numbers["fine"]

    def lines(
        name: str, title: str, y: str, of: str, names: Sequence[str], log_y: bool, caption: str
    ) -> Lines:
        series = {one: (counts, np.asarray(numbers[of][one])) for one in names}
        return Lines(
            name, title, "evaluations of the network", y, series, log_x=True, log_y=log_y, caption=caption
        )

    flow = f"The flow solved in {steps:,} steps has"
    pictures: list[Picture] = [
        lines(
            "samplers-law",
            "Distance of samples from the data",
            "kernel distance",
            "kernel_distance",
            settings.samplers,
            False,
            f"Of {settings.n:,} samples each. {flow} {fine['kernel']:.4f} ± {fine['kernel_error']:.4f}.",
        ),
        lines(
            "samplers-frechet",
            "Distance of samples from the data, by means and covariances",
            "Fréchet distance",
            "frechet_distance",
            settings.samplers,
            True,
            f"Of {settings.n:,} samples each. {flow} {fine['frechet']:.2f}.",
        ),
    ]
    if fixed:
        pictures.append(
            lines(
                "samplers-error",
                "Distance from the flow solved finely",
                "mean distance of a sample",
                "distance_to_flow",
                fixed,
                True,
                "Samplers without noise follow one flow, and can be held against it sample by sample: against "
                f"dpm-solver in {steps:,} steps.",
            )
        )
    return pictures


probe = Probe(
    "All samplers of a diffusion model at equal numbers of evaluations.",
    "a diffusion model",
    is_diffusion,
    look,
    SamplersSettings,
)

__all__ = ["SamplersSettings", "look", "probe"]
