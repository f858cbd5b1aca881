"""`fit` as a whole: the history it leaves, when it stops, what it compiles, which folders it takes."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, DataError, RunError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data, Schema
from chainrule.models.protocol import Metrics, Model
from chainrule.train import Run, events, fit, resume, runs
from chainrule.train.config import TrainConfig
from chainrule.train.evaluation import mean_loss
from chainrule.train.step import Stepper
from tests.train.toys import Affine, Mean, blobs, line, numbers, rows, train

CONSTANT = {"name": "constant"}
SETTINGS: dict[str, Any] = {
    "steps": 17,
    "batch": 16,
    "log_every": 4,
    "eval_every": 6,
    "save_every": 5,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "schedule": CONSTANT,
}


def affine() -> Affine:
    return Affine(jnp.zeros(3), jnp.zeros(()))


@pytest.fixture(scope="module")
def data() -> Data:
    return replace(line(128, sizes=(30, 30)), notes=(("constant feature", 2),))


@pytest.fixture(scope="module")
def heard() -> list[events.Event]:
    return []


@pytest.fixture(scope="module")
def run(data: Data, heard: list[events.Event], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(
        affine(), data, run=tmp_path_factory.mktemp("runs") / "line", listener=heard.append, **SETTINGS
    )


# ---------------------------------------------------------------------- history


def test_metrics_are_one_object_a_line_with_step_split_and_numbers(run: Run) -> None:
    records = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [(r["step"], r["split"]) for r in records if r["split"] == "train"] == [
        (step, "train") for step in (4, 8, 12, 16, 17)
    ]
    assert [r["step"] for r in records if r["split"] == "val"] == [6, 12, 17]
    assert [r["step"] for r in records] == sorted(r["step"] for r in records)
    for record in records:
        names = set(record) - {"step", "split"}
        assert names == ({"loss", "grad_norm", "lr"} if record["split"] == "train" else {"loss"})
        assert all(isinstance(record[name], float) for name in names)


def test_logged_numbers_are_means_over_the_steps_since_the_last_line(run: Run, data: Data) -> None:
    _, seen, _ = train(affine(), data, 17, optimizer=SETTINGS["optimizer"])
    means = [seen["loss"][first:last].mean() for first, last in ((0, 4), (4, 8), (8, 12), (12, 16), (16, 17))]
    steps, losses = run.curve("loss")
    assert steps.tolist() == [4, 8, 12, 16, 17]
    np.testing.assert_allclose(losses, means, rtol=1e-5)


def test_history_comes_as_columns_with_gaps_where_a_line_has_no_number(run: Run) -> None:
    columns = run.metrics
    assert set(columns) == {"step", "split", "loss", "grad_norm", "lr"}
    assert len({len(column) for column in columns.values()}) == 1
    assert columns["step"].dtype == np.int64
    assert columns["split"].dtype.kind == "U"
    np.testing.assert_array_equal(np.isnan(columns["lr"]), columns["split"] == "val")


def test_a_curve_is_the_part_of_the_history_with_that_number(run: Run) -> None:
    steps, values = run.curve("loss", split="val")
    assert steps.tolist() == [6, 12, 17]
    assert (np.diff(values) < 0).all()
    assert run.curve("lr", split="val")[0].size == 0
    assert run.curve("nothing")[0].size == 0


def test_events_tell_the_story_in_order(run: Run, heard: list[events.Event]) -> None:
    kinds = [type(event).__name__ for event in heard]
    assert kinds[:2] == ["Started", "Compiled"]
    assert heard[0].data.endswith("   noted: constant feature (2)")
    assert kinds[-1] == "Finished"
    logged = [(event.step, event.split) for event in heard if isinstance(event, events.Logged)]
    assert sorted(logged) == sorted(
        zip(run.metrics["step"].tolist(), run.metrics["split"].tolist(), strict=True)
    )
    saved = [event.step for event in heard if isinstance(event, events.Saved)]
    assert set(saved) == {5, 6, 10, 12, 15, 17}  # whole multiples, improvements and the end
    assert (heard[-1].status, heard[-1].step, heard[-1].reason) == ("done", 17, "all steps done")


def test_the_model_of_a_run_is_the_one_its_best_validation_loss_was_measured_on(run: Run, data: Data) -> None:
    loss = mean_loss(run.model, data.val, jax.random.key(0))[0]["loss"]
    assert loss == pytest.approx(run.status["best"]["loss"], rel=1e-6)
    assert run.status["best"]["step"] == 17
    assert run.status["status"] == "done"


def test_scores_of_a_run_are_scores_of_its_model(run: Run) -> None:
    found = run.score("test")
    assert set(found) == {"loss", "train_loss", "overfitting_gap", "rmse", "mae", "r2", "pearson", "spearman"}
    assert found["loss"].value == pytest.approx(found["rmse"].value ** 2, rel=1e-5)
    assert found["r2"].value > 0.9


def test_a_validation_set_can_be_evaluated_in_part(data: Data, tmp_path: Path) -> None:
    part = fit(affine(), data, run=tmp_path / "part", **{**SETTINGS, "steps": 1, "eval_examples": 7})
    x, y = data.val.x[:7], data.val.y[:7]
    expected = np.square(x @ np.asarray(part.model.w) + float(part.model.b) - y).mean()
    assert part.curve("loss", "val")[1].tolist() == pytest.approx([expected], rel=1e-5)


# ---------------------------------------------------------------------- stopping


@final
class Slide(Model):
    """Its loss is its only weight: it falls by the learning rate in every step."""

    w: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return self.w + 0 * batch.x.mean(), {}


def slide(path: Path, rate: float, **settings: Any) -> Run:
    data = numbers(40, 1, sizes=(8, 0))
    given = {"steps": 50, "eval_every": 5, "optimizer": {"name": "sgd", "lr": rate}, "log_every": 5}
    return fit(
        Slide(jnp.ones(())), data, run=path / "slide", batch=8, **{"schedule": CONSTANT, **given, **settings}
    )


@pytest.mark.parametrize(
    ("rate", "stopping", "step"),
    [
        (1e-30, {"patience": 3}, 20),  # best at the first evaluation, then three without improvement
        (1e-30, {"patience": 0}, 50),
        (0.01, {"patience": 1}, 50),  # falls by 0.05 between two evaluations
        (0.01, {"patience": 1, "min_delta": 0.04}, 50),
        (0.01, {"patience": 1, "min_delta": 0.06}, 10),
        (0.01, {"patience": 2, "min_delta": 0.06}, 50),  # every other evaluation is an improvement
    ],
)
def test_training_stops_when_nothing_has_improved_for_that_many_evaluations(
    rate: float, stopping: dict, step: int, tmp_path: Path
) -> None:
    status = slide(tmp_path, rate, stopping=stopping).status
    assert (status["status"], status["step"], status["total"]) == ("done", step, 50)
    patience = stopping["patience"]
    expected = "all steps done" if step == 50 else f"no improvement for {patience} evaluations"
    assert status["message"] == expected


def test_a_run_that_stopped_early_is_finished(tmp_path: Path) -> None:
    for _ in range(2):
        assert slide(tmp_path, 1e-30, stopping={"patience": 2}).status["step"] == 15


def test_the_best_weights_are_kept_when_training_goes_past_them(tmp_path: Path) -> None:
    # Training pulls w from 0 to 1; the validation examples sit at 0.4.
    x = np.concatenate([np.ones((32, 1)), np.full((8, 1), 0.4)]).astype(np.float32)
    settings = {**SETTINGS, "steps": 60, "eval_every": 1, "save_every": 60, "keep": 1}
    found = fit(Mean(jnp.zeros(1)), rows(x, sizes=(8, 0)), run=tmp_path / "past", **settings)
    path = 1 - 0.9 ** np.arange(1, 61)
    assert found.status["best"]["step"] == 1 + np.abs(path - 0.4).argmin()
    assert float(found.model.w[0]) == pytest.approx(path[np.abs(path - 0.4).argmin()], rel=1e-5)
    assert float(found.model_at(60).w[0]) == pytest.approx(path[-1], rel=1e-5)


def test_a_plateau_lowers_the_rate_after_its_patience(tmp_path: Path) -> None:
    plateau = {"name": "plateau", "patience": 2, "gamma": 0.5}
    steps, rates = slide(tmp_path, 1e-30, schedule=plateau).curve("lr")
    assert steps.tolist() == list(range(5, 55, 5))
    # Evaluations 3, 5, 7 and 9 are the second, fourth, ... in a row without improvement.
    halvings = [0, 0, 0, 1, 1, 2, 2, 3, 3, 4]
    np.testing.assert_allclose(rates, [1e-30 * 0.5**n for n in halvings], rtol=1e-5)


def test_averaged_weights_are_the_ones_evaluated_and_kept(data: Data, tmp_path: Path) -> None:
    found = fit(affine(), data, run=tmp_path / "ema", ema=0.5, **{**SETTINGS, "steps": 3, "eval_every": 3})
    _, _, state = train(affine(), data, 3, ema=0.5, optimizer=SETTINGS["optimizer"])
    np.testing.assert_allclose(found.model.w, state.ema.w, rtol=1e-6)
    loss = mean_loss(found.model, data.val, jax.random.key(0))[0]["loss"]
    assert found.curve("loss", "val")[1].tolist() == pytest.approx([loss], rel=1e-6)


# ---------------------------------------------------------------------- compilation


@pytest.mark.parametrize("marks", [(3, 5, 2), (100, 100, 100), (1, 1, 1)])
def test_one_program_serves_every_stretch_of_a_run(
    marks: tuple[int, int, int], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compiled: dict[str, int] = {}

    def listen(event: events.Event) -> None:
        compiled.setdefault(
            type(event).__name__, sum("Finished XLA compilation" in m for m in caplog.messages)
        )

    eval_every, save_every, log_every = marks
    settings = {"eval_every": eval_every, "save_every": save_every, "log_every": log_every}
    fit(
        affine(), line(64), run=tmp_path / "before", **SETTINGS
    )  # what any run needs, and whoever comes first compiles
    with jax.log_compiles(), caplog.at_level(logging.DEBUG):
        fit(affine(), line(64), run=tmp_path / "run", listener=listen, **{**SETTINGS, **settings})
    assert compiled["Compiled"] - compiled["Started"] == 1
    assert compiled["Finished"] == compiled["Compiled"]


# ---------------------------------------------------------------------- folders


def test_fitting_into_the_folder_of_a_finished_run_finds_it_finished(run: Run, data: Data) -> None:
    before = (run.path / "metrics.jsonl").read_bytes()
    again = fit(affine(), data, run=run.path, **SETTINGS)
    assert again.status["step"] == 17
    assert (run.path / "metrics.jsonl").read_bytes() == before


def test_more_steps_in_the_same_folder_go_on_where_the_run_ended(data: Data, tmp_path: Path) -> None:
    fit(affine(), data, run=tmp_path / "run", **{**SETTINGS, "steps": 6})
    longer = fit(affine(), data, run=tmp_path / "run", **SETTINGS)
    straight = fit(affine(), data, run=tmp_path / "straight", **SETTINGS)
    np.testing.assert_array_equal(longer.model.w, straight.model.w)
    assert longer.status["step"] == 17


def test_another_run_in_the_same_folder_is_refused(run: Run, data: Data) -> None:
    with pytest.raises(RunError, match="holds a run with other settings") as raised:
        fit(affine(), data, run=run.path, **{**SETTINGS, "batch": 8})
    assert "choose another folder" in raised.value.remedy


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epochs": 3}, r"steps=17 and epochs=3.0: give one of the two"),
        ({"batch": 1000}, r"batch=1000: a batch must hold between 1 and 68 examples"),
        ({"accumulate": 17}, r"accumulate=17: a batch of 16 has no 17 micro-batches"),
        ({"schedule": {"warmup": 17}}, r"schedule.warmup=17: the warm-up must be shorter than the run"),
        ({"balanced": True}, r"balanced=true: toy has no classes to take turns"),
        ({"parts": {"critic": {}}}, r"parts.critic: this model has no such part"),
        ({"lr": 0.1}, r"unknown setting 'lr' \(did you mean 'optimizer.lr'\?\)"),
    ],
)
def test_settings_that_cannot_be_used_leave_no_run_behind(
    wrong: dict, message: str, data: Data, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match=message):
        fit(affine(), data, run=tmp_path / "run", **{**SETTINGS, **wrong})
    assert runs(tmp_path) == []
    assert fit(affine(), data, run=tmp_path / "run", **{**SETTINGS, "steps": 1}).status["status"] == "done"


# ---------------------------------------------------------------------- a class of one's own


@pytest.mark.parametrize(("part", "number"), [(0, -1), (127, 2)], ids=["training", "test"])
def test_numbers_that_are_no_classes_are_refused_before_training(part, number, tmp_path: Path) -> None:
    wrong = blobs(sizes=(8, 8))
    (wrong.train if part == 0 else wrong.test).arrays["y"][0] = number
    with pytest.raises(
        DataError, match=rf"toy, .* split: example 0 is of class number {number}; the 2 classes"
    ):
        fit(models.build("mlp", wrong), wrong, run=tmp_path / "run", steps=1)
    assert not (tmp_path / "run").exists()


def test_balanced_batches_hold_every_class_equally_often() -> None:
    few = blobs()
    few.train.arrays["y"][8:] = 0
    config = TrainConfig(batch=8, balanced=True)
    stepper = Stepper(models.build("mlp", few), config, few.train, lambda step: 1.0, resident=True, most=1)
    for step in (0, 5, 100):
        assert np.bincount(stepper.batch_at(step).y).tolist() == [4, 4]


def test_a_class_of_ones_own_is_opened_with_its_structure(run: Run, data: Data) -> None:
    assert run.config["model"] == {"name": None, "settings": {}}
    with pytest.raises(ArgumentError, match="holds a network of your own") as raised:
        _ = Run.open(run.path).model
    assert "model=" in raised.value.remedy
    opened = Run.open(run.path, model=affine(), data=data)
    np.testing.assert_array_equal(opened.model.w, run.model.w)
    assert opened.score() == run.score()


def test_data_made_in_python_have_to_be_given_again(run: Run) -> None:
    with pytest.raises(ArgumentError, match="was trained on data built in Python") as raised:
        _ = Run.open(run.path, model=affine()).data
    assert "data=" in raised.value.remedy


def test_a_class_of_ones_own_is_resumed_with_its_structure(data: Data, tmp_path: Path) -> None:
    fit(affine(), data, run=tmp_path / "run", **{**SETTINGS, "steps": 6})
    longer = resume(tmp_path / "run", model=affine(), data=data, steps=17)
    straight = fit(affine(), data, run=tmp_path / "straight", **SETTINGS)
    np.testing.assert_array_equal(longer.model.w, straight.model.w)


@final
class Borrower(Model):
    """Has the settings of a registered model, but is another class."""

    w: Array
    config: Any

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return jnp.square(self.w).sum(), {}


def test_clipping_decay_and_rate_can_be_changed_when_a_run_goes_on(data: Data, tmp_path: Path) -> None:
    fit(affine(), data, run=tmp_path / "run", **{**SETTINGS, "steps": 6})
    changes = {"clip": 1e-6, "clip_value": 1.0, "decay": 0.1, "lr": 0.05}
    longer = resume(tmp_path / "run", model=affine(), data=data, steps=9, optimizer=changes)
    assert longer.curve("lr")[1].tolist()[-1] == pytest.approx(0.05)
    np.testing.assert_allclose(longer.model_at(9).w, longer.model_at(6).w, atol=1e-6)


def test_a_class_of_ones_own_with_borrowed_settings_is_not_taken_for_the_registered_model() -> None:
    assert models.entry_of(Borrower(jnp.ones(2), models.configure("mlp", width=3))) is None
    registered = models.build("mlp", Schema("points", (2,), "class", classes=("a", "b")), width=3)
    assert models.entry_of(registered) is models.entry("mlp")


def test_a_run_cannot_end_before_the_step_it_is_at(tmp_path: Path) -> None:
    run = fit(Mean(jnp.zeros(3)), numbers(), run=tmp_path / "run", **{**SETTINGS, "steps": 6})
    with pytest.raises(ArgumentError, match="is at step 6 already: it cannot end at step 3"):
        resume(run, steps=3)
    assert Run.open(run.path).settings.steps == 6


def test_a_run_from_before_an_option_of_the_data_was_there_goes_on(tmp_path: Path) -> None:
    source = {"name_or_path": "toy", "seed": 0}
    before = replace(numbers(), source=source)
    after = replace(before, source={**source, "weight": None})
    settings = {"run": tmp_path / "run", "batch": 16}
    fit(Mean(jnp.zeros(3)), before, steps=1, **settings)
    assert fit(Mean(jnp.zeros(3)), after, steps=2, **settings).status["step"] == 2
    other = replace(before, source={**source, "seed": 1})
    with pytest.raises(RunError, match="other settings"):
        fit(Mean(jnp.zeros(3)), other, steps=3, **settings)
