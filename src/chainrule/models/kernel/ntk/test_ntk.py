"""The trained network of infinite width: gradient descent solved."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import CapabilityError
from chainrule.data import Data
from chainrule.kernels.infinite import gradient_descent
from chainrule.models.kernel.wide_targets import DescentRegressor, WideRegressor
from chainrule.models.kernel.wide_training import HELD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)).astype(np.float32)


def test_values_are_those_of_gradient_descent_at_the_end() -> None:
    data = cr.data.from_arrays(X, np.sin(2 * X[:, 0]) + X[:, 1], kind="table")
    batch = data.train.batch(np.arange(len(data.train)))
    model = cr.models.build("ntk", data, ridge=1e-3, depth=1)
    model, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
    assert isinstance(model, WideRegressor)
    x, y = np.asarray(batch.x, np.float64), np.asarray(batch.y, np.float64).reshape(-1)
    network, middle = model.network(), x.mean(axis=0)
    ridge = 1e-3 * float(np.diag(network.ntk(x - middle)).mean())
    trained = gradient_descent(network.ntk, network.nngp, x - middle, y - y.mean(), ridge=ridge)
    expected = trained(np.asarray(data.test.x, np.float64) - middle).mean + y.mean()
    found = np.asarray(model.predict(jnp.asarray(data.test.x))).reshape(-1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.fixture(scope="module")
def values() -> Data:
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.normal(size=len(X))
    return cr.data.from_arrays(X, y, kind="table")


def stopped(name: str, data: Data, **settings: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    batch = data.train.batch(np.arange(len(data.train)))
    model: Any = cr.models.build(name, data, depth=1, **settings)
    model, metrics = model.iterate(batch, jax.random.key(0))
    assert np.isfinite(float(metrics["loss"]))
    return model, np.asarray(batch.x, np.float64), np.asarray(batch.y)


@pytest.mark.parametrize(("name", "ridge"), [("ntk", "auto"), ("ntk", 0.01), ("nngp", "auto")])
def test_values_and_their_spread_are_those_of_gradient_descent_after_a_time(
    values: Data, name: str, ridge: Any
) -> None:
    model, x, y = stopped(name, values, time=20.0, ridge=ridge)
    assert isinstance(model, DescentRegressor)
    network, middle, y = model.network(), x.mean(axis=0), y.reshape(-1).astype(np.float64)
    trains = network.ntk if name == "ntk" else network.nngp
    unit = float(np.diag(trains(x - middle)).mean())
    penalty = 0.0 if ridge == "auto" else ridge * unit

    def ensemble(some: np.ndarray) -> Any:
        targets = y[some] - y.mean()
        return gradient_descent(
            network.ntk,
            network.nngp,
            x[some] - middle,
            targets,
            20.0,
            learning_rate=1 / unit,
            get=name,
            ridge=penalty,
        )

    mean, covariance = ensemble(np.arange(len(x)))(np.asarray(values.test.x, np.float64) - middle)
    found = eqx.filter_jit(lambda m, x: m.predictive(x))(model, jnp.asarray(values.test.x))
    np.testing.assert_allclose(np.ravel(found.mean), mean + y.mean(), atol=1e-5)
    spread = np.ravel(np.square(found.scale)) - float(model.noise[0])
    np.testing.assert_allclose(spread, np.diag(covariance), rtol=1e-3, atol=1e-5)
    held = np.sort(np.random.default_rng(0).permutation(len(x))[: len(x) // HELD])
    rest = np.setdiff1d(np.arange(len(x)), held)
    unseen, apart = ensemble(rest)(x[held] - middle)
    noise = np.mean(np.square(y[held] - y.mean() - unseen) - np.diag(apart))
    assert float(model.noise[0]) == pytest.approx(max(noise, 1e-6 * y.var()), rel=0.05)


def test_networks_agree_more_and_predict_better_the_longer_they_train(values: Data) -> None:
    found = []
    for time in (0.01, 1.0, 100.0):
        model, x, y = stopped("ntk", values, time=time)
        error = np.ravel(model.predict(jnp.asarray(x, jnp.float32))) - np.ravel(y)
        apart = np.square(np.asarray(model.predictive(jnp.asarray(x, jnp.float32)).scale)) - model.noise
        found.append((np.square(error).mean(), apart.mean()))
    assert found[0] > found[1] > found[2]
    assert found[0][1] > found[1][1] > found[2][1]


def test_classes_after_a_time_are_regression_on_centred_rows() -> None:
    data = cr.data.from_arrays(X, np.where(X[:, 0] * X[:, 1] > 0, "in", "out"), kind="points")
    model, x, y = stopped("ntk", data, time=50.0)
    network, middle = model.network(), x.mean(axis=0)
    unit = float(np.diag(network.ntk(x - middle)).mean())
    trained = gradient_descent(
        network.ntk, network.nngp, x - middle, np.eye(2)[y] - 0.5, 50.0, learning_rate=1 / unit
    )
    expected = trained(np.asarray(data.test.x, np.float64) - middle).mean
    np.testing.assert_allclose(model.outputs(jnp.asarray(data.test.x)), expected, atol=1e-5)
    assert float(model.log_sharpness) > 0
    names = [one.name for one in model.pictures(data, jax.random.key(0))]
    assert names == ["gram", "spectrum", "training-size", "certainty"]


def test_pictures_after_a_time_can_be_drawn() -> None:
    line = cr.data.from_arrays(X[:, :1], np.sin(X[:, 0]), kind="table")
    model, _, _ = stopped("ntk", line, time=5.0)
    found = model.pictures(line, jax.random.key(0))
    assert [one.name for one in found] == ["gram", "spectrum", "training-size", "band"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_weights_of_examples_have_no_place_in_training_for_a_time(values: Data) -> None:
    weights = np.linspace(1, 2, len(values.train))
    weighted = replace(values, train=cr.data.Rows({**values.train.arrays, "weight": weights}))
    with pytest.raises(CapabilityError, match=r"^time=3: examples count equally"):
        cr.models.build("ntk", weighted, time=3.0)
    assert cr.models.build("ntk", values).config.time is None  # type: ignore[attr-defined]
