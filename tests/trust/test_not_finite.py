"""A value that is not finite is never saved as good, and the message says when it came up and in which tensor."""

import json
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import DivergedError
from chainrule.data.batches import Batch
from chainrule.models.protocol import HasParts, Metrics, Model, Part
from chainrule.train import Run, checkpoints, events
from chainrule.train.folder import RunWriter
from tests.trust.toys import Spoilt, go_on, points, train

SGD = {"optimizer": {"name": "sgd", "lr": 1.0}, "schedule": {"name": "constant"}}


def all_saved_are_finite(path: Path, model: Model) -> bool:
    run = Run.open(path, model=model)
    arrays = [eqx.filter(run.model_at(step), eqx.is_inexact_array) for step in run.checkpoints]
    return all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(arrays))


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("loss", "loss became NaN; first bad value: loss at step 6"),
        ("gradient", "gradient became infinite or NaN; first bad value: gradient of weight at step 6"),
        ("norm", "gradient became too large to square; largest: gradient of weight at step 6"),
    ],
)
def test_a_run_that_diverges_names_step_and_tensor_and_keeps_the_last_good_checkpoint(
    tmp_path: Path, how: str, says: str
) -> None:
    with pytest.raises(DivergedError) as error:
        train(tmp_path / "toy", Spoilt(how))
    assert error.value.exit_code == 4
    assert error.value.message == says
    assert "last good checkpoint: step 4" in error.value.remedy
    assert f"chainrule resume {tmp_path / 'toy'} optimizer.lr=0.025" in error.value.remedy
    run = Run.open(tmp_path / "toy")
    assert run.checkpoints == [4]
    assert (run.status["status"], run.status["step"]) == ("diverged", 4)
    assert says in run.status["message"]
    assert f"diverged at step 4: {says}" in (run.path / "log.txt").read_text()


def test_a_value_of_the_data_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(
        DivergedError, match=r"the data hold a value that is not finite \(x of the batch\) at step \d"
    ):
        train(tmp_path / "toy", data=points(bad=7))


def test_a_run_that_diverges_before_the_first_checkpoint_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="at step 2") as error:
        train(tmp_path / "toy", Spoilt("loss", at=2))
    assert "last good checkpoint: step 0" in error.value.remedy
    run = Run.open(tmp_path / "toy", model=Spoilt("loss", at=2))
    assert run.checkpoints == [0]
    assert np.array_equal(run.model.weight, Spoilt("loss").weight)  # type: ignore[attr-defined]
    assert go_on(tmp_path / "toy", Spoilt("gradient", at=99)).status["status"] == "done"


def test_a_run_that_diverges_before_the_first_checkpoint_goes_back_to_its_beginning(tmp_path: Path) -> None:
    """As often as it was allowed to, at half the rate each time, and says so."""
    notices: list[str] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Noticed):
            notices.append(event.text)

    settings: dict[str, Any] = {"steps": 24, "save_every": 24, "eval_every": 24, "rollbacks": 3, **SGD}
    run = train(tmp_path / "toy", Spoilt("runaway"), listener=listen, **settings)
    assert run.status["status"] == "done"
    assert 1 <= len(notices) <= 3
    assert all("back to step 0 at learning rate 0." in text for text in notices)


