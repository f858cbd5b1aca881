"""Samples of any model beside real examples: distances with their floors, copies, modes, classes, and what is wrong."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import short_number
from chainrule.core.pictures import Picture, Table
from chainrule.core.quoting import plain
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.explain.methods import sample_pictures
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.kernels import RBF, Kernel
from chainrule.kernels.hypothesis_tests import two_sample_test
from chainrule.models.protocol import CanSample, option_fields
from chainrule.probability.samples import frechet_at_infinity, nearest
from chainrule.train import Run
from chainrule.train.generation.classes import numbers_of_classes
from chainrule.train.generation.drawing import as_rows, can_be_judged, draw
from chainrule.train.generation.features import Examples
from chainrule.train.generation.measures import FEWEST, OF_REAL, Beside, beside_real, measure
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
        None,
        ge=FEWEST,
        description="samples; none: as many as there are held-out examples, 20 at least and 1000 at most",
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
    if len(known.held_out) < 2:
        raise ArgumentError(
            f"probe generation: {data.name} holds out {len(known.held_out)} example, and one has no spread",
            remedy="hold out more when training: data.split=0.6,0.2,0.2",
        )
    n = settings.n or max(FEWEST, usual_count(known))
    # Independent draws: classes in turn, or in other shares than the data's, would be another distribution.
    named = model.conditional and targets.of(run.schema).one_class
    labels = known.drawn_classes(n, settings.seed) if named else None
    key, shown = random.key(settings.seed, "probe"), data.held_out()[0]
    drawn = draw(model, data, n, key, shown, labels, **_options(model, settings))
    flat = as_rows(drawn)
    found = measure(known, flat)
    if "finite_samples" in found:
        return Outcome(
            [f"{one}." for one in alarms(found)], numbers={"finite": found["finite_samples"].value}
        )
    numbers = {name: metric.value for name, metric in found.items()}
    said, of_classes = _of_classes(known, flat, labels, numbers)
    _, beside = beside_real({name: metric for name, metric in found.items() if "." not in name})
    findings = [
        *(f"{one[0].upper()}{one[1:]}." for one in alarms(found)),
        *said,
        *_further(known, flat, settings.permutations, numbers),
        *_words(found, len(flat)),
        *known.said,
    ]
    pictures: list[Picture] = [
        sample_pictures.nearest_distances(
            known, *(nearest(x, known.train)[0][:, 0] for x in (flat, known.held_out))
        ),
        sample_pictures.closest(known, run.schema, flat),
        *sample_pictures.modes(known, flat),
        *sample_pictures.labels(known, found),
        *of_classes,
    ]
    return Outcome(findings, pictures, _table(beside), numbers)


def _options(model: CanSample, settings: GenerationSettings) -> dict[str, Any]:
    """Options of sampling that were given, where the model has them."""
    given = {"guidance": settings.guidance, "steps": settings.steps}
    known = option_fields(model.sample_options())
    for name, value in given.items():
        if value is not None and name not in known:
            raise ArgumentError(f"{name}={value}: the model draws without {name}", remedy=f"leave {name} out")
    return {name: value for name, value in given.items() if value is not None}


def _of_classes(
    known: RealExamples, flat: Examples, labels: np.ndarray | None, numbers: dict[str, Any]
) -> tuple[list[str], list[Picture]]:
    """What is made of each class that was asked for, added to the numbers, said and shown."""
    if labels is None or known.held_out_y is None:
        return [], []
    ours, real = numbers_of_classes(known, flat, labels)
    shares = [np.bincount(y, minlength=known.classes) / len(y) for y in (labels, known.held_out_y)]
    for name, one, share in (("accuracy", ours, shares[0]), (f"accuracy{OF_REAL}", real, shares[1])):
        numbers[name] = float(np.nansum(np.asarray(one.accuracy) * share))
    for end, one in (("", ours), (OF_REAL, real)):
        for name, values in one._asdict().items():
            numbers[f"class_{name}{end}"] = [None if np.isnan(value) else value for value in values]
    said = [
        f"{100 * numbers['accuracy']:.1f} % of {len(flat)} samples are of the class they were asked for, "
        f"says a classifier of the training examples (right for {100 * numbers[f'accuracy{OF_REAL}']:.1f} % of "
        "held-out examples)."
    ]
    coverage = np.asarray(ours.coverage)
    if not np.isnan(coverage).all():
        least = int(np.nanargmin(coverage))
        said.append(
            f"Of all classes {plain(known.schema.classes[least])} is covered least: {coverage[least]:.2f} of its "
            f"training examples have a sample near (held-out examples: {real.coverage[least]:.2f})."
        )
    return said, sample_pictures.of_classes(known, ours, real)


def _words(found: Mapping[str, Metric], count: int) -> list[str]:
    """The numbers in sentences."""
    value = {name: metric.value for name, metric in found.items()}

    def both(name: str) -> str:
        return f"{short_number(value[name])} (real {short_number(value[name + OF_REAL])})"

    said = []
    if "modes_found" in value:
        said.append(
            f"{value['modes_found']:.0f} modes {found['modes_found'].unit}; {100 * value['high_quality_share']:.1f} % "
            f"of the samples are that near to one (real {100 * value['high_quality_share' + OF_REAL]:.1f} %)."
        )
    spread = value.get("kernel_distance_spread")  # of very few examples there are no subsets
    over = "" if spread is None else f", over subsets ± {short_number(spread)}"
    said.append(
        f"Kernel distance {both('kernel_distance')}{over}; "
        f"Sinkhorn divergence from held-out examples {both('sinkhorn_divergence')}; sliced distance "
        f"{both('sliced_distance')}."
    )
    if "sample_precision" in value:
        said.append(
            f"Precision {both('sample_precision')}, recall {both('sample_recall')}, density "
            f"{both('sample_density')}, coverage {both('sample_coverage')}; neighbours tell samples from "
            f"held-out examples in {100 * value['two_sample_accuracy']:.0f} % of cases "
            f"({found['two_sample_accuracy'].kind})."
        )
    said.append(
        f"Distance of the median sample from its nearest training example {both('nearest_training_distance')}; "
        f"{round(value['training_copies'] * count)} of {count} samples are copies. Mean distance of two samples "
        f"{both('variety')}."
    )
    if "classifier_score" in value:
        said.append(
            f"Classifier score {both('classifier_score')}, {found['classifier_score'].unit}, by a classifier that is "
            f"right about {100 * value['classifier_accuracy']:.0f} % of held-out examples; classes found: "
            f"{value['classes_found']:.0f} {found['classes_found'].unit}."
        )
    return said


def _further(known: RealExamples, flat: Examples, permutations: int, numbers: dict[str, Any]) -> list[str]:
    """What only a probe computes, added to the numbers and said."""
    seen = known.features(flat)
    infinite, distance = frechet_at_infinity(seen, known.train_features), numbers["feature_frechet_distance"]
    numbers["feature_frechet_distance_at_infinity"] = infinite
    said = [
        f"Feature Fréchet distance {short_number(distance)} "
        f"(real {short_number(numbers[f'feature_frechet_distance{OF_REAL}'])}); for infinitely many samples a line "
        f"through parts of them has {short_number(infinite)}. Features: {known.features.words} "
        f"({known.features.size}, hash {known.features.hash})."
    ]
    if permutations:
        held_out = known.features(known.held_out)
        tested = two_sample_test(
            seen[:_TESTED], held_out[:_TESTED], _of_three_widths(held_out), permutations=permutations
        )
        numbers["kernel_test_p_value"] = tested.p_value
        said.append(
            f"If samples and held-out examples were of one distribution, they would be as far apart, by Gaussian "
            f"kernels of three widths, with probability {short_number(tested.p_value)} ({permutations:,} shuffles)."
        )
    return said


def _of_three_widths(held_out: Examples) -> Kernel:
    """As wide as two held-out examples are apart, a quarter and a sixteenth: wide kernels do not see narrow modes."""
    apart = float(np.sqrt(2 * held_out.var(axis=0).sum())) or 1.0
    return RBF(apart) + RBF(apart / 4) + RBF(apart / 16)


def _table(beside: Mapping[str, Beside]) -> Table:
    rows: list[list[str | float | int]] = [
        [name.replace("_", " "), both.samples.value, both.real.value, both.samples.unit]
        for name, both in beside.items()
    ]
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
