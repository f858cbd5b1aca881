"""Methods that find their own step: on functions with known minima, and in the loop."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.data import Data
from chainrule.nn.constructions import least_squares
from chainrule.train import fit, resume
from chainrule.train.config import Optimizer
from chainrule.train.optimizers import optimizer
from chainrule.train.second_order import conjugate_gradients
from tests.train.toys import Affine, line

FULL: dict[str, Any] = {"batch": 68, "eval_every": 3, "save_every": 3, "log_every": 1}


@pytest.fixture(scope="module")
def data() -> Data:
    return line(128, sizes=(30, 30))


def minimise(function: Any, x: Any, name: str, steps: int) -> np.ndarray:
    method = optimizer(Optimizer(name=name))

    @jax.jit
    def follow(x: Any) -> Any:
        def step(carry: Any, _: None) -> tuple[Any, jax.Array]:
            x, state = carry
            value, grad = jax.value_and_grad(function)(x)
            update, state = method.update(grad, state, x, value=value, grad=grad, value_fn=function)
            return (x + update, state), value

        return jax.lax.scan(step, (x, method.init(x)), None, length=steps)

    with jax.enable_x64(True):
        (x, _), values = follow(jnp.asarray(x))
        assert (np.diff(np.asarray(values)) <= 1e-12).all()  # a step that does not help is not made
        return np.asarray(x)


def rosenbrock(x: jax.Array) -> jax.Array:
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("name", ["lbfgs", "newton-cg"])
def test_the_bottom_of_a_curved_valley_is_found(name: str) -> None:
    np.testing.assert_allclose(minimise(rosenbrock, [-1.2, 1.0], name, 60), [1.0, 1.0], rtol=1e-6)


def test_newton_leaves_a_place_of_negative_curvature_downhill() -> None:
    x = minimise(lambda x: (x[0] ** 2 - 1) ** 2 + x[1] ** 2, [0.1, 0.5], "newton-cg", 40)
    np.testing.assert_allclose(x, [1.0, 0.0], atol=1e-6)


def test_conjugate_gradients_stop_at_negative_curvature() -> None:
    bent = jnp.array([2.0, -1.0])
    np.testing.assert_allclose(conjugate_gradients(lambda v: bent * v, jnp.array([0.0, 1.0]), 10), [0.0, 1.0])
    first = conjugate_gradients(lambda v: bent * v, jnp.array([1.0, 0.1]), 10)
    assert float(first @ jnp.array([1.0, 0.1])) > 0


@pytest.mark.parametrize("name", ["lbfgs", "newton-cg"])
def test_a_linear_model_is_fitted_as_by_its_closed_form(name: str, data: Data, tmp_path: Path) -> None:
    start = Affine(jnp.zeros(3), jnp.zeros(()))
    run = fit(start, data, run=tmp_path / "line", steps=15, optimizer={"name": name}, **FULL)
    exact = least_squares(data.train.x, data.train.y)
    batch = data.train.batch(np.arange(68))
    x = jnp.asarray(batch.x)
    final = run.model_at(15)
    assert isinstance(final, Affine)
    np.testing.assert_allclose(final.predict(x), exact(x)[:, 0], atol=2e-4)
    assert run.curve("lr")[1].tolist() == [1.0] * 15


@pytest.mark.parametrize(
    "optimizer",
    [{"name": "lbfgs"}, {"name": "newton-cg"}, {"name": "schedule-free", "lr": 0.05}],
    ids=lambda settings: settings["name"],
)
def test_stopping_and_going_on_changes_no_bit(optimizer: dict, data: Data, tmp_path: Path) -> None:
    start = Affine(jnp.zeros(3), jnp.zeros(()))
    settings = {**FULL, "optimizer": optimizer, "schedule": {"name": "constant"}}
    whole = fit(start, data, run=tmp_path / "whole", steps=9, **settings)
    fit(start, data, run=tmp_path / "parts", steps=6, **settings)
    parts = resume(tmp_path / "parts", model=start, data=data, steps=9)
    for a, b in zip(
        *(jax.tree.leaves(eqx.filter(run.model_at(9), eqx.is_array)) for run in (whole, parts)), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_a_run_without_a_schedule_is_judged_by_its_averaged_weights(data: Data, tmp_path: Path) -> None:
    start = Affine(jnp.zeros(3), jnp.zeros(()))
    settings = {**FULL, "optimizer": {"name": "schedule-free", "lr": 0.1}, "schedule": {"name": "constant"}}
    run = fit(start, data, run=tmp_path / "free", steps=30, **settings)
    _, losses = run.curve("loss", "val")
    score = run.score("val")["loss"].value
    assert score == pytest.approx(losses.min(), rel=1e-5)
    assert losses[-1] < losses[0] / 4
