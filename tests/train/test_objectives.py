"""What training minimises: losses by name, weights of classes and of examples, against closed forms and PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import Data, from_arrays
from chainrule.models.protocol import LossSettings
from chainrule.models.protocol.criteria import criterion
from chainrule.train import fit
from tests.train.toys import Mean, blobs, line, numbers, rows, train

LINEAR = {"depth": 1, "dropout": 0.0}


def linear(data: Data) -> Any:
    return models.build("mlp", data, **LINEAR)


def first_loss(data: Data, **loss: Any) -> tuple[float, np.ndarray]:
    """The loss of a linear model on all training examples before the first step, and its outputs there."""
    model = linear(data)
    _, metrics, _ = train(model, data, 1, batch=len(data.train), loss=loss)
    return float(metrics["loss"][0]), np.asarray(model.logits(jnp.asarray(data.train.x)))


@pytest.fixture(scope="module")
def three() -> Data:
    """Three classes of very different size."""
    noise = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [40, 15, 5]).astype(np.int32)
    x = (noise.normal(size=(60, 4)) + y[:, None]).astype(np.float32)
    return rows(x, y, target="class", classes=("a", "b", "c"), kind="table")


@pytest.mark.parametrize(
    ("loss", "weights"),
    [
        ({"class_weights": "balanced"}, 60 / (3 * np.array([40, 15, 5]))),
        ({"class_weights": (1, 2, 5), "smoothing": 0.1}, np.array([1, 2, 5])),
        ({"class_weights": {"c": 7}}, np.array([1, 1, 7])),
    ],
    ids=["balanced", "in order", "by name"],
)
def test_class_weights_and_smoothing_are_those_of_torch(
    oracle: Callable, three: Data, loss: dict[str, Any], weights: np.ndarray
) -> None:
    torch = oracle("torch")
    ours, logits = first_loss(three, **loss)
    theirs = torch.nn.functional.cross_entropy(
        torch.tensor(logits),
        torch.tensor(three.train.y).long(),
        weight=torch.tensor(weights, dtype=torch.float32),
        label_smoothing=loss.get("smoothing", 0.0),
    )
    assert ours == pytest.approx(float(theirs), rel=1e-5)


def test_balanced_weights_are_those_of_scikit_learn(oracle: Callable, three: Data) -> None:
    compute = oracle("sklearn.utils.class_weight").compute_class_weight
    theirs = compute("balanced", classes=np.arange(3), y=three.train.y)
    one_hot = np.full((3, 3), 0.0, np.float32)
    loss = criterion(LossSettings(class_weights="balanced"), three.schema, np.asarray(three.train.y))
    np.testing.assert_allclose(loss(jnp.asarray(one_hot), jnp.arange(3)) / np.log(3), theirs, rtol=1e-5)


def test_labels_are_weighted_by_how_rare_they_are(oracle: Callable) -> None:
    torch = oracle("torch")
    noise = np.random.default_rng(0)
    y = (noise.random((60, 2)) < np.array([0.5, 0.1])).astype(np.uint8)
    data = rows(
        noise.normal(size=(60, 3)).astype(np.float32),
        y,
        target="labels",
        classes=("often", "rarely"),
        target_shape=(2,),
        kind="table",
    )
    ours, logits = first_loss(data, class_weights="balanced")
    rare = torch.tensor((60 - y.sum(0)) / y.sum(0), dtype=torch.float32)
    theirs = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.tensor(logits), torch.tensor(y).float(), pos_weight=rare
    )
    assert ours == pytest.approx(float(theirs), rel=1e-5)


def test_values_have_losses_that_outliers_move_less() -> None:
    data = line(64, kind="table")
    y = np.asarray(data.train.y)
    expected = {
        "absolute-error": lambda d: np.abs(d),
        "huber": lambda d: np.where(np.abs(d) < 0.5, d**2 / 2, 0.5 * (np.abs(d) - 0.25)),
        "quantile": lambda d: np.where(d < 0, -0.9 * d, 0.1 * d),
    }
    options = {"huber": {"delta": 0.5}, "quantile": {"quantile": 0.9}}
    for name, value in expected.items():
        ours, out = first_loss(data, name=name, **options.get(name, {}))
        assert ours == pytest.approx(value(out[:, 0] - y).mean(), rel=1e-5), name


def test_a_weight_of_two_is_an_example_seen_twice_and_zero_one_left_out() -> None:
    noise = np.random.default_rng(0)
    x, y = noise.normal(size=(24, 3)).astype(np.float32), noise.normal(size=24).astype(np.float32)
    counts = np.arange(24) % 3
    weighted = rows(x, y, target="value", kind="table")
    weighted.train.arrays["weight"] = (counts / counts.mean()).astype(np.float32)  # type: ignore[index]
    repeated = rows(np.repeat(x, counts, axis=0), np.repeat(y, counts), target="value", kind="table")
    settings: dict[str, Any] = {"optimizer": {"name": "sgd", "lr": 0.1}}
    model = linear(weighted)
    one, _, _ = train(model, weighted, 5, batch=24, **settings)
    other, _, _ = train(model, repeated, 5, batch=24, **settings)
    np.testing.assert_allclose(one.head.weight, other.head.weight, rtol=1e-4)  # type: ignore[attr-defined]


def test_weights_of_arrays_are_one_on_average_over_the_training_examples() -> None:
    x = np.random.default_rng(0).normal(size=(100, 3))
    weights = np.arange(100.0) + 1
    data = from_arrays(x, x[:, 0] > 0, weights=weights)
    assert data.train.batch([0, 1]).weights.shape == (2,)
    assert data.train.arrays["weight"].mean() == pytest.approx(1)
    assert data.hash != from_arrays(x, x[:, 0] > 0).hash
    assert data.hash == from_arrays(x, x[:, 0] > 0, weights=weights).hash
    assert from_arrays(x, x[:, 0] > 0).train.batch([0]).weights is None


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), "9 weights for 10 examples"),
        (np.ones((10, 2)), "shape \\(10, 2\\)"),
        (-np.ones(10), "not negative"),
        (np.zeros(10), "above 0"),
        (np.full(10, np.nan), "not finite|NaN"),
    ],
    ids=["too few", "a table", "negative", "all zero", "NaN"],
)
def test_weights_that_cannot_be_used_are_refused(weights: np.ndarray, message: str) -> None:
    x = np.random.default_rng(0).normal(size=(10, 3))
    with pytest.raises((ArgumentError, DataError), match=message):
        from_arrays(x, x[:, 0], weights=weights)


def test_a_model_that_does_not_predict_refuses_losses_and_weights(tmp_path: Path) -> None:
    data = numbers()
    with pytest.raises(CapabilityError, match="Mean minimises a loss of its own"):
        fit(Mean(jnp.zeros(3)), data, run=tmp_path / "a", steps=1, loss={"name": "huber"})
    data.train.arrays["weight"] = np.ones(64, np.float32)  # type: ignore[index]
    with pytest.raises(CapabilityError, match="Mean does not use weights"):
        fit(Mean(jnp.zeros(3)), data, run=tmp_path / "b", steps=1)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ({"name": "huber"}, "loss.name=huber: this is no loss of a target that is a class"),
        ({"delta": 3.0}, "loss.delta=3: cross-entropy does not use it"),
        ({"class_weights": (1, 2, 3)}, "3 weights for 2 classes"),
        ({"class_weights": {"lefd": 3}}, "did you mean 'left'"),
        ({"class_weights": "even"}, "give balanced, or a number"),
        ({"class_weights": (1, -1)}, "give balanced, or a number"),
        ({"class_weights": (0, 0)}, "at least one must be above 0"),
        ({"name": "hubber"}, "did you mean 'huber'"),
    ],
)
def test_losses_that_do_not_fit_are_refused(loss: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = blobs(kind="table")
    with pytest.raises(ArgumentError, match=message):
        fit(linear(data), data, run=tmp_path / "run", steps=1, loss=loss)
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_validation_is_by_the_same_loss_and_scores_by_the_usual_one(tmp_path: Path) -> None:
    data = line(96, sizes=(16, 16), kind="table")
    run = fit(linear(data), data, run=tmp_path / "run", steps=2, batch=16, loss={"name": "absolute-error"})
    out = np.asarray(run.model.predict(jnp.asarray(data.val.x)))  # type: ignore[attr-defined]
    _, values = run.curve("loss", "val")
    assert values[-1] == pytest.approx(np.abs(out - data.val.y).mean(), rel=1e-5)
    out = np.asarray(run.model.predict(jnp.asarray(data.test.x)))  # type: ignore[attr-defined]
    assert run.score()["loss"].value == pytest.approx(np.square(out - data.test.y).mean(), rel=1e-5)