def test_a_run_that_diverged_at_once_may_go_on_with_another_optimiser(tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        train(tmp_path / "toy", Spoilt("runaway"), steps=24, save_every=24, eval_every=24, **SGD)
    again = go_on(tmp_path / "toy", Spoilt("runaway"), optimizer={"name": "adam", "lr": 0.01})
    assert again.status["status"] == "done"


def test_a_diverged_run_goes_on_at_another_rate(tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        train(tmp_path / "toy", Spoilt("runaway"), steps=24, **SGD)
    run = go_on(tmp_path / "toy", Spoilt("runaway"), optimizer={"lr": 0.5})
    assert run.status["status"] == "done"


def test_weights_that_overflow_in_the_very_step_of_a_checkpoint_are_not_saved(tmp_path: Path) -> None:
    """The loss and the gradient of that step are still finite; only the result of the step is not."""
    model = Spoilt("gradient", at=99)
    overflow: dict[str, Any] = {"optimizer": {"name": "sgd", "lr": 3e38}, "schedule": {"name": "constant"}}
    with pytest.raises(DivergedError, match="parameter weight is not finite at step 1"):
        train(tmp_path / "toy", model, save_every=1, eval_every=1, **overflow)
    assert Run.open(tmp_path / "toy").checkpoints == [0]


@pytest.mark.parametrize("at", [3, 5])
def test_state_that_overflows_beside_a_finite_loss_is_not_saved(tmp_path: Path, at: int) -> None:
    with pytest.raises(DivergedError, match=f"parameter moves is not finite at step {4 if at == 3 else 8}"):
        train(tmp_path / "toy", Spoilt("state", at=at))
    assert Run.open(tmp_path / "toy").checkpoints == ([0] if at == 3 else [4])


class Masked(Model):
    """Holds minus infinities on purpose."""

    weight: jax.Array
    mask: jax.Array

    def __init__(self) -> None:
        self.weight = jnp.ones(2)
        self.mask = jnp.array([0.0, -jnp.inf])

    def loss(self, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        share = jax.nn.softmax(jax.lax.stop_gradient(self.mask))
        return jnp.square(batch.x @ (share * self.weight) - 1).mean(), {}


def test_infinities_that_were_there_from_the_beginning_are_no_reason_to_stop(tmp_path: Path) -> None:
    assert train(tmp_path / "toy", Masked()).status["status"] == "done"


def test_a_part_that_does_not_move_is_not_blamed(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="loss of first became NaN; first bad value: loss at step 1"):
        train(tmp_path / "toy", Duel())


class Duel(HasParts):
    """Both parts meet a NaN in step 1, but only the first moves there."""

    a: jax.Array
    b: jax.Array
    steps: jax.Array

    def __init__(self) -> None:
        self.a, self.b, self.steps = jnp.ones(()), jnp.ones(()), jnp.zeros(())

    def loss(self, batch: Batch, key: jax.Array) -> tuple[jax.Array, Metrics]:
        return jnp.square(self.a), {}

    def parts(self) -> list[Part[Any]]:
        def second(model: Any, batch: Batch, key: jax.Array) -> Any:
            return jnp.where(model.steps == 1, jnp.nan, jnp.square(model.b)), {}, model

        def first(model: Any, batch: Batch, key: jax.Array) -> Any:
            moved = eqx.tree_at(lambda m: m.steps, model, model.steps + 1)
            return jnp.where(model.steps == 1, jnp.nan, jnp.square(model.a)), {}, moved

        return [Part("second", lambda m: m.b, second, every=2), Part("first", lambda m: m.a, first)]


# ---------------------------------------------------------------------- going back


def test_going_back_once_at_half_the_rate_when_asked_to(tmp_path: Path) -> None:
    model = Spoilt("runaway")
    run = train(tmp_path / "toy", model, steps=24, rollbacks=1, **SGD)
    assert run.status["status"] == "done"
    assert (
        "step 14: loss became NaN; first bad value: loss; back to step 12 at learning rate 0.5"
        in (run.path / "log.txt").read_text()
    )
    steps, rates = run.curve("lr")
    assert steps.tolist() == [5, 10, 15, 20, 24]
    assert rates.tolist() == [1.0, 1.0, 0.5, 0.5, 0.5]
    assert all_saved_are_finite(run.path, model)
    manifest = checkpoints.read_manifest(checkpoints.path(run.path / "checkpoints", 24))
    assert manifest["journal"]["rollbacks"] == 1


@pytest.mark.parametrize("rollbacks", [1, 3])
def test_going_back_is_bounded(tmp_path: Path, rollbacks: int) -> None:
    with pytest.raises(DivergedError, match="at step 6"):
        train(tmp_path / "toy", Spoilt("loss"), rollbacks=rollbacks)
    log = (tmp_path / "toy" / "log.txt").read_text()
    assert log.count("back to step 4") == rollbacks
    assert f"at learning rate {0.05 / 2**rollbacks:g}" in log
    assert Run.open(tmp_path / "toy").status["status"] == "diverged"


def test_there_is_no_going_back_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="at step 2"):
        train(tmp_path / "toy", Spoilt("loss", at=2), rollbacks=5)


def test_a_metric_that_is_not_finite_is_written_as_null_and_read_as_nan(run: Path) -> None:
    RunWriter(run, total=12).metrics(13, "train", {"loss": math.nan, "other": math.inf, "good": 1.0})
    last = (run / "metrics.jsonl").read_text().splitlines()[-1]
    assert json.loads(last) == {"step": 13, "split": "train", "loss": None, "other": None, "good": 1.0}
    metrics = Run.open(run).metrics
    assert np.isnan([metrics["loss"][-1], metrics["other"][-1]]).all()
    assert metrics["good"][-1] == 1.0
