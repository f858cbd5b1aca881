"""Thresholds of labels against all there are, and as a part of scores and predictions."""

import json
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sklearn.metrics

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, from_arrays
from chainrule.models.protocol import CanPredict, Metrics
from chainrule.train import Run, choose_thresholds, fit


@final
class Doubtful(CanPredict):
    """Log-odds that are the inputs themselves, all of them too low."""

    shift: Array

    def predict(self, x: Array) -> Array:
        return jax.nn.sigmoid(x - self.shift[None])

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return 0 * (self.shift.sum() + batch.x.sum()), {}


def examples(n: int = 400) -> Data:
    noise = np.random.default_rng(0)
    x = noise.normal(size=(n, 3))
    y = (x + 0.7 * noise.normal(size=x.shape) > [0.0, 1.0, 1.6]).astype(np.int32)
    return from_arrays(x, y, split=(0.2, 0.4, 0.4), kind="table")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "labels"
    return fit(Doubtful(jnp.full((1,), 3.0)), examples(), run=folder, steps=1, batch=4)


def test_no_other_threshold_has_a_higher_f1() -> None:
    noise = np.random.default_rng(0)
    y = noise.integers(0, 2, (50, 4))
    p = np.clip((0.3 * y + noise.random(y.shape)) / 1.3, 0, 1).round(1)  # many are equal
    found = choose_thresholds(p, y)
    for k in range(4):
        every = [sklearn.metrics.f1_score(y[:, k], p[:, k] >= t) for t in np.unique(p)]
        assert sklearn.metrics.f1_score(y[:, k], p[:, k] >= found[k]) == pytest.approx(max(every))
    assert choose_thresholds(p, np.zeros_like(y)).tolist() == [0.5] * 4
    with pytest.raises(ArgumentError, match="choose_thresholds: probabilities"):
        choose_thresholds(p, y[:, :2])


def test_predictions_say_labels_at_the_thresholds_of_validation_and_scores_have_both(run: Run) -> None:
    found = run.thresholds()
    assert (found.values < 0.2).all()
    assert found.examples == len(run.data.val)
    assert json.loads((run.path / "thresholds.json").read_text())["thresholds"] == found.values.tolist()
    scored = run.score()
    assert scored["f1"].value < 0.2 < 0.5 < scored["f1_at_thresholds"].value
    names = run.schema.classes
    assert [scored[f"threshold.{name}"].value for name in names] == found.values.tolist()
    y = np.asarray(run.data.test.y)
    answers = run.predict(run.data.inverse(run.data.test.x))
    said = np.array([[name in row.split(", ") for name in names] for row in answers["prediction"]])
    assert said.any(axis=0).all()
    assert (said == y).all(axis=1).mean() == pytest.approx(scored["exact_match_at_thresholds"].value)
    for k, name in enumerate(names):
        expected = sklearn.metrics.f1_score(y[:, k], said[:, k])
        assert scored[f"f1_at_threshold.{name}"].value == pytest.approx(expected)
        precision = sklearn.metrics.average_precision_score(y[:, k], answers[name])
        assert scored[f"average_precision.{name}"].value == pytest.approx(precision)
    assert any("label 0 0." in note for note in answers.notes)


def test_a_damaged_file_is_made_again_and_without_the_data_one_half_decides(run: Run) -> None:
    found = run.thresholds()
    (run.path / "thresholds.json").write_text('{"thresholds": [0.1, 0.2, 7], "examples": 4, "step": 1}')
    assert run.thresholds().values.tolist() == found.values.tolist()
    (run.path / "thresholds.json").unlink()
    alone = Run.open(run.path, model=Doubtful(jnp.full((1,), 3.0)))
    answers = alone.predict(run.data.inverse(run.data.test.x))
    assert ["label 1" in row for row in answers["prediction"]] == (answers["label 1"] >= 0.5).tolist()
    assert any("from a probability of 0.5 on: others need the validation" in note for note in answers.notes)
