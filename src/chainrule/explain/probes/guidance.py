"""Classifier-free guidance: class accuracy against variety over the guidance weight."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Lines, Picture
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.explain.methods.denoisers import is_class_diffusion
from chainrule.explain.protocol import NonNegative, Outcome, Probe, Settings
from chainrule.models.protocol import HasDenoiser
from chainrule.probability.samples import spread
from chainrule.train import Run
from chainrule.train.generation.drawing import as_rows
from chainrule.train.generation.real_examples import real_examples


@final
class GuidanceSettings(Settings):
    """The sweep."""

    weights: tuple[NonNegative, ...] = Field(
        (0.0, 0.5, 1.0, 2.0, 4.0, 8.0), min_length=1, description="weights of guidance"
    )
    n: int = Field(300, ge=20, description="samples for each weight")
    steps: int = Field(30, ge=1, description="steps of the sampler")
    seed: int = Field(0, ge=0, description="noise the samples start from, the same for all weights")


def examine(run: Run, data: Data, settings: GuidanceSettings) -> Outcome:
    """The same noise denoised under every weight."""
    model, known = run.model, real_examples(data)
    assert isinstance(model, HasDenoiser)
    whole = spread(known.judge.features(known.train), known.train_y)
    labels = np.arange(settings.n, dtype=np.int32) % model.classes
    accuracies, spreads, shown = [], [], []
    for weight in settings.weights:
        walk = {"guidance": weight, "steps": settings.steps, "condition": labels}
        drawn = np.asarray(model.sample(random.key(settings.seed, "probe"), settings.n, **walk))
        flat = as_rows(drawn)
        accuracies.append(known.judge.accuracy(flat, labels))
        spreads.append(spread(known.judge.features(flat), labels) / whole)
        shown.append(drawn[: min(10, known.classes)])
    weights = np.asarray(settings.weights)
    lines: list[Picture] = [
        Lines(
            "guidance",
            "What guidance does",
            "weight of guidance",
            "share of real examples' value",
            {"right class": (weights, np.asarray(accuracies)), "variety": (weights, np.asarray(spreads))},
            marks=((1.0, "conditional"),),
            caption="Right class: says a classifier of the training examples. Variety: "
            f"distance within a class in what that classifier sees. {settings.n:,} samples for each weight in "
            f"{settings.steps} steps.",
        )
    ]
    if kinds.of(run.schema).shows_pixels(run.schema):
        sheet = np.clip(np.concatenate(shown), 0, 1)
        labels_of = [
            f"w = {w:g}" if i == 0 else ""
            for w, part in zip(weights, shown, strict=True)
            for i in range(len(part))
        ]
        lines.append(
            Images("guidance-samples", "The same noise under each weight", sheet, labels_of, len(shown[0]))
        )
    best = int(np.argmax(accuracies))
    return Outcome(
        [
            f"With weight {weights[best]:g} {100 * accuracies[best]:.1f} % of samples are of their class, and two of "
            f"one class are {spreads[best]:.2f} times as far apart, in what the classifier sees, as real ones.",
            "A weight other than 0 or 1 sharpens classes; it does not sample the density tilted by the class.",
        ],
        lines,
        None,
        {"weights": list(settings.weights), "accuracy": accuracies, "diversity": spreads},
    )


probe = Probe(
    "Class accuracy and variety of samples over the weight of guidance.",
    "a diffusion model with classes",
    is_class_diffusion,
    examine,
    GuidanceSettings,
    toy={"n": 20, "steps": 2, "weights": (1.0, 2.0)},
)

__all__ = ["GuidanceSettings", "examine", "probe"]
