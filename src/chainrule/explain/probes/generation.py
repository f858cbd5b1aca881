"""Samples of any model beside real examples: distances with their floors, copies, modes, classes, and what is wrong."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Picture, Table
from chainrule.core.quoting import plain
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.explain.methods import sample_pictures
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.kernels.hypothesis_tests import two_sample_test
from chainrule.models.protocol import CanSample, option_fields
from chainrule.probability.samples import frechet_at_infinity, nearest
from chainrule.train import Run
from chainrule.train.generation.drawing import as_rows, can_be_judged, draw
from chainrule.train.generation.features import Examples
from chainrule.train.generation.measures import OF_REAL, Beside, beside_real, measure
from chainrule.train.generation.real_examples import RealExamples, real_examples
from chainrule.train.generation.words import alarms
from chainrule.train.scores.samples import usual_count
from chainrule.train.scoring import Metric

_TESTED = 500
"""Rows of each kind for the test by shuffles, at most."""


@final
class GenerationSettings(Settings):
    """The samples."""

    n: int | None = Field(
        None, ge=20, description="samples; none: as many as there are held-out examples, 1000 at most"
    )
    guidance: float | None = Field(None, ge=0, description="weight of guidance; none: the model's usual one")
    steps: int | None = Field(None, ge=1, description="steps of the sampler; none: the model's usual number")
    permutations: int = Field(
        500, ge=0, le=100_000, description="shuffles of the test by a kernel; 0: no such test"
    )
    seed: int = Field(0, ge=0, description="noise the samples start from")


def examine(run: Run, data: Data, settings: GenerationSettings) -> Outcome:
    """Draw samples and hold them against training and held-out examples."""
    model, known = run.model, real_examples(data)
    assert isinstance(model, CanSample)
    n = settings.n or usual_count(known)
    # Independent draws: classes in turn, or in other shares than the data's, would be another distribution.
    named = model.conditional and targets.of(run.schema).one_class
    labels = known.drawn_classes(n, settings.seed) if named else None
    key, shown = random.key(settings.seed, "probe"), data.held_out()[0]
    drawn = draw(model, run.schema, n, key, shown, labels, **_options(model, settings))
    flat = as_rows(drawn)
    found = measure(known, flat)
    if "finite_samples" in found:
        return Outcome(
            [f"{one}." for one in alarms(found)], numbers={"finite": found["finite_samples"].value}
        )
    numbers = {name: metric.value for name, metric in found.items()}
    right = _right(known, flat, labels)
    alone, beside = beside_real({name: metric for name, metric in found.items() if "." not in name})
    findings = [
        *(f"{one[0].upper()}{one[1:]}." for one in alarms(found)),
        *_class_words(right, numbers),
        *_words(known, flat, found, settings.permutations, numbers),
        *known.said,
    ]
    pictures: list[Picture] = [
        sample_pictures.nearest_distances(
            known, *(nearest(x, known.train)[0][:, 0] for x in (flat, known.held_out))
        ),
        sample_pictures.closest(known, run.schema, flat),
        *sample_pictures.modes(known, flat),
        *sample_pictures.labels(known, found),
        *sample_pictures.right_classes(known, right, labels),
    ]
    return Outcome(findings, pictures, _table(beside, alone), numbers)


def _options(model: CanSample, settings: GenerationSettings) -> dict[str, Any]:
    """Options of sampling that were given, where the model has them."""
    given = {"guidance": settings.guidance, "steps": settings.steps}
    known = option_fields(model.sample_options())
    for name, value in given.items():
        if value is not None and name not in known:
            raise ArgumentError(f"{name}={value}: the model draws without {name}", remedy=f"leave {name} out")
    return {name: value for name, value in given.items() if value is not None}


def _right(known: RealExamples, flat: Examples, labels: np.ndarray | None) -> dict[str, np.ndarray] | None:
    """Whether the judge takes samples, and held-out examples, for what they were asked to be, or are."""
    if labels is None or known.held_out_y is None:
        return None
    asked = {"samples": (flat, labels), "held-out examples": (known.held_out, known.held_out_y)}
    return {name: known.judge.probabilities(x).argmax(axis=1) == y for name, (x, y) in asked.items()}


def _class_words(right: Mapping[str, np.ndarray] | None, numbers: dict[str, Any]) -> list[str]:
    if right is None:
        return []
    numbers["accuracy"], numbers[f"accuracy{OF_REAL}"] = (float(one.mean()) for one in right.values())
    return [
        f"{100 * numbers['accuracy']:.1f} % of {len(right['samples'])} samples are of the class they were asked for, "
        f"says a classifier of the training examples (right for {100 * numbers[f'accuracy{OF_REAL}']:.1f} % of "
        "held-out examples)."
    ]


def _words(
    known: RealExamples,
    flat: Examples,
    found: Mapping[str, Metric],
    permutations: int,
    numbers: dict[str, Any],
) -> list[str]:
    """The distances in sentences; what only a probe computes is added to the numbers."""
    value = {name: metric.value for name, metric in found.items()}

    def both(name: str, digits: int = 3) -> str:
        return f"{value[name]:.{digits}f} (real {value[name + OF_REAL]:.{digits}f})"

    seen = known.features(flat)
    numbers["feature_frechet_distance_at_infinity"] = infinite = frechet_at_infinity(
        seen, known.train_features
    )
    said = [
        f"Feature Fréchet distance {both('feature_frechet_distance')}, and {infinite:.3f} as a line through parts of "
        f"the samples has it for infinitely many; features: {known.features.words} ({known.features.size}, hash "
        f"{known.features.hash}).",
        f"Kernel distance {both('kernel_distance', 4)}, over subsets ± {value['kernel_distance_spread']:.4f}; "
        f"Sinkhorn divergence from held-out examples {both('sinkhorn_divergence', 4)}; sliced distance "
        f"{both('sliced_distance')}.",
    ]
    if "sample_precision" in value:
        said.append(
            f"Precision {both('sample_precision', 2)}, recall {both('sample_recall', 2)}, density "
            f"{both('sample_density', 2)}, coverage {both('sample_coverage', 2)}; neighbours tell samples from "
            f"held-out examples in {100 * value['two_sample_accuracy']:.0f} % of cases "
            f"({found['two_sample_accuracy'].kind})."
        )
    if permutations:
        held_out = known.features(known.held_out)
        tested = two_sample_test(seen[:_TESTED], held_out[:_TESTED], permutations=permutations)
        numbers["kernel_test_p_value"] = tested.p_value
        said.append(
            f"Shuffled {permutations:,} times, samples and held-out examples are as far apart, by a Gaussian kernel, "
            f"with probability {tested.p_value:.3g}."
        )
    apart = value["nearest_training_distance"]
    usual = value[f"nearest_training_distance{OF_REAL}"]
    said.append(
        f"The median sample is {apart:.3g} from its nearest training example, a held-out example {usual:.3g}; "
        f"{round(value['training_copies'] * len(flat))} of {len(flat)} samples are copies. Two samples are "
        f"{value['variety']:.3g} apart, two held-out examples {value['variety' + OF_REAL]:.3g}."
    )
    if "classifier_score" in value:
        said.append(
            f"Classifier score {both('classifier_score', 2)}, {found['classifier_score'].unit}; classes found: "
            f"{value['classes_found']:.0f} {found['classes_found'].unit}."
        )
    if "modes_found" in value:
        said.insert(
            0,
            f"{value['modes_found']:.0f} modes {found['modes_found'].unit}; {100 * value['high_quality_share']:.1f} % "
            f"of the samples are that near to one (real {100 * value['high_quality_share' + OF_REAL]:.1f} %).",
        )
    return said


def _table(beside: Mapping[str, Beside], alone: Mapping[str, Metric]) -> Table:
    rows: list[list[str | float | int]] = [
        [name.replace("_", " "), both.samples.value, both.real.value, both.samples.unit]
        for name, both in beside.items()
    ]
    spread = alone.get("kernel_distance_spread")
    if spread is not None:
        rows.append(["kernel distance spread", spread.value, "", spread.unit])
    basis = next(iter(beside.values())).samples.basis
    return Table(
        "generation",
        "Samples beside real examples",
        ["", "samples", "real", "unit"],
        rows,
        f"On the basis of {plain(basis)}.",
    )


probe = Probe(
    "Samples beside real examples: distances and their floors, copies, modes, classes.",
    "a model that draws points, images or rows of tables",
    can_be_judged,
    examine,
    GenerationSettings,
    toy={"n": 20, "permutations": 20},
)

__all__ = ["GenerationSettings", "examine", "probe"]
