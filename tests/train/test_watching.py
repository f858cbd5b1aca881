"""The best checkpoint and early stopping by any number, and callbacks that stop a run or change its rate."""

from pathlib import Path
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models, nn
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key, Scalar
from chainrule.data import Batch, Data, Schema
from chainrule.models.protocol import Metrics, Model
from chainrule.models.wrapping.metrics import resolved
from chainrule.train import Moment, Run, events, fit, resume, scores
from chainrule.train.callbacks import named
from chainrule.train.config import TrainConfig
from chainrule.train.evaluation import own_loss
from chainrule.train.folder import decisive
from chainrule.train.scoring import Judged
from chainrule.train.watching import Watched, direction
from tests.train.toys import Affine, Mean, blobs, leaves, line, numbers

SETTINGS: dict[str, Any] = {
    "batch": 16,
    "steps": 8,
    "eval_every": 2,
    "save_every": 4,
    "log_every": 1,
    "optimizer": {"name": "sgd", "lr": 0.3},
    "schedule": {"name": "constant"},
}


@pytest.fixture(scope="module")
def data() -> Data:
    return blobs(96, sizes=(32, 0), kind="table")


def linear(data: Data) -> models.base.Model:
    return models.build("mlp", data, depth=1, dropout=0.0)


def values(run: Run, name: str) -> dict[int, float]:
    return {int(step): float(value) for step, value in zip(*run.curve(name, "val"), strict=True)}


@pytest.mark.parametrize(("name", "sign"), [("accuracy", 1), ("f1", 1), ("calibration_error", -1)])
def test_the_best_checkpoint_is_the_best_by_the_number_that_is_named(
    data: Data, tmp_path: Path, name: str, sign: int
) -> None:
    run = fit(linear(data), data, run=tmp_path / "run", best=name, **SETTINGS)
    seen = values(run, name)
    assert len(seen) == 4
    first = max(seen, key=lambda step: (sign * seen[step], -step))
    assert run.status["best"] == {"loss": values(run, "loss")[first], name: seen[first], "step": first}
    assert run.step == first
    judged = Judged(
        data.schema, np.asarray(run.model.predict(jnp.asarray(data.val.x))), np.asarray(data.val.y)
    )  # type: ignore[attr-defined]
    assert scores.judge(judged)[name].value == pytest.approx(seen[first], abs=1e-6)


def test_early_stopping_waits_for_the_number_that_is_named(data: Data, tmp_path: Path) -> None:
    best = {
        "best": "accuracy",
        "stopping": {"patience": 2, "min_delta": 1.0},
    }  # nothing improves by more than one
    run = fit(linear(data), data, run=tmp_path / "run", **{**SETTINGS, "steps": 100}, **best)
    assert run.status["message"] == "no improvement of accuracy for 2 evaluations"
    assert run.status["step"] == 6
    assert resume(run).status["step"] == 6


def test_a_metric_of_ones_own_says_which_way_is_better(data: Data, tmp_path: Path) -> None:
    net = nn.Sequential([nn.Linear(2, 2, key=jax.random.key(0)), "identity", nn.BatchNorm(2)])
    model = models.wrap(net, metrics={"spread": lambda out, y: jnp.abs(out[:, 0] - out[:, 1])})
    with pytest.raises(ArgumentError, match=r"best=spread: is more or less of it better\?[^$]*best_mode=max"):
        fit(model, data, run=tmp_path / "run", best="spread", **SETTINGS)
    run = fit(model, data, run=tmp_path / "run", best="spread", best_mode="min", **SETTINGS)
    assert run.status["best"]["spread"] == pytest.approx(min(values(run, "spread").values()))
    run = fit(model, data, run=tmp_path / "f1", best="f1", **{**SETTINGS, "steps": 2})
    assert run.status["best"].keys() == {"loss", "f1", "step"}


