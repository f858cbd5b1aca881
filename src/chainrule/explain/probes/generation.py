"""Quality of the samples of a diffusion model: class accuracy, variety, distance from the data, and copies."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core.pictures import Images, Picture, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.sample_comparison import RealExamples, draw, is_diffusion, real
from chainrule.explain.methods.sample_distances import nearest, spread
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.train import Run

_PAIRS = 10


@final
class GenerationSettings(Settings):
    """The samples."""

    n: int = Field(500, ge=20, description="samples")
    guidance: float | None = Field(None, ge=0, description="weight of guidance; none: the model's usual one")
    steps: int | None = Field(None, ge=1, description="steps of the sampler; none: the model's usual number")
    seed: int = Field(0, ge=0, description="noise the samples start from")


def examine(run: Run, data: Data, settings: GenerationSettings) -> Outcome:
    """Draw samples and hold them against training and held-out examples."""
    known = real(data)
    options: dict[str, Any] = {"steps": settings.steps}
    if known.train_y is not None and settings.guidance is not None:
        options["guidance"] = settings.guidance
    # Independent draws: classes in turn, or in other shares than the data's, would be another distribution.
    wanted = known.drawn_classes(settings.n, settings.seed)
    drawn, labels = draw(run, settings.n, settings.seed, wanted, **options)
    flat = drawn.reshape(len(drawn), -1).astype(np.float64)
    numbers, findings = _judged(flat, labels, known)
    findings = [*findings, *known.said]
    distances, numbers_of = nearest(flat, known.train)
    pictures: list[Picture] = []
    if kinds.of(run.schema).shows_pixels(run.schema):
        pictures.append(_pairs(drawn, distances[:, 0], known.train[numbers_of[:, 0]], run.schema))
    rows: list[list[str | float | int]] = [[name.replace("_", " "), value] for name, value in numbers.items()]
    return Outcome(
        findings, pictures, Table("generation", "Samples beside real examples", ["", "value"], rows), numbers
    )


def _judged(
    flat: np.ndarray, labels: np.ndarray | None, known: RealExamples
) -> tuple[dict[str, float], list[str]]:
    to_train, to_held_out = (nearest(x, known.train)[0][:, 0] for x in (flat, known.held_out))
    ours, others = known.kernel_distance(flat), known.kernel_distance_of_held_out()
    numbers = {
        "kernel_distance": ours.value,
        "kernel_distance_of_held_out": others.value,
        "frechet_distance": known.frechet_distance(flat),
        "frechet_distance_of_held_out": known.frechet_distance(known.held_out[: len(flat)]),
        "diversity": spread(flat, labels)
        / spread(known.train, known.train_y if labels is not None else None),
        "nearest_training_example": float(np.median(to_train) / np.median(to_held_out)),
        "copies": float((to_train < 1e-3 * np.median(to_held_out)).sum()),
    }
    where = ", by what the classifier sees" if known.train_y is not None else ", by principal components"
    findings = [
        f"Two samples are {numbers['diversity']:.2f} times as far apart as two training examples"
        f"{' of one class' if labels is not None else ''}; the median sample is "
        f"{numbers['nearest_training_example']:.2f} times as far from its nearest training example as a held-out "
        f"example is, and {int(numbers['copies'])} of {len(flat)} are copies.",
        f"Kernel distance from the training examples{where}: samples {ours.value:.4f} ± {ours.error:.4f}, "
        f"held-out examples {others.value:.4f} ± {others.error:.4f}.",
        f"Fréchet distance: samples {numbers['frechet_distance']:.2f}, as many held-out examples "
        f"{numbers['frechet_distance_of_held_out']:.2f}.",
    ]
    if labels is not None and known.held_out_y is not None:
        numbers["accuracy"] = known.judge.accuracy(flat, labels)
        numbers["accuracy_of_held_out"] = known.judge.accuracy(known.held_out, known.held_out_y)
        findings.insert(
            0,
            f"{100 * numbers['accuracy']:.1f} % of {len(flat)} samples are of the class they were asked for, says a "
            f"classifier of the training examples (right for {100 * numbers['accuracy_of_held_out']:.1f} % of "
            "held-out examples).",
        )
    return numbers, findings


def _pairs(drawn: np.ndarray, distances: np.ndarray, twins: np.ndarray, schema: Schema) -> Images:
    closest = np.argsort(distances)[:_PAIRS]
    both = np.concatenate([drawn[closest], twins[closest].reshape(-1, *schema.shape)])
    labels = [f"{d:.2f}" for d in distances[closest]] + [""] * len(closest)
    return Images(
        "nearest",
        "The samples closest to training examples",
        np.clip(both, 0, 1),
        labels,
        len(closest),
        "Above: samples, with their distance; below: the training example nearest to each.",
    )


probe = Probe(
    "Samples beside real examples: class, variety, distribution and novelty.",
    "a diffusion model",
    is_diffusion,
    examine,
    GenerationSettings,
    toy={"n": 20, "steps": 2},
)

__all__ = ["GenerationSettings", "examine", "probe"]
