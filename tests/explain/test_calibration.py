"""Calibration of a classifier, and classifiers against the error that nobody beats."""

import numpy as np
import pytest

import chainrule as cr
from chainrule.explain import experiments, probes


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    """Naive Bayes of entries that come three times, which it takes for three witnesses."""
    draws = np.random.default_rng(0)
    y = draws.integers(0, 2, 3000)
    seen = draws.normal(size=(3000, 1)) + y[:, None]
    data = cr.data.from_arrays(np.repeat(seen, 3, axis=1), y, kind="table", split=(0.4, 0.3, 0.3))
    model = cr.models.build("gaussian-classifier", data, covariance="diagonal")
    return cr.fit(model, data, run=tmp_path_factory.mktemp("runs") / "thrice")


def test_a_temperature_mends_what_counts_evidence_three_times(run: cr.Run) -> None:
    found = probes.examine("calibration", run)
    # Logits are three times too large: the temperature that undoes it is three.
    assert found.numbers["temperature"] == pytest.approx(3.0, rel=0.1)
    before, after = (found.numbers[name] for name in found.numbers if name != "temperature")
    assert before["overconfidence"] > 0.1
    assert abs(after["overconfidence"]) < 0.04
    assert after["calibration_error"] < 0.5 * before["calibration_error"]
    assert after["loss"] < before["loss"]


def test_the_score_at_the_temperature_is_the_same(run: cr.Run) -> None:
    found = run.score("test", calibrated=True)
    mine = list(probes.examine("calibration", run).numbers.values())[2]
    assert found["calibration_error_at_temperature"].value == pytest.approx(
        mine["calibration_error"], abs=1e-4
    )
    assert found["loss_at_temperature"].value == pytest.approx(mine["loss"], rel=1e-4)


def test_no_classifier_beats_the_bayes_error_and_the_right_family_reaches_it() -> None:
    found = experiments.run("bayes-error", examples=(3000,), draws=20_000, steps=20).numbers
    for values in found["excess"].values():
        assert min(values) >= 0
    assert found["excess"]["QDA"][0] < 0.002
    assert found["excess"]["LDA"][0] > 0.005  # covariances differ: borders are no lines
    assert found["method"] == "quadrature"


def test_two_classes_of_one_covariance_have_an_exact_error() -> None:
    found = experiments.run(
        "bayes-error", classes=2, dimensions=5, covariances="same", examples=(2000,), draws=5000, steps=5
    ).numbers
    assert found["method"] == "exact"
    assert found["excess"]["LDA"][0] < 0.005
