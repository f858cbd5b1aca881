"""Separation of a held-out mixture: spectrograms, masks, sound; and ratios beside the ceilings of ideal masks."""

from typing import final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Subset
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanSeparate, Model
from chainrule.networks.pictures import spectrograms
from chainrule.train import Run
from chainrule.train.separation import separated, taken_apart


@final
class SeparationSettings(Settings):
    """What is looked at."""

    example: int = Field(0, ge=0, description="the held-out mixture that is shown, counted from 0")
    n: int = Field(100, ge=1, description="held-out mixtures whose ratios are compared, at most")


def examine(run: Run, data: Data, settings: SeparationSettings) -> Outcome:
    """One mixture taken apart, and the ratios of many."""
    model = eqx.nn.inference_mode(run.model)
    assert isinstance(model, CanSeparate)
    part, said = data.held_out()
    if settings.example >= len(part):
        raise ArgumentError(
            f"example={settings.example}: there are {len(part)} held-out mixtures",
            remedy=f"use example={len(part) - 1} at most",
        )
    names = model.source_names
    pictures: list[Picture] = spectrograms.separation(
        spectrograms.ShownMixture(
            model.transform,
            names,
            np.asarray(part.batch(np.array([settings.example])).x)[0],
            *taken_apart(model, part, settings.example),
            run.schema.rate,
        )
    )
    some = Subset.drawn(part, min(settings.n, len(part)))
    ratios = separated(model, some)
    worst = spectrograms.worst_of(ratios.found)
    mean, gain, ceiling = (
        float(np.nanmean(one)) for one in (ratios.found, ratios.improvement, ratios.ideal["ideal_ratio"])
    )
    rows: list[list[str | float]] = [
        [
            name,
            *(float(np.nanmean(one[:, i])) for one in (ratios.mixture, ratios.found, *ratios.ideal.values())),
        ]
        for i, name in enumerate(names)
        if np.isfinite(ratios.found[:, i]).any()
    ]
    heads = ["source", "mixture", "found", *(spectrograms.spoken(name) for name in ratios.ideal)]
    return Outcome(
        [
            f"Sources are found with {mean:.1f} dB, {gain:.1f} dB better than the mixture; an ideal ratio mask over "
            f"the same spectrum would reach {ceiling:.1f} dB ({len(ratios.found)} mixtures).",
            *_of_worst(some, worst),
            *said,
        ],
        [
            *pictures,
            spectrograms.ceilings(names, ratios.mixture, ratios.found, ratios.ideal),
            spectrograms.worst_to_best(ratios.found, ratios.ideal),
        ],
        Table("separation-table", "Signal to distortion, dB", heads, rows),
        {"si_sdr": mean, "improvement": gain, "ideal_ratio": ceiling},
    )


def _of_worst(some: Subset, worst: tuple[int, float] | None) -> list[str]:
    if worst is None:
        return []
    number = int(some.numbers[worst[0]])
    return [f"Mixture {number} is found worst, with {worst[1]:.1f} dB: example={number} shows it."]


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, CanSeparate)


probe = Probe(
    "A held-out mixture as spectrograms, masks and sound; ratios beside the ceilings of ideal masks.",
    "a model that separates sound",
    _applies,
    examine,
    SeparationSettings,
    toy={"n": 4},
)

__all__ = ["SeparationSettings", "examine", "probe"]
