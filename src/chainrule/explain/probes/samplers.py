"""Samplers of one diffusion model at equal cost: their error against the fine flow and the distance from the data."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax
import numpy as np
from pydantic import Field

from chainrule.core import progress, random
from chainrule.core.errors import check_choice
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import HasSamplers, Model
from chainrule.probability.samples import DistanceEstimate
from chainrule.train import Run
from chainrule.train.generation.real_examples import real_examples

_FLOW = "dpm-solver"
"""The sampler that stands for the flow."""
_FAR = 5.0
"""Times the usual largest distance: what is beyond that is not drawn."""
_SAME = 1e-3
"""Mean difference, over the spread of samples, below which two samplers draw the same: rounding, not another method."""
_FINE = (100, 500)
"""Steps at least and at most of the walk that stands for the flow, in second order; in between twice the longest."""


@final
class SamplersSettings(Settings):
    """The walks."""

    evaluations: tuple[Count, ...] = Field(
        (5, 10, 20, 40), min_length=1, description="evaluations of the network for each sample, rising"
    )
    samplers: tuple[str, ...] = Field((), description="samplers by name; empty: all")
    n: int = Field(200, ge=20, description="samples for each walk; four times as many halve the errors")
    seed: int = Field(0, ge=0, description="noise all walks start from")


def examine(run: Run, data: Data, settings: SamplersSettings) -> Outcome:
    """Every sampler from the same noise with the same number of evaluations."""
    model = run.model
    assert isinstance(model, HasSamplers)
    known = model.samplers()
    names = settings.samplers or tuple(known)
    for name in names:
        check_choice("samplers", "samplers", name, tuple(known))
    key = random.key(settings.seed, "probe")
    noise = jax.random.normal(key, (settings.n, *run.schema.shape))
    # Drawn: classes in turn would be spread more evenly than those of the data, and the distance come out too small.
    drawn_classes = jax.random.randint(
        random.key(settings.seed, "classes"), (settings.n,), 0, max(model.classes, 1)
    )
    condition = drawn_classes if model.classes else None
    done = 0

    def walk(what: str, sampler: str, evaluations: int) -> np.ndarray:
        nonlocal done
        progress.update(f"evaluations of the network, {what} with {evaluations}", done, total)
        done += evaluations
        drawn = model.walk(noise, sampler, evaluations, key, condition)
        return np.asarray(drawn, np.float64).reshape(settings.n, -1)

    steps = min(max(_FINE[0], 2 * max(settings.evaluations)), _FINE[1])
    total = steps + len(names) * sum(settings.evaluations)
    fine = walk("the flow", _FLOW, steps)
    examples = real_examples(data)
    found: dict[str, list[_Walked]] = {}
    drawn: dict[str, np.ndarray] = {}
    for name in names:
        drawn[name] = np.stack([walk(name, name, count) for count in settings.evaluations])
        found[name] = [
            _Walked(
                examples.kernel_distance(x),
                examples.frechet_distance(x),
                float(np.linalg.norm(x - fine, axis=1).mean()),
            )
            for x in drawn[name]
        ]
    flow = _Walked(examples.kernel_distance(fine), examples.frechet_distance(fine), 0.0)
    fixed = [name for name in names if known[name]]
    return _outcome(settings, found, flow, fixed, _twins(drawn), steps, total)


def _twins(drawn: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Samplers that draw what one before them draws, and whose samples these are: one method under several names."""
    found: dict[str, str] = {}
    for name, x in drawn.items():
        for other in drawn:
            if other == name:
                break
            if other not in found and np.abs(x - drawn[other]).mean() < _SAME * x.std():
                found[name] = other
                break
    return found


class _Walked(NamedTuple):
    """Where a walk led: distances of its samples from the data, and from those of the flow."""

    kernel: DistanceEstimate
    frechet: float
    error: float


