"""Networks of one's own: what they are called with, their losses and metrics, whole runs of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models, nn
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array
from chainrule.data import Batch, Data, Schema
from chainrule.train import Run, fit, resume
from chainrule.train.preparing import prepared
from tests.train.toys import blobs, leaves, line, numbers

KEYS = jax.random.split(jax.random.key(0), 3)
CLASSES = Schema("table", (2,), target="class", classes=("left", "right"))
VALUE = Schema("table", (3,), target="value")
SETTINGS: dict[str, Any] = {
    "batch": 16,
    "optimizer": {"name": "adam", "lr": 0.01},
    "schedule": {"name": "constant"},
    "save_every": 4,
    "eval_every": 4,
}


def build() -> models.base.Model:
    layers = [
        nn.Linear(2, 4, key=KEYS[0]),
        nn.BatchNorm(4),
        "relu",
        nn.Dropout(0.2),
        nn.Linear(4, 2, key=KEYS[1]),
    ]
    return models.wrap(nn.Sequential(layers), loss="cross-entropy", metrics=["accuracy", "focal"])


@pytest.fixture(scope="module")
def data() -> Data:
    return blobs(96, sizes=(16, 16), kind="table")


@pytest.fixture(scope="module")
def run(data: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(build(), data, run=tmp_path_factory.mktemp("runs") / "own", steps=8, **SETTINGS)


def test_a_run_of_a_network_of_ones_own_has_history_statistics_and_scores(run: Run) -> None:
    assert {"loss", "accuracy", "focal"} <= run.metrics.keys()
    assert np.abs(run.model.module.layers[1].mean).max() > 0  # type: ignore[attr-defined]
    found = run.score()
    assert found["loss"].unit == "nats"
    assert {"accuracy", "f1", "roc_auc"} <= found.keys()


def test_it_stops_and_goes_on_bit_for_bit(run: Run, data: Data, tmp_path: Path) -> None:
    fit(build(), data, run=tmp_path / "own", steps=4, **SETTINGS)
    resumed = resume(tmp_path / "own", model=build, data=data, steps=8)
    mine, theirs = leaves(resumed.model_at(8)), leaves(run.model_at(8))
    assert mine.keys() == theirs.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(mine[name], array, err_msg=name)


def test_a_run_is_opened_with_the_function_that_builds_its_model(run: Run, data: Data) -> None:
    x = jnp.asarray(data.test.x)
    opened = Run.open(run.path, model=build, data=data)
    np.testing.assert_array_equal(opened.model.predict(x), run.model.predict(x))  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match=r"network of your own.*\n.*model=build"):
        _ = Run.open(run.path).model


def test_a_network_without_a_loss_is_told_to_be_wrapped(data: Data) -> None:
    net = eqx.nn.Linear(2, 2, key=KEYS[0])
    for wrong in (net, lambda: net):
        with pytest.raises(
            ArgumentError, match=r"Linear is a network without a loss[^$]*cr.models.wrap\(linear"
        ):
            prepared(wrong, data)
    with pytest.raises(ArgumentError, match=r"model is a str[^$]*cr.models.build"):
        prepared("mlp", data)
    with pytest.raises(ArgumentError, match=r"data is a str[^$]*cr.data.load"):
        prepared(build(), "moons")


# ---------------------------------------------------------------------- how it is called


@final
class Keyed(eqx.Module):
    """Adds noise while training, to one example at a time."""

    linear: eqx.nn.Linear
    inference: bool = False

    def __call__(self, x: Array, *, key: Array) -> Array:
        noise = 0.0 if self.inference else jax.random.normal(key, x.shape)
        return self.linear(x + noise)


def test_a_module_of_equinox_sees_one_example_and_a_key_of_its_own() -> None:
    model = models.wrap(Keyed(eqx.nn.Linear(2, 2, key=KEYS[0]))).bound(CLASSES)
    x = jnp.ones((5, 2))
    out, _ = eqx.filter_jit(lambda m: m.outputs(x, KEYS[1]))(model)
    assert len(np.unique(np.asarray(out)[:, 0])) == 5
    net = model.module.linear
    expected = np.asarray(x) @ np.asarray(net.weight).T + np.asarray(net.bias)
    np.testing.assert_allclose(model.logits(x), expected, rtol=1e-6)


@final
class Ours(eqx.Module):
    """A layer of this package inside a class of one's own."""

    linear: nn.Linear

    def __call__(self, x: Array) -> Array:
        assert x.ndim == 2, "a batch"
        return self.linear(x)


