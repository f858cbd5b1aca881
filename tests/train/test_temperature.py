"""Temperature scaling against SciPy, and as a part of scores and predictions."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

from chainrule.core.errors import ArgumentError
from chainrule.data import from_arrays
from chainrule.train import Run, fit, fit_temperature
from chainrule.train.scores.classification import calibration
from chainrule.train.temperature import LARGEST, at_temperature
from tests.train.test_predicting import Linear


def guesses(heat: float, n: int = 4000, classes: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Logits that are `heat` times too large, and labels drawn by the right ones."""
    noise = np.random.default_rng(0)
    logits = 1.5 * noise.normal(size=(n, classes))
    p = scipy.special.softmax(logits, axis=1)
    labels = (p.cumsum(axis=1) < noise.random((n, 1))).sum(axis=1)
    return heat * logits, labels


def loss(logits: np.ndarray, labels: np.ndarray, inverse: float) -> float:
    own = scipy.special.log_softmax(inverse * logits, axis=1)[np.arange(len(labels)), labels]
    return -float(own.mean())


@pytest.mark.parametrize("heat", [0.3, 1.0, 4.0])
def test_the_temperature_is_the_one_of_the_lowest_cross_entropy(heat: float) -> None:
    logits, labels = guesses(heat)
    found = fit_temperature(logits, labels)
    best = scipy.optimize.minimize_scalar(
        lambda inverse: loss(logits, labels, inverse),
        bounds=(0.05, 20),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert 1 / found == pytest.approx(best.x, rel=1e-5)
    assert found == pytest.approx(heat, rel=0.1)
    p = scipy.special.softmax(logits, axis=1)
    assert calibration(at_temperature(p, found), labels)[0] < 0.02
    np.testing.assert_array_equal(at_temperature(p, found).argmax(axis=1), p.argmax(axis=1))
    np.testing.assert_allclose(
        at_temperature(p, found), scipy.special.softmax(logits / found, axis=1), atol=1e-9
    )


def test_temperatures_have_ends() -> None:
    logits = np.array([[2.0, 0.0], [0.0, 3.0]])
    assert fit_temperature(logits, np.array([0, 1])) == 1 / LARGEST  # all right: the surer the better
    assert fit_temperature(logits, np.array([1, 0])) == LARGEST
    assert fit_temperature(np.array([[1000.0, 0.0], [1000.0, 0.0]]), np.array([0, 1])) == LARGEST
    with pytest.raises(ArgumentError, match="fit_temperature: logits of shape"):
        fit_temperature(logits, np.array([0]))
    with pytest.raises(ArgumentError):
        fit_temperature(logits, np.array([0, 2]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    logits, labels = guesses(4.0, n=600, classes=3)
    data = from_arrays(logits, labels, split=(0.2, 0.4, 0.4), kind="table")
    weights = jnp.asarray(np.diag(np.asarray(data.scaling.factor) ** -1).astype(np.float32))
    folder = tmp_path_factory.mktemp("runs") / "sure"
    return fit(Linear(weights, classes=True), data, run=folder, steps=1, batch=4)


def test_scores_and_predictions_are_given_at_the_temperature_of_validation(run: Run) -> None:
    found = run.temperature()
    assert found.value == pytest.approx(4, rel=0.3)
    assert found.after < found.before
    assert json.loads((run.path / "temperature.json").read_text())["value"] == found.value
    plain, scored = run.score(), run.score(calibrated=True)
    assert scored.keys() - plain.keys() == {
        "temperature",
        "loss_at_temperature",
        "calibration_error_at_temperature",
    }
    assert scored["calibration_error_at_temperature"].value < scored["calibration_error"].value
    x = run.data.inverse(run.data.test.x)
    before, after = run.predict(x), run.predict(x, calibrated=True)
    np.testing.assert_array_equal(before["prediction"], after["prediction"])
    assert after["probability"].mean() < before["probability"].mean() - 0.05
    assert any("at temperature" in note for note in after.notes)
    y = np.asarray(run.data.test.y)
    p = np.stack([after[name] for name in run.data.schema.classes], axis=1)
    own = -np.log(p[np.arange(len(y)), y])
    assert scored["loss_at_temperature"].value == pytest.approx(own.mean(), rel=1e-4)


def test_where_every_validation_example_is_right_no_temperature_is_fitted(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 2))
    data = from_arrays(x, (x[:, 1] > x[:, 0]).astype(int), kind="table")
    run = fit(Linear(9 * jnp.eye(2), classes=True), data, run=tmp_path / "right", steps=1, batch=4)
    found = run.temperature()
    right = (run.predict(data.inverse(data.val.x))["prediction"] == np.asarray(data.val.y).astype(str)).all()
    assert right
    assert (found.value, found.before) == (1.0, found.after)
    assert "all of the 4 validation examples are right" in found.note()


def test_a_damaged_file_is_made_again_and_other_targets_have_no_temperature(run: Run, tmp_path: Path) -> None:
    found = run.temperature()
    (run.path / "temperature.json").write_text('{"value": 1e9, "step": 1}')
    assert run.temperature() == found
    noise = np.random.default_rng(0)
    values = from_arrays(noise.normal(size=(40, 3)), noise.normal(size=40))
    other = fit(Linear(jnp.ones(3), classes=False), values, run=tmp_path / "values", steps=1, batch=4)
    with pytest.raises(ArgumentError, match="only probabilities of classes have a temperature"):
        other.predict(np.zeros((1, 3)), calibrated=True)
    with pytest.raises(ArgumentError, match="only probabilities of classes have a temperature"):
        other.score(calibrated=True)