def _outcome(
    settings: SamplersSettings,
    found: dict[str, list[_Walked]],
    flow: _Walked,
    fixed: list[str],
    twins: Mapping[str, str],
    steps: int,
    total: int,
) -> Outcome:
    counts = np.asarray(settings.evaluations)
    best = min((name for name in found if name not in twins), key=lambda name: found[name][-1].kernel.value)
    nearest = f"with {counts[-1]}, {best} is nearest to the data ({_measured(found[best][-1].kernel)}; the flow itself "
    findings = [
        (
            f"With {counts[0]} evaluations {min(fixed, key=lambda name: found[name][0].error)} is nearest to the flow; "
            if fixed
            else ""
        )
        + f"{nearest}{_measured(flow.kernel)}).",
        f"Every walk drew {settings.n:,} samples; the network was evaluated {total:,} times on all of them, "
        f"{steps:,} times for the flow.",
    ]
    for one in dict.fromkeys(twins.values()):
        same = ", ".join(name for name in twins if twins[name] == one)
        findings.append(f"{same} drew the same samples as {one}, whose line stands for them.")
    rows: list[list[str | float | int]] = [
        [name, *(_measured(walked.kernel) for walked in walks)] for name, walks in found.items()
    ]
    heads = ["sampler", *(f"{count} evaluations" for count in counts)]
    numbers = {
        "evaluations": counts.tolist(),
        "n": settings.n,
        "evaluations_in_all": total,
        "kernel_distance": {name: [w.kernel.value for w in walks] for name, walks in found.items()},
        "kernel_distance_error": {name: [w.kernel.error for w in walks] for name, walks in found.items()},
        "frechet_distance": {name: [w.frechet for w in walks] for name, walks in found.items()},
        "distance_to_flow": {name: [w.error for w in walks] for name, walks in found.items()},
        "same_as": dict(twins),
        "fine": {"kernel": flow.kernel.value, "kernel_error": flow.kernel.error, "frechet": flow.frechet},
    }
    return Outcome(
        findings,
        _pictures(settings, numbers, steps, fixed, [name for name in found if name not in twins]),
        Table("samplers", "Kernel distance from the data and its standard error", heads, rows),
        numbers,
    )


def _measured(found: DistanceEstimate) -> str:
    return f"{found.value:.4f} ± {found.error:.4f}"


def _pictures(
    settings: SamplersSettings,
    numbers: Mapping[str, Any],
    steps: int,
    fixed: Sequence[str],
    shown: Sequence[str],
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
    near, left_out = _near({name: np.asarray(numbers["kernel_distance"][name]) for name in shown})
    pictures: list[Picture] = [
        Lines(
            "samplers-kernel",
            "Distance of samples from the data",
            "evaluations of the network",
            "kernel distance",
            {name: (counts, values) for name, values in near.items()},
            log_x=True,
            caption=f"Of {settings.n:,} samples each. {flow} {fine['kernel']:.4f} ± {fine['kernel_error']:.4f}. "
            + (f"Too far off to be shown: {', '.join(left_out)} with few evaluations." if left_out else ""),
        ),
        lines(
            "samplers-frechet",
            "Distance of samples from the data, by means and covariances",
            "Fréchet distance",
            "frechet_distance",
            shown,
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
                [name for name in shown if name in fixed],
                True,
                "Samplers without noise follow one flow, and can be held against it sample by sample: against "
                f"{_FLOW} in {steps:,} steps.",
            )
        )
    return pictures


def _near(
    distances: Mapping[str, np.ndarray],
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Distances of one order of magnitude, what is far beyond them left blank, and the samplers that concerns.

    A distance can be below zero, where a logarithm would show nothing, and a walk of too few steps can be off by any
    number, beside which all others would be one line.
    """
    most = _FAR * float(np.median([np.abs(values).max() for values in distances.values()]))
    blank = {name: np.where(values <= most, values, np.nan) for name, values in distances.items()}
    return blank, [name for name, values in blank.items() if np.isnan(values).any()]


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasSamplers)


probe = Probe(
    "All samplers of a diffusion model at equal numbers of evaluations.",
    "a diffusion model",
    _applies,
    examine,
    SamplersSettings,
    toy={"n": 20, "evaluations": (2,), "samplers": ("ddim", "ddpm")},
)

__all__ = ["SamplersSettings", "examine", "probe"]