def test_a_module_with_layers_of_this_package_sees_a_batch() -> None:
    net = Ours(nn.Linear(2, 2, key=KEYS[0]))
    assert models.wrap(net).bound(CLASSES).logits(jnp.ones((5, 2))).shape == (5, 2)
    with pytest.raises(ArgumentError, match=r"fails on an example of shape \(2,\): AssertionError: a batch"):
        models.wrap(net, batched=False).bound(CLASSES)


@final
class Normalised(eqx.Module):
    """Batch normalisation of Equinox, whose statistics lie beside the module."""

    norm: eqx.nn.BatchNorm
    linear: eqx.nn.Linear

    def __init__(self, key: Array) -> None:
        self.norm = eqx.nn.BatchNorm(2, axis_name="batch", mode="batch")
        self.linear = eqx.nn.Linear(2, 2, key=key)

    def __call__(self, x: Array, state: eqx.nn.State) -> tuple[Array, eqx.nn.State]:
        h, state = self.norm(x, state)
        return self.linear(h), state


def test_statistics_of_equinox_move_with_training_and_take_no_gradient() -> None:
    net, state = eqx.nn.make_with_state(Normalised)(KEYS[0])
    model = models.wrap(net, state=state).bound(CLASSES)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(8, 2)) + 3, jnp.float32)
    batch = Batch(x, jnp.zeros(8, jnp.int32))
    _, _, moved = eqx.filter_jit(lambda m: m.loss_and_state(batch, KEYS[1]))(model)
    changed = [
        not np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(model.memory), jax.tree.leaves(moved.memory), strict=True)
    ]
    assert any(changed)
    assert len(model.state()) == len(changed)
    with pytest.raises(ArgumentError, match="make_with_state"):
        models.wrap(net)


def test_statistics_that_nothing_moves_are_refused() -> None:
    @final
    class Still(eqx.Module):
        norm: nn.BatchNorm

        def __call__(self, x: Array) -> Array:
            return self.norm(x)

    with pytest.raises(ArgumentError, match=r"running statistics[^$]*nn.StatefulNetwork[^$]*nn.Sequential"):
        models.wrap(Still(nn.BatchNorm(2)))


# ---------------------------------------------------------------------- losses, metrics, predictions


def judged(model: Any, schema: Schema, batch: Batch) -> tuple[float, dict[str, float]]:
    loss, metrics = eqx.filter_jit(lambda m: m.loss(batch, KEYS[2]))(model.bound(schema))
    return float(loss), {name: float(value) for name, value in metrics.items()}


def test_a_loss_is_a_name_or_a_function_that_gives_a_number_for_each_example_or_for_all() -> None:
    net = eqx.nn.Linear(3, 1, key=KEYS[0])
    noise = np.random.default_rng(0)
    x, y = (jnp.asarray(noise.normal(size=shape), jnp.float32) for shape in ((6, 3), (6,)))
    weights = jnp.asarray([0.0, 0.0, 0.0, 2.0, 2.0, 2.0])
    error = np.asarray(x) @ np.asarray(net.weight)[0] + float(net.bias[0]) - np.asarray(y)
    each: Callable = lambda out, y: jnp.abs(out[:, 0] - y)  # noqa: E731  # a loss as a user writes it
    whole: Callable = lambda out, y: jnp.abs(out[:, 0] - y).mean()  # noqa: E731
    for loss in ("absolute-error", each, whole):
        assert judged(models.wrap(net, loss), VALUE, Batch(x, y))[0] == pytest.approx(np.abs(error).mean())
    weighted = judged(models.wrap(net, each), VALUE, Batch(x, y, weights))[0]
    assert weighted == pytest.approx(np.abs(error[3:]).mean())
    with pytest.raises(ArgumentError, match="weights of examples need them"):
        judged(models.wrap(net, whole), VALUE, Batch(x, y, weights))
    assert models.wrap(net, whole).bound(VALUE).loss_unit() == ""