def test_a_number_that_there_will_not_be_is_refused_before_training(data: Data, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"best=acuracy: .* \(did you mean 'accuracy'\?\)[^$]*roc_auc"):
        fit(linear(data), data, run=tmp_path / "run", best="acuracy", **SETTINGS)
    with pytest.raises(ArgumentError, match=r"it will have loss, accuracy, precision"):
        fit(linear(data), data, run=tmp_path / "run", best="nonsense", **SETTINGS)
    with pytest.raises(ArgumentError, match=r"best=rmse: this run will have no such number"):
        fit(Mean(jnp.zeros(3)), numbers(sizes=(8, 0)), run=tmp_path / "run", best="rmse", **SETTINGS)
    with pytest.raises(ArgumentError, match=r"best=rmse: toy have no validation split"):
        fit(Affine(jnp.zeros(3), jnp.zeros(())), line(), run=tmp_path / "run", best="rmse", **SETTINGS)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_every_number_of_predictions_has_a_direction() -> None:
    noise = np.random.default_rng(0)
    many = np.full((30, 6), 1 / 6, np.float32)
    six = Judged(Schema("table", (2,), target="class", classes=tuple("abcdef")), many, np.arange(30) % 6)
    two = Judged(blobs(kind="table").schema, np.full((30, 2), 0.5, np.float32), np.arange(30) % 2)
    labels = Judged(
        Schema("table", (2,), target="labels", target_shape=(2,), classes=("a", "b")),
        noise.random((30, 2)),
        (noise.random((30, 2)) > 0.5).astype(np.uint8),
    )
    value = Judged(Schema("table", (2,), target="value"), noise.random(30), noise.random(30))
    counts = {"support", "examples"}
    for judged in (two, six, labels, value):
        for name in scores.judge(judged):
            assert direction(name) or name.split(".")[0] in counts, name


def test_the_true_class_may_be_looked_for_among_any_number_of_the_likeliest(data: Data) -> None:
    model, config = linear(data), TrainConfig()
    watched = [Watched.of(TrainConfig(best=f"top_{k}_accuracy"), model, data, own_loss) for k in (1, 2)]
    found = [one.measure(model, data, own_loss, config) for one in watched]
    assert [one.sign for one in watched] == [1, 1]
    assert found[0]["top_1_accuracy"] == pytest.approx(found[0]["accuracy"])
    assert found[1]["top_2_accuracy"] == 1
    with pytest.raises(ArgumentError, match="top-3 accuracy: there are 2 classes"):
        Watched.of(TrainConfig(best="top_3_accuracy"), model, data, own_loss)
    out, y = jnp.asarray([[0.3, 0.3], [0.1, 0.9], [0.5, 0.2]]), jnp.asarray([1, 1, 1])
    metrics = [resolved(f"top_{k}_accuracy", data.schema) for k in (1, 2)]
    np.testing.assert_array_equal([np.asarray(one(out, y)) for one in metrics], [[0, 1, 0], [1, 1, 1]])


def test_improvement_has_a_direction_and_a_least_size() -> None:
    up, down = Watched("f1", 1, predicted=True), Watched("loss", -1, predicted=False)
    assert up.improves({"f1": 0.5}, {}, 0.0)
    assert up.improves(
        {"f1": 0.5}, {"loss": 1.0, "step": 3}, 0.0
    )  # what was best so far was best in something else
    assert up.improves({"f1": 0.6}, {"f1": 0.5}, 0.05)
    assert not up.improves({"f1": 0.6}, {"f1": 0.5}, 0.2)
    assert not up.improves({"f1": float("nan")}, {}, 0.0)
    assert down.improves({"loss": 0.4}, {"loss": 0.5}, 0.0)
    assert not down.improves({"loss": 0.5}, {"loss": 0.5}, 0.0)
    assert decisive({"loss": 0.5, "f1": 0.9, "step": 4}) == "f1"


# ---------------------------------------------------------------------- callbacks


def halve_twice(moment: Moment) -> None:
    """Halves the rate at the first two evaluations and stops at the fourth."""
    seen = moment.memory["seen"] = moment.memory.get("seen", 0) + 1
    assert "loss" in moment.val
    assert moment.train["lr"] > 0
    if seen <= 2:
        moment.scale_lr(0.5)
    if seen == 4:
        moment.stop("seen enough")


