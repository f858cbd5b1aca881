"""Numbers of samples beside those of real examples: good, collapsed, copied and broken samples."""

import dataclasses
import math

import numpy as np
import pytest

from chainrule import data
from chainrule.core.errors import ArgumentError
from chainrule.train import Metric
from chainrule.train.generation.measures import OF_REAL, beside_real, error_of_sets, measure
from chainrule.train.generation.real_examples import RealExamples, real_examples
from chainrule.train.generation.words import alarms
from chainrule.train.scoring import check_comparable

DISTANCES = ("feature_frechet_distance", "kernel_distance", "sinkhorn_divergence", "sliced_distance")


@pytest.fixture(scope="module")
def ring() -> RealExamples:
    return real_examples(data.load("ring", n=3000))


@pytest.fixture(scope="module")
def good(ring: RealExamples) -> dict[str, Metric]:
    return measure(ring, real_examples(data.load("ring", n=3000, seed=5)).train[:2400])


def values(found: dict[str, Metric], name: str) -> tuple[float, float]:
    return found[name].value, found[f"{name}{OF_REAL}"].value


def test_draws_from_the_same_distribution_score_as_held_out_examples_do(good: dict[str, Metric]) -> None:
    for name in DISTANCES:
        ours, real = values(good, name)
        assert ours < 3 * abs(real) + 0.02, name
    for name in ("sample_precision", "sample_recall", "sample_coverage", "sample_density"):
        ours, real = values(good, name)
        assert ours == pytest.approx(real, abs=0.1), name
    low, high = good["two_sample_accuracy"].kind.split("95 %: ")[1].split(" to ")
    assert float(low) < 0.5 < float(high)
    assert good["training_copies"].value == 0
    assert good["modes_found"].value == 8
    assert good["modes_found"].unit.startswith("of 8, with 20 samples or more")
    assert good["high_quality_share"].value == pytest.approx(1 - math.exp(-4.5), abs=0.01)
    assert good["classifier_score"].value > 7
    assert sum(good[f"label_share.{name}"].value for name in ring_classes()) == pytest.approx(1)
    assert alarms(good) == []


def ring_classes() -> tuple[str, ...]:
    return data.load("ring", n=10).schema.classes


def test_every_number_of_samples_has_one_of_real_examples_beside_it(good: dict[str, Metric]) -> None:
    alone, beside = beside_real({name: metric for name, metric in good.items() if "." not in name})
    assert set(alone) == {
        "samples",
        "compared_at_once",
        "real_examples",
        "sample_features",
        "classifier_accuracy",
    }
    assert alone["classifier_accuracy"].value > 0.95
    assert len(beside) >= 15
    assert all(math.isfinite(m.value) for m in good.values())


def test_samples_of_few_modes_are_called_a_collapse(ring: RealExamples) -> None:
    assert ring.train_y is not None
    few = ring.train[ring.train_y < 3]
    found = measure(ring, few + 0.01 * np.random.default_rng(0).normal(size=few.shape))
    assert found["modes_found"].value == 3
    assert found["modes_found"].value < found[f"modes_found{OF_REAL}"].value / 2
    assert found["mode_divergence"].value == pytest.approx(math.log(8 / 3), abs=0.01)
    assert values(found, "sample_precision")[0] > 0.9
    assert values(found, "sample_coverage")[0] < 0.5
    assert found["two_sample_accuracy"].value > 0.6
    (said,) = (one for one in alarms(found) if one.startswith("collapse: samples reach 3 of 8 modes"))
    assert "lower learning rate" in said


def test_samples_beside_the_data_are_said_to_be_off_them(ring: RealExamples) -> None:
    found = measure(ring, np.random.default_rng(0).normal(size=(400, 2)) * 0.1)
    assert found["modes_found"].value == 0
    assert any(one.startswith("off the data: samples reach 0 of 8 modes") for one in alarms(found))


def test_training_examples_are_called_copies(ring: RealExamples) -> None:
    found = measure(ring, ring.train[:300])
    assert found["training_copies"].value == 1
    assert found["training_copies_of_real"].value == 0
    assert any(one.startswith("copies: 100.0 % of the samples") for one in alarms(found))


def test_samples_that_are_no_numbers_are_counted_and_nothing_else_is_said(ring: RealExamples) -> None:
    broken = ring.train[:100].copy()
    broken[:25] = np.nan
    found = measure(ring, broken)
    assert {name: metric.value for name, metric in found.items()} == {"finite_samples": 0.75}
    assert alarms(found)[0].startswith("25.0 % of the samples are not finite")


def test_fewer_samples_than_features_are_too_few() -> None:
    known = real_examples(data.load("digits"))
    found = measure(known, known.train[:30])
    assert any(
        one.startswith("few samples: ") and "64 features by 30 samples" in one for one in alarms(found)
    )
    assert any(one.endswith(f"samples={min(256, len(known.held_out))}") for one in alarms(found))
    # Asking for more would not help.
    short = {"samples": 40, "compared_at_once": 40, "real_examples": 40, "sample_features": 64}
    assert "hold out more when training" in alarms({name: Metric(n) for name, n in short.items()})[0]
    assert "features" in found["feature_frechet_distance"].basis
    assert known.features.hash in found["feature_frechet_distance"].basis


def test_a_classifier_that_is_often_wrong_is_said_to_see_little() -> None:
    rng = np.random.default_rng(0)
    noise = data.from_arrays(rng.random((200, 6, 6)), rng.integers(0, 4, 200))
    known = real_examples(noise)
    assert any(
        one.startswith("weak classifier: it is right about") for one in alarms(measure(known, known.train))
    )
    points = real_examples(data.from_arrays(rng.normal(size=(200, 3)), rng.integers(0, 4, 200)))
    said = alarms(measure(points, points.train))  # whose features are no classifier's
    assert not any("weak classifier" in one for one in said)


def test_numbers_on_another_basis_do_not_compare(ring: RealExamples, good: dict[str, Metric]) -> None:
    other = measure(ring, ring.train[:300] + 0.01)
    name = "feature_frechet_distance"
    check_comparable(name, {"one": good[name], "two": good[name]})
    with pytest.raises(ArgumentError, match=r"2,400 samples.*300 samples"):
        check_comparable(name, {"one": good[name], "two": other[name]})
    elsewhere = dataclasses.replace(good[name], basis=good[name].basis.replace(ring.features.hash, "0" * 12))
    with pytest.raises(ArgumentError, match="do not compare"):
        check_comparable(name, {"one": good[name], "two": elsewhere})


@pytest.mark.parametrize("pool", [40, 80, 100_000])
def test_errors_of_sets_that_overlap_are_those_of_their_mean(pool: int) -> None:
    """Means of 4 sets of 20 out of a pool, over many pools: the error is how much their mean varies."""
    rng = np.random.default_rng(0)
    means, errors = [], []
    for _ in range(1000):
        rows = rng.normal(size=min(pool, 160))
        chosen = [rng.permutation(len(rows))[:20] for _ in range(4)]
        if pool > 160:  # so many that no two sets share any
            chosen = list(np.arange(80).reshape(4, 20))
        found = [float(rows[one].mean()) for one in chosen]
        error = error_of_sets(found, 20 / pool)
        assert error is not None
        means.append(np.mean(found))
        errors.append(error**2)
    assert np.mean(errors) == pytest.approx(np.var(means), rel=0.15)
