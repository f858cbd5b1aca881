"""Predictions for new inputs: those of the model, in order, with intervals, problems and scores."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import final

import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core import progress
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, Scaling, from_arrays
from chainrule.models.protocol import CanPredict, Metrics, Model
from chainrule.train import Run, fit
from chainrule.train.intervals import Residuals
from chainrule.train.thresholds import choose_thresholds
from tests.train.toys import numbers, rows


@final
class Linear(CanPredict):
    """Outputs that are linear in the example; softmax of them for classes."""

    w: Array
    classes: bool

    def predict(self, x: Array) -> Array:
        out = x @ self.w
        return jnp.exp(out) / jnp.exp(out).sum(axis=1, keepdims=True) if self.classes else out

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return 0 * (self.w.sum() + batch.x.sum()), {}  # training leaves it as it is


@final
class Idle(Model):
    """Can be trained and nothing else."""

    w: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(self.w).sum(), {}


def classes(n: int = 60) -> Data:
    noise = np.random.default_rng(0)
    x = noise.normal(size=(n, 3)) * [1.0, 10.0, 100.0] + [0.0, 5.0, 50.0]
    return from_arrays(x, np.where(x[:, 0] > 0, "yes", "no"))


def trained(path: Path, model: Model, data: Data) -> Run:
    return fit(model, data, run=path, steps=1, batch=4)


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Run:
    w = jnp.array([[0.5, -0.5], [0.1, 0.3], [-0.2, 0.1]])
    return trained(tmp_path_factory.mktemp("runs") / "classes", Linear(w, True), classes())


def test_classes_get_names_and_probabilities_in_the_order_of_the_inputs(classifier: Run) -> None:
    raw = np.random.default_rng(1).normal(size=(7, 3)) * 20
    found = classifier.predict(raw)
    expected = np.asarray(classifier.model.predict(jnp.asarray(classifier.scaling.apply(raw), jnp.float32)))  # type: ignore[attr-defined]
    assert list(found.columns) == ["prediction", "probability", "no", "yes"]
    assert np.stack([found["no"], found["yes"]], axis=1) == pytest.approx(expected, abs=1e-5)
    assert found.prediction.tolist() == [("no", "yes")[i] for i in expected.argmax(axis=1)]
    assert found["probability"] == pytest.approx(expected.max(axis=1), abs=1e-5)
    assert found.names == tuple(map(str, range(7)))
    assert found.metrics == {}


def test_more_inputs_than_a_batch_holds_are_predicted_by_one_program(classifier: Run) -> None:
    raw = np.random.default_rng(1).normal(size=(1300, 3))
    seen: list[tuple[int, int]] = []
    with progress.listening(lambda what, done, total: seen.append((done, total))):
        found = classifier.predict(raw)
    singles = [classifier.predict(raw[i]).prediction[0] for i in (0, 600, 1299)]
    assert found.prediction[[0, 600, 1299]].tolist() == singles
    assert seen[-1] == (1300, 1300)


def test_an_input_that_cannot_be_used_keeps_its_row_and_is_named(classifier: Run, tmp_path: Path) -> None:
    raw = np.ones((4, 3))
    raw[2, 1] = np.inf
    found = classifier.predict(raw)
    assert found.problems == (("2", "row 2", "NaN or infinite"),)
    assert found.prediction[2] == ""
    assert np.isnan(found["yes"][2])
    assert np.isfinite(found["yes"][[0, 1, 3]]).all()
    written = classifier.write_predictions(raw, tmp_path / "out")
    table = list(csv.reader(written.path.read_text().splitlines()))
    assert table[0] == ["name", "prediction", "probability", "no", "yes"]
    assert table[3] == ["2", "", "", "", ""]
    assert len(table) == 5
    assert written.problems_path is not None
    assert written.problems_path.read_text().splitlines() == ["name,where,problem", "2,row 2,NaN or infinite"]
    again = classifier.write_predictions(raw[:2], tmp_path / "out")
    assert again.problems_path is None
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["predictions.csv"]


def test_inputs_none_of_which_can_be_used_have_rows_all_the_same(classifier: Run) -> None:
    found = classifier.predict(np.full((3, 3), np.nan))
    assert len(found) == len(found.problems) == 3
    assert found.prediction.tolist() == ["", "", ""]


def test_targets_in_the_file_give_the_scores_of_score(classifier: Run, tmp_path: Path) -> None:
    data = classifier.data
    raw, y = data.inverse(data.test.x), np.array(data.schema.classes)[np.asarray(data.test.y)]
    np.savez(tmp_path / "new.npz", x=raw, y=y)
    found = classifier.predict(tmp_path / "new.npz").metrics
    expected = classifier.score("test")
    assert set(found) == set(expected) - {"loss", "train_loss", "overfitting_gap"}
    assert {name: metric.value for name, metric in found.items()} == pytest.approx(
        {name: expected[name].value for name in found}, abs=1e-6
    )


def test_a_failed_prediction_leaves_the_former_file(classifier: Run, tmp_path: Path) -> None:
    classifier.write_predictions(np.ones((2, 3)), tmp_path)
    before = (tmp_path / "predictions.csv").read_bytes()

    def fail(what: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with progress.listening(fail), pytest.raises(KeyboardInterrupt):
        classifier.write_predictions(np.zeros((2, 3)), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.csv"]
    assert (tmp_path / "predictions.csv").read_bytes() == before


def test_several_labels_are_a_probability_each_and_the_set_of_the_likely(tmp_path: Path) -> None:
    noise = np.random.default_rng(2)
    x = noise.normal(size=(60, 2))
    data = from_arrays(x, (x > 0).astype(int), kind="table")
    run = trained(tmp_path / "run", Linear(jnp.eye(2) + 0.5, False), data)
    scaled = np.array([[0.4, 0.4], [0.4, -0.4], [-1.0, -1.0]])
    found = run.predict(data.scaling.inverse(scaled))
    expected = scaled @ (np.eye(2) + 0.5)
    assert np.stack([found["label 0"], found["label 1"]], axis=1) == pytest.approx(expected, abs=1e-5)
    # What is said is what reaches the threshold of the highest F1 on validation examples.
    y = np.asarray(data.val.y)
    cut = choose_thresholds(data.val.x @ (np.eye(2) + 0.5), y)
    assert found.prediction.tolist() == [
        ", ".join(f"label {i}" for i in range(2) if row[i] >= cut[i]) for row in expected
    ]
    assert found.prediction.tolist()[::2] == ["label 0, label 1", ""]


@pytest.mark.parametrize("outputs", [1, 2])
def test_intervals_of_values_are_those_of_split_conformal_prediction(tmp_path: Path, outputs: int) -> None:
    noise = np.random.default_rng(3)
    x = noise.normal(size=(300, 2))
    w = noise.normal(size=(2, outputs))
    y = 100 + 10 * (x @ w + noise.normal(size=(300, outputs)) * np.arange(1, outputs + 1))
    data = from_arrays(
        x, y if outputs > 1 else y[:, 0], kind="table", target_as="value", split=(0.3, 0.3, 0.4)
    )
    assert data.target_scaling is not None
    model = Linear(jnp.asarray(w if outputs > 1 else w[:, 0], jnp.float32), False)
    run = trained(tmp_path / "run", model, data)
    found = run.predict(data.inverse(data.test.x), level=0.8)

    def original(values: object) -> np.ndarray:
        assert data.target_scaling is not None
        return np.asarray(data.target_scaling.inverse(np.asarray(values, np.float64))).reshape(-1, outputs)

    residuals = np.abs(original(model.predict(jnp.asarray(data.val.x))) - original(data.val.y))
    half = np.sort(residuals, axis=0)[int(np.ceil(0.8 * 91)) - 1]
    predicted, true = original(model.predict(jnp.asarray(data.test.x))), original(data.test.y)
    for index in range(outputs):
        suffix = f" output {index}" if outputs > 1 else ""
        low, middle, high = (found[f"{what}{suffix}"] for what in ("low", "prediction", "high"))
        assert middle == pytest.approx(predicted[:, index], rel=1e-5)
        assert high - middle == pytest.approx(np.full(len(middle), half[index]), rel=1e-4)
        assert middle - low == pytest.approx(np.full(len(middle), half[index]), rel=1e-4)
        held = ((low <= true[:, index]) & (true[:, index] <= high)).mean()
        assert 0.7 < held < 0.9  # 120 test examples: four standard errors are 0.15
    assert "intervals of level 0.8: by how far 90 validation examples were" in found.notes[0]
    nothing = run.predict(np.full((2, 2), np.nan))
    assert len(nothing) == len(nothing.problems) == 2
    assert np.isnan(nothing.prediction).all()


def test_several_values_of_a_table_are_called_like_its_columns(tmp_path: Path) -> None:
    lines = [f"{i},{2 * i + i % 3},{i % 7 - 3}.5" for i in range(60)]
    (tmp_path / "sizes.csv").write_text("\n".join(["age,height,width", *lines]) + "\n")
    data = cr.data.load(tmp_path / "sizes.csv", target=["height", "width"])
    run = trained(tmp_path / "run", Linear(jnp.ones((1, 2)), False), data)
    found = run.predict(tmp_path / "sizes.csv")
    heads = [f"{what} {name}" for name in ("height", "width") for what in ("prediction", "low", "high")]
    assert list(found.columns) == heads
    assert found.prediction.shape == (60, 2)
    assert {"rmse.height", "r2.width"} <= set(found.metrics)
    assert set(run.score()) - {"loss", "train_loss", "overfitting_gap"} == set(found.metrics)


def test_too_few_or_no_validation_examples_give_no_intervals_and_say_so(tmp_path: Path) -> None:
    x = np.random.default_rng(4).normal(size=(60, 2))
    run = trained(tmp_path / "run", Linear(jnp.ones(2), False), from_arrays(x, x[:, 0], kind="table"))
    alone = Run.open(run.path, model=Linear(jnp.ones(2), False)).predict(x[:2])
    assert alone.notes[0].startswith(
        "no intervals: they need the validation examples (run was trained on data"
    )
    found = run.predict(x[:2], level=0.9)
    assert np.isnan(found["low"]).all()
    assert found.prediction == pytest.approx(alone.prediction)
    assert found.notes == ("no intervals: 6 validation examples are too few for level=0.9 (needed: 9)",)
    with pytest.raises(ArgumentError, match=r"level=1: an interval holds a value with a probability between"):
        run.predict(x, level=1)


def test_residuals_are_kept_with_the_run_and_made_again_where_they_are_not_its_own(tmp_path: Path) -> None:
    x = np.random.default_rng(4).normal(size=(200, 2))
    run = trained(tmp_path / "run", Linear(jnp.ones(2), False), from_arrays(x, x[:, 0], kind="table"))
    expected = run.predict(x[:2])
    file = run.path / "residuals.json"
    alone = Run.open(run.path, model=Linear(jnp.ones(2), False))
    assert alone.predict(x[:2])["low"] == pytest.approx(expected["low"])
    good = file.read_text()
    for bad in (
        "{",
        "[]",
        good.replace('"step": 1', '"step": 7'),
        good.replace('"count": 20', '"count": 30'),
    ):
        file.write_text(bad)
        assert run.predict(x[:2])["low"] == pytest.approx(expected["low"])
        assert file.read_text() == good


def test_of_very_many_residuals_some_are_kept_and_intervals_are_never_narrower() -> None:
    residuals = np.random.default_rng(0).permutation(np.arange(1.0, 12_346.0))[:, None]
    few = Residuals.of(residuals)
    assert len(few.ranks) == len(few.values) <= 5000
    for level in (0.01, 0.5, 0.9, 0.999):
        exact = np.ceil(12_346 * level)
        reach = few.reach(level)
        assert reach is not None
        assert exact <= reach[0] <= exact + 3
    assert Residuals.of(residuals[:19]).reach(0.95) == pytest.approx([residuals[:19].max()])
    assert Residuals.of(residuals[:18]).reach(0.95) is None


def test_a_model_that_predicts_nothing_names_another_verb(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", Idle(jnp.ones(2)), numbers())
    with pytest.raises(CapabilityError, match=r"Idle has no targets(?s:.*)chainrule score .*run data=FILE"):
        run.predict(np.ones((2, 3)))


def test_nothing_to_predict_for_is_an_error(classifier: Run, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("column 0,column 1,column 2\n")
    with pytest.raises(DataError, match="there are no rows to predict anything for"):
        classifier.write_predictions(tmp_path / "new.csv", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_data_that_were_scaled_by_themselves_are_not_scored(classifier: Run) -> None:
    other = from_arrays(np.random.default_rng(5).normal(size=(30, 3)), ["no", "yes"] * 15)
    assert other.schema == classifier.schema
    with pytest.raises(ArgumentError, match="these data were prepared by themselves"):
        classifier.score(data=other)
    assert classifier.score(data=classifier.data) == classifier.score()


def test_a_horizon_is_for_series(classifier: Run) -> None:
    with pytest.raises(CapabilityError, match="horizon=5: classes is no model of series"):
        classifier.predict(np.ones((2, 3)), horizon=5)


def test_a_class_called_like_a_column_does_not_hide_it(tmp_path: Path) -> None:
    data = rows(
        *(np.ones((20, 2), np.float32), np.arange(20, dtype=np.int32) % 2),
        sizes=(4, 4),
        scaling=Scaling(),
        kind="table",
        target="class",
        classes=("prediction", "name"),
    )
    run = trained(tmp_path / "run", Linear(jnp.eye(2), True), data)
    found = run.predict(np.ones((1, 2)))
    assert list(found.columns) == ["prediction", "probability", "prediction (class)", "name (class)"]
    assert found.rows[0]["name"] == "0"


_PEAK = """
import resource, sys
import chainrule as cr
written = cr.Run.open(sys.argv[1]).write_predictions(sys.argv[2], sys.argv[3])
print(written.total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow  # two processes and many rows
def test_memory_does_not_grow_with_the_number_of_rows(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("x,y\n" + "".join(f"{i},{2 * i + i % 3}.5\n" for i in range(60)))
    data = cr.data.load(tmp_path / "train.csv", target="y")
    model = cr.models.build("mlp", data, width=4, depth=1)
    run = cr.fit(model, data, run=tmp_path / "run", steps=2, batch=8)
    peaks = {}
    for count in (60_000, 240_000):
        path = tmp_path / f"{count}.csv"
        with path.open("w") as file:
            file.write("x,remark\n")
            file.writelines(f"{i},{'-' * 300}\n" for i in range(count))
        command = [sys.executable, "-c", _PEAK, str(run.path), str(path), str(tmp_path / "out")]
        child = subprocess.run(command, capture_output=True, text=True, check=True)
        total, peak = map(int, child.stdout.split())
        assert total == count
        with (tmp_path / "out" / "predictions.csv").open() as file:
            assert sum(1 for _ in file) == count + 1
        peaks[count] = peak
    size = (tmp_path / "240000.csv").stat().st_size - (tmp_path / "60000.csv").stat().st_size
    assert peaks[240_000] - peaks[60_000] < size  # the file alone, read as a whole, would take more