def affine() -> Affine:
    return Affine(jnp.zeros(3), jnp.zeros(()))


def test_callbacks_change_the_rate_and_end_a_run_the_same_way_after_an_interruption(tmp_path: Path) -> None:
    data = line(96, sizes=(16, 0))
    settings = {**SETTINGS, "steps": 20}
    whole = fit(affine(), data, run=tmp_path / "whole", callbacks=[halve_twice], **settings)
    steps, rates = whole.curve("lr")
    np.testing.assert_allclose(rates[np.isin(steps, [2, 4, 6, 8])], [0.3, 0.15, 0.075, 0.075], rtol=1e-6)
    assert whole.status["message"] == "seen enough"
    assert whole.status["step"] == 8

    fit(affine(), data, run=tmp_path / "cut", callbacks=[halve_twice], **{**settings, "steps": 5})
    (tmp_path / "cut" / "checkpoints" / "step-00000005").rename(tmp_path / "gone")  # killed after step 4
    cut = resume(tmp_path / "cut", model=affine, data=data, callbacks=[halve_twice], steps=20)
    assert cut.status["message"] == "seen enough"
    mine, theirs = leaves(cut.model_at(8)), leaves(whole.model_at(8))
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)

    again = fit(affine(), data, run=tmp_path / "whole", callbacks=[halve_twice], **settings)
    assert again.status["step"] == 8
    heard: list[events.Event] = []
    further = resume(tmp_path / "whole", model=affine, data=data, listener=heard.append, steps=10)
    assert further.status["step"] == 10
    assert any("halve_twice" in event.text for event in heard if isinstance(event, events.Noticed))


def test_a_callback_is_told_what_it_cannot_do(tmp_path: Path) -> None:
    data = line(64, sizes=(16, 0))

    def forgetful(moment: Moment) -> None:
        moment.memory["model"] = object()

    for callbacks, message in (
        ([lambda moment: moment.scale_lr(0.0)], r"scale_lr\(0.0\)"),
        ([forgetful], "memory of callback 'forgetful' cannot be kept"),
        ([forgetful, forgetful], "two are called 'forgetful'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            fit(affine(), data, run=tmp_path / "run", callbacks=callbacks, **{**SETTINGS, "steps": 2})  # type: ignore[arg-type]


def test_what_is_no_function_is_no_callback() -> None:
    with pytest.raises(ArgumentError, match="number 1 is a str"):
        named([halve_twice, "stop"])


def test_a_user_is_told_that_micro_batches_are_normalised_by_themselves(tmp_path: Path) -> None:
    data = blobs(64, kind="table")
    for normalization, expected in (("batch", 1), ("layer", 0)):
        heard: list[events.Event] = []
        model = models.build("mlp", data, depth=2, width=4, normalization=normalization)
        settings = {"steps": 1, "batch": 16, "accumulate": 4}
        run = fit(model, data, run=tmp_path / normalization, listener=heard.append, **settings)
        noticed = [event.text for event in heard if isinstance(event, events.Noticed)]
        assert len(noticed) == expected
        assert ("micro-batch of 4 by itself" in (run.path / "log.txt").read_text()) == bool(expected)


@final
class _Unsure(Model):
    """A model whose losses differ by chance."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        raise NotImplementedError

    def loss_resolution(self) -> float:
        return 0.1


def test_of_losses_that_differ_by_chance_the_latest_is_best_and_small_steps_back_do_not_add_up() -> None:
    watched, model = Watched("loss", -1, predicted=False), _Unsure()
    journal: dict[str, Any] = {"best": {}, "lowest": {}}
    taken = [
        watched.takes(journal, {"loss": loss}, step, 0.0, model)
        for step, loss in enumerate([1.0, 0.5, 0.55, 0.59, 0.65, 0.45])
    ]
    assert taken == [True, True, True, True, False, True]
    assert journal["lowest"] == {"loss": 0.45, "step": 5}