def test_metrics_are_names_or_functions_under_their_names() -> None:
    net = eqx.nn.Linear(2, 2, key=KEYS[0])
    batch = Batch(jnp.ones((4, 2)), jnp.asarray([0, 1, 1, 1]))

    def share_of_ones(out: Array, y: Array) -> Array:
        return y == 1

    _, seen = judged(models.wrap(net, metrics=["accuracy", share_of_ones]), CLASSES, batch)
    assert seen["share_of_ones"] == 0.75
    assert seen["accuracy"] in (0.25, 0.75)
    _, seen = judged(models.wrap(net, metrics={"ones": lambda out, y: (y == 1).mean()}), CLASSES, batch)
    assert seen == {"ones": 0.75}


def test_data_without_targets_are_their_own() -> None:
    data = numbers(8)
    net = eqx.nn.Linear(3, 3, key=KEYS[0])
    x = jnp.asarray(data.train.x)
    expected = np.square(np.asarray(jax.vmap(net)(x)) - np.asarray(x)).mean()
    model = models.wrap(net)
    assert judged(model, data.schema, Batch(x))[0] == pytest.approx(expected, rel=1e-5)
    assert model.bound(data.schema).predict(x).shape == x.shape


def test_outputs_that_mean_something_else_come_with_the_prediction_they_stand_for() -> None:
    net = eqx.nn.Linear(3, 2, key=KEYS[0])

    def likelihood(out: Array, y: Array) -> Array:
        return out[:, 1] + jnp.square(y - out[:, 0]) * jnp.exp(-2 * out[:, 1]) / 2

    with pytest.raises(ArgumentError, match=r"gives 2 numbers .* needs 1"):
        models.wrap(net, likelihood).bound(VALUE)
    model = models.wrap(net, likelihood, predict=lambda out: out[:, 0]).bound(VALUE)
    x = jnp.ones((4, 3))
    np.testing.assert_array_equal(model.predict(x), model.logits(x)[:, 0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: models.wrap(jnp.tanh), "wrap.*: not a network"),
        (lambda: models.wrap(build()), "a model already"),
        (
            lambda: models.wrap(eqx.nn.Linear(2, 2, key=KEYS[0]), "cross_entropy"),
            "did you mean 'cross-entropy'",
        ),
        (lambda: models.wrap(eqx.nn.Linear(2, 2, key=KEYS[0]), metrics="accuracy"), "give a list"),
        (
            lambda: models.wrap(eqx.nn.Linear(2, 2, key=KEYS[0]), metrics=[lambda out, y: y]),
            r"has no name[^$]*metrics=\{",
        ),
    ],
    ids=["function", "model", "loss", "text", "lambda"],
)
def test_what_cannot_be_wrapped_is_refused(build: Callable, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build()


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"loss": "huber"}, CLASSES, 'loss="huber"[^$]*cross-entropy, focal'),
        ({"metrics": ["acuracy"]}, CLASSES, "did you mean 'accuracy'"),
        ({"metrics": ["huber"]}, CLASSES, "no number about a target that is a class"),
        (
            {},
            Schema("table", (5,), target="class", classes=("a", "b")),
            r"fails on an example of shape \(5,\)",
        ),
        ({}, Schema("table", (2,), target="class", classes=("a", "b", "c")), "gives 2 numbers .* needs 3"),
        ({"batched": True}, CLASSES, r"fails on a batch of shape \(batch, 2\)[^$]*batched=False"),
    ],
    ids=["loss", "metric", "metric of other targets", "inputs", "outputs", "batch"],
)
def test_data_that_do_not_fit_are_refused(options: dict[str, Any], schema: Schema, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        models.wrap(eqx.nn.Linear(2, 2, key=KEYS[0]), **options).bound(schema)


def test_before_it_has_seen_data_it_predicts_nothing() -> None:
    with pytest.raises(CapabilityError, match="has not seen data yet"):
        models.wrap(eqx.nn.Linear(2, 2, key=KEYS[0])).predict(jnp.ones((1, 2)))


def test_a_setting_of_training_replaces_the_loss_of_the_network(tmp_path: Path) -> None:
    data = line(64, sizes=(16, 0), kind="table")
    model = models.wrap(eqx.nn.Linear(3, 1, key=KEYS[0]))
    run = fit(model, data, run=tmp_path / "run", steps=1, batch=16, loss={"name": "huber"})
    out = np.asarray(run.model.predict(jnp.asarray(data.val.x)))  # type: ignore[attr-defined]
    error = np.abs(out - np.asarray(data.val.y))
    expected = np.where(error < 1, error**2 / 2, error - 0.5).mean()
    assert run.curve("loss", "val")[1][-1] == pytest.approx(expected, rel=1e-5)
