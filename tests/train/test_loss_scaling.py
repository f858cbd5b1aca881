"""Training in float16: gradients too small or too large for it, and a scale that survives an interruption."""

from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch
from chainrule.models.protocol import Metrics, Model
from chainrule.train import fit, resume
from chainrule.train.loss_scaling import LossScaling, scaled_gradient
from tests.train.toys import leaves, line, numbers, train

PLAIN: dict[str, Any] = {"optimizer": {"name": "sgd", "lr": 1e-4}, "schedule": {"name": "constant"}}


@final
class Steep(Model):
    """A matrix whose gradient is `slope` in every entry."""

    w: Array
    slope: float = eqx.field(static=True)

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        return self.slope * self.w.astype(jnp.float32).sum() + 0 * batch.x.sum(), {}


def steep(slope: float) -> Steep:
    return Steep(jnp.ones((2, 2)), slope)


def test_a_gradient_too_small_for_float16_arrives_through_the_scale() -> None:
    def objective(w: Array) -> tuple[Scalar, None]:
        return 1e-9 * w.astype(jnp.float16).astype(jnp.float32).sum(), None

    w = jnp.ones((2, 2))
    np.testing.assert_array_equal(jax.grad(lambda w: objective(w)[0])(w), np.zeros((2, 2)))
    loss, _, grads = scaled_gradient(objective, w, jnp.asarray(2.0**15))
    np.testing.assert_allclose(grads, np.full((2, 2), 1e-9), rtol=1e-3)
    assert float(loss) == pytest.approx(4e-9)
    found, metrics, _ = train(
        steep(1e-9), numbers(), 1, precision="float16", optimizer={"name": "sgd", "lr": 1e6}
    )
    np.testing.assert_allclose(found.w, np.full((2, 2), 1 - 1e-3), rtol=1e-6)  # type: ignore[attr-defined]
    assert metrics["loss_scale"].tolist() == [2.0**15]


def test_a_step_whose_gradient_does_not_fit_is_passed_over_at_half_the_scale() -> None:
    found, metrics, state = train(
        steep(100.0), numbers(), 8, precision="float16", **{"optimizer": PLAIN["optimizer"]}
    )
    scales = 2.0 ** np.array([15, 14, 13, 12, 11, 10, 9, 9])
    np.testing.assert_array_equal(metrics["loss_scale"], scales)  # 100 * 2**9 is the first below 65504
    np.testing.assert_array_equal(np.isnan(metrics["grad_norm"]), scales > 2**9)
    assert int(state.step) == 8
    np.testing.assert_allclose(found.w, np.full((2, 2), 1 - 2 * 1e-2), rtol=1e-5)  # type: ignore[attr-defined]


def test_the_scale_doubles_after_many_steps_that_fit_and_falls_to_one() -> None:
    moved = jax.jit(LossScaling.moved)
    scaling = LossScaling(jnp.asarray(4.0), jnp.asarray(1998))
    seen = []
    for fits in (True, True, False, False, False, False):
        scaling = moved(scaling, jnp.asarray(fits))
        seen.append((float(scaling.scale), int(scaling.fitted)))
    assert seen == [(4, 1999), (8, 0), (4, 0), (2, 0), (1, 0), (1, 0)]
    assert not bool(scaling.can_fall)


def test_a_run_in_float16_goes_on_bit_for_bit(tmp_path: Path) -> None:
    settings = {
        **PLAIN,
        "precision": "float16",
        "batch": 16,
        "save_every": 4,
        "eval_every": 4,
        "log_every": 1,
    }
    data = numbers()
    whole = fit(steep(100.0), data, run=tmp_path / "whole", steps=8, **settings)
    fit(steep(100.0), data, run=tmp_path / "cut", steps=4, **settings)
    cut = resume(tmp_path / "cut", model=steep(100.0), data=data, steps=8)
    mine, theirs = leaves(cut.model_at(8)), leaves(whole.model_at(8))
    assert all(np.array_equal(mine[name], theirs[name]) for name in theirs)
    np.testing.assert_array_equal(cut.curve("loss_scale")[1], whole.curve("loss_scale")[1])
    with pytest.raises(ArgumentError, match=r"precision=float32: .* cannot change this on the way"):
        resume(tmp_path / "cut", model=steep(100.0), data=data, steps=10, precision="float32")


def test_what_no_scale_can_hold_has_diverged(tmp_path: Path) -> None:
    with pytest.raises(
        DivergedError, match="gradient became infinite or NaN; first bad value: gradient of w"
    ):
        fit(steep(1e6), numbers(), run=tmp_path / "run", steps=40, batch=16, precision="float16", **PLAIN)


def test_methods_that_search_keep_to_single_precision(tmp_path: Path) -> None:
    data = line(16)
    with pytest.raises(ArgumentError, match="precision=float32"):
        train(steep(1.0), data, 1, batch=16, precision="float16", optimizer={"name": "lbfgs"})
    assert not list(tmp_path.iterdir())
