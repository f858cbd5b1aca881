"""Training by an algorithm of the model's own: runs end when it has converged, and go on where they stopped."""

from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import CapabilityError, DivergedError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Data
from chainrule.models.protocol import HasOwnTraining, Metrics, parameter_count
from chainrule.train import find_lr, overfit_one_batch, rehearse
from tests.contracts.toys import points


@final
class Halfway(HasOwnTraining):
    """Goes half of the way to the mean of the examples in every iteration, and is satisfied with a hundredth of it."""

    mean: Array
    done: Array
    breaks: int = eqx.field(static=True, default=0)
    """The iteration, from one, that ends in nonsense."""

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        del key
        return jnp.square(batch.x - self.mean[None]).sum(axis=1).mean(), {}

    def iterate(self, examples: Batch, key: Key) -> tuple["Halfway", Metrics]:
        loss, _ = self.loss(examples, key)
        target = np.asarray(examples.x, np.float64).mean(axis=0)
        step = (target - np.asarray(self.mean)) / 2
        small = bool(np.abs(step).max() < 0.01)
        if self.breaks and np.abs(step).max() < 2.0 ** (-self.breaks):
            loss = loss * jnp.nan
        return Halfway(jnp.asarray(self.mean + step, jnp.float32), jnp.asarray(small), self.breaks), {
            "loss": loss,
            "length": np.abs(step).max(),
        }

    @property
    def converged(self) -> bool:
        return bool(self.done)


def start(breaks: int = 0) -> Halfway:
    return Halfway(jnp.zeros(2), jnp.zeros((), bool), breaks)


@pytest.fixture(scope="module")
def data() -> Data:
    return points()


def test_a_run_ends_when_the_algorithm_has_converged(data: Data, tmp_path: Path) -> None:
    run = cr.fit(start(), data, run=tmp_path / "a", steps=50)
    assert run.status["status"] == "done"
    assert run.status["message"] == "converged after 7 iterations"
    steps, losses = run.curve("loss")
    assert steps[-1] == 7
    assert (np.diff(losses) < 0).all()
    assert run.curve("loss", "val")[0][-1] == 7, "what it converged to is evaluated"
    np.testing.assert_allclose(run.model.mean, data.train.x.mean(axis=0), atol=0.01)  # type: ignore[attr-defined]
    assert parameter_count(run.model) == 2
    again = cr.train.resume(tmp_path / "a", model=start(), data=data, steps=60)
    assert (again.step, again.status["message"]) == (7, "converged after 7 iterations")


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(data: Data, tmp_path: Path) -> None:
    whole = cr.fit(start(), data, run=tmp_path / "whole", steps=50)
    cr.fit(start(), data, run=tmp_path / "half", steps=3)
    half = cr.train.resume(tmp_path / "half", model=start(), data=data, steps=50)
    assert np.array_equal(whole.model.mean, half.model.mean)  # type: ignore[attr-defined]
    assert half.step == whole.step


@pytest.mark.parametrize("settings", [{"batch": 8}, {"optimizer": {"lr": 0.1}}, {"ema": 0.9}])
def test_what_only_gradients_need_is_refused(data: Data, tmp_path: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(CapabilityError, match=f"{next(iter(settings))}: .* algorithm of its own"):
        cr.fit(start(), data, run=tmp_path / "refused", **settings)
    assert not (tmp_path / "refused" / "config.yaml").exists()


def test_what_measures_gradient_descent_says_that_there_is_none(data: Data) -> None:
    for ask in (find_lr, overfit_one_batch):
        with pytest.raises(CapabilityError, match="not by gradients"):
            ask(start(), data)
    assert rehearse(start(), data, steps=10).steps == 10


def test_a_loss_that_is_not_finite_ends_the_run_with_what_was_good(data: Data, tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match="iteration 4 gave a loss that is not finite"):
        cr.fit(start(breaks=3), data, run=tmp_path / "bad", steps=50, save_every=1)
    assert max(cr.Run.open(tmp_path / "bad", model=start(), data=data).checkpoints) == 3
