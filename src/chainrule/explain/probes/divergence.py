"""An f-divergence of held-out examples from a model's samples, as a critic bounds it, beside real against real."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Images, Picture
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.divergence_bounds import beside_floor
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanSample
from chainrule.probability.divergences.named import SHORT_NAMES
from chainrule.train import Run
from chainrule.train.generation.drawing import as_rows, can_be_judged, draw
from chainrule.train.generation.real_examples import real_examples

_SHOWN = 10
_LR = 1e-3
"""Held-out examples are few and have many entries: a critic that hurries learns them by heart."""


@final
class DivergenceSettings(Settings):
    """The divergence, the samples and the critic."""

    divergence: str = Field(
        "2-jsd",
        description=f"{', '.join(SHORT_NAMES)}, or a convex formula of the ratio u = p/q such as (u-1)^2/(u+1)",
    )
    n: int | None = Field(
        None, ge=20, description="samples; none: as many as there are training examples, 2000 at most"
    )
    steps: int = Field(1000, ge=1, le=1_000_000, description="of training the critic, at most")
    width: int = Field(64, ge=1, le=4096, description="hidden units of the critic, two layers of them")
    seed: int = Field(0, ge=0, description="samples and weights")


def examine(run: Run, data: Data, settings: DivergenceSettings) -> Outcome:
    """Draw samples, fit a critic of them against held-out examples, and one of training examples against the same."""
    model, known = run.model, real_examples(data)
    assert isinstance(model, CanSample)
    most = min(len(known.held_out), len(known.train))
    if most < 20:
        raise ArgumentError(
            f"probe divergence: {most} held-out examples are too few to fit a critic on one half and score the other",
            remedy="train on more data, or hold more out: data.split=0.6,0.2,0.2",
        )
    # Samples cost nothing: as many as there are real ones to make the floor of.
    n = min(settings.n or 2000, len(known.train))
    named = model.conditional and targets.of(run.schema).one_class
    labels = known.drawn_classes(n, settings.seed) if named else None
    drawn = draw(model, data, n, random.key(settings.seed, "divergence"), data.held_out()[0], labels)
    samples = as_rows(drawn)
    finite = np.isfinite(samples).all(axis=1)
    if not finite.all():
        broken = int((~finite).sum())
        return Outcome(
            [f"{broken} of {n} samples have an entry that is not finite."], numbers={"broken": broken}
        )
    found = beside_floor(
        *(known.held_out, samples, known.train[:n]),
        names=("held-out examples", "samples"),
        of_floor="held-out and training examples",
        divergence=settings.divergence,
        key=random.key(settings.seed, "critic"),
        steps=settings.steps,
        width=settings.width,
        lr=_LR,
    )
    pictures: list[Picture] = [found.picture(known.held_out, samples)]
    if kinds.of(run.schema).shows_pixels(run.schema):
        pictures.append(_betrayed(samples, found.between.critic(samples), run.schema))
    return Outcome([*found.findings, *known.said], pictures, found.table(), found.numbers)


def _betrayed(samples: np.ndarray, values: np.ndarray, schema: Schema) -> Images:
    order = np.argsort(values)
    chosen = np.concatenate([order[:_SHOWN], order[::-1][:_SHOWN]])
    return Images(
        "betrayed",
        "Samples the critic is surest of, and those it takes for real",
        np.clip(samples[chosen].reshape(-1, *schema.shape), 0, 1),
        [f"{values[i]:.2g}" for i in chosen],
        min(_SHOWN, len(order)),
        "Above: surely samples; below: like held-out examples; with T(x).",
    )


probe = Probe(
    "A lower bound of an f-divergence between samples and held-out examples, beside real against real.",
    "a model that draws examples of numbers",
    can_be_judged,
    examine,
    DivergenceSettings,
    toy={"n": 20, "steps": 10, "width": 4},
)

__all__ = ["DivergenceSettings", "examine", "probe"]
