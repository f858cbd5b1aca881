"""The Gaussian process of infinite networks: conditioning by hand, what leaving one out chooses, parts, settings."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data import Data
from chainrule.kernels.infinite import kernel_matrices
from chainrule.models.kernel import wide
from chainrule.models.kernel.wide_targets import WideClassifier, WideRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def values() -> Data:
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=len(X))
    return cr.data.from_arrays(X, y, kind="table")


@pytest.fixture(scope="module")
def classes() -> Data:
    return cr.data.from_arrays(X, np.where(X[:, 0] * X[:, 1] > 0, "in", "out"), kind="points")


def fitted(data: Data, **settings: object) -> tuple[object, np.ndarray, np.ndarray]:
    batch = data.train.batch(np.arange(len(data.train)))
    model = cr.models.build("nngp", data, **settings)
    model, metrics = model.iterate(batch, KEY)  # type: ignore[attr-defined]
    assert np.isfinite(float(metrics["loss"]))
    assert model.converged
    return model, np.asarray(batch.x, np.float64), np.asarray(batch.y)


def kernel(model: object, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """That of one hidden layer of rectifiers, written out."""
    config = model.config  # type: ignore[attr-defined]

    def below(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return config.weight_std**2 * x @ y.T / x.shape[1] + config.bias_std**2

    scale = np.sqrt(np.outer(np.diag(below(x, x)), np.diag(below(y, y))))
    angle = np.arccos(np.clip(below(x, y) / scale, -1, 1))
    hidden = scale * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return np.asarray(config.weight_std**2 * hidden + config.bias_std**2)


@pytest.fixture(scope="module")
def classifier(classes: Data) -> tuple[object, np.ndarray, np.ndarray]:
    return fitted(classes, ridge=0.01, depth=1)


def test_values_and_intervals_are_those_of_conditioning_by_hand(values: Data) -> None:
    model, x, y = fitted(values, ridge=0.05, depth=1)
    assert isinstance(model, WideRegressor)
    middle, y = x.mean(axis=0), y.reshape(-1)
    x, new = x - middle, np.asarray(values.test.x, np.float64) - middle
    K, cross, own = kernel(model, x, x), kernel(model, new, x), np.diag(kernel(model, new, new))
    noise = 0.05 * np.diag(K).mean()
    inverse = np.linalg.inv(K + noise * np.eye(len(K)))
    alpha = inverse @ (y - y.mean())
    mean, scale = eqx.filter_jit(_predicted)(model, jnp.asarray(values.test.x))
    np.testing.assert_allclose(mean, cross @ alpha + y.mean(), atol=1e-5)
    left = own - np.einsum("ij,jk,ik->i", cross, inverse, cross) + noise
    amplitude = np.mean((alpha / np.diag(inverse)) ** 2 * np.diag(inverse))
    np.testing.assert_allclose(scale, np.sqrt(amplitude * left), rtol=1e-5)
    held = np.abs(np.asarray(values.test.y).reshape(-1) - np.asarray(mean)) < 2 * np.asarray(scale)
    assert held.mean() > 0.7


def _predicted(model: WideRegressor, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    found = model.predictive(x)
    return found.mean.reshape(-1), found.scale.reshape(-1)


def test_classes_are_regression_on_centred_one_hot_rows_at_the_best_temperature(
    classes: Data, classifier: tuple[object, np.ndarray, np.ndarray]
) -> None:
    model, x, y = classifier
    assert isinstance(model, WideClassifier)
    middle = x.mean(axis=0)
    K = kernel(model, x - middle, x - middle)
    cross = kernel(model, np.asarray(classes.test.x, np.float64) - middle, x - middle)
    inverse = np.linalg.inv(K + 0.01 * np.diag(K).mean() * np.eye(len(K)))
    alpha = inverse @ (np.eye(2)[y] - 0.5)
    np.testing.assert_allclose(model.outputs(jnp.asarray(classes.test.x)), cross @ alpha, atol=1e-5)
    left_out = (np.eye(2)[y] - 0.5) - alpha / np.diag(inverse)[:, None]

    def cross_entropy(sharpness: float) -> float:
        logits, doubt = (
            sharpness * left_out,
            1 / (len(y) + 2),
        )  # one example more is taken to be of another class
        own, other = logits[np.arange(len(y)), y], logits[np.arange(len(y)), 1 - y]
        return float((np.logaddexp(*logits.T) - (1 - doubt) * own - doubt * other).mean())

    chosen = float(np.exp(model.log_sharpness))
    assert cross_entropy(chosen) <= min(cross_entropy(0.97 * chosen), cross_entropy(1.03 * chosen))
    right = (cross @ alpha).argmax(axis=1) == np.asarray(classes.test.y)
    assert right.mean() > 0.7


def test_kernels_of_a_batch_may_be_computed_in_parts(
    classes: Data, classifier: tuple[object, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = classifier[0], jnp.asarray(classes.test.x)
    whole = model.outputs(x)  # type: ignore[attr-defined]
    monkeypatch.setattr(wide, "MEMORY", 7 * 4 * 8)
    np.testing.assert_allclose(model.outputs(x), whole, atol=1e-6)  # type: ignore[attr-defined]


def test_examples_of_weight_zero_do_not_count(classes: Data) -> None:
    batch = classes.train.batch(np.arange(len(classes.train)))
    half = np.where(np.arange(len(batch.x)) % 2, 2.0, 0.0).astype(np.float32)
    model = cr.models.build("nngp", classes, ridge=0.01, depth=1)
    weighted, _ = model.iterate(batch._replace(weights=half), KEY)  # type: ignore[attr-defined]
    alone, _ = model.iterate(  # type: ignore[attr-defined]
        batch._replace(x=batch.x[1::2], y=batch.y[1::2], weights=2 * np.ones(len(batch.x[1::2]), np.float32)),
        KEY,
    )
    x = jnp.asarray(classes.test.x)
    np.testing.assert_allclose(weighted.outputs(x), alone.outputs(x), atol=1e-6)


def test_convolutional_networks_take_images_and_nothing_else(classes: Data) -> None:
    images = RNG.uniform(size=(24, 4, 4, 1)).astype(np.float32)
    shifted = np.arange(24) % 2
    images[shifted == 1, 1:3, 1:3] += 2
    images /= images.max()
    data = cr.data.from_arrays(images, np.array(["a", "b"])[shifted], kind="image")
    for gather in ("flatten", "pool"):
        model, _, _ = fitted(data, architecture="convolutional", depth=1, gather=gather)
        found = np.asarray(model.predict(jnp.asarray(data.train.x))).argmax(axis=1)  # type: ignore[attr-defined]
        assert (found == np.asarray(data.train.y)).mean() > 0.9
    with pytest.raises(ArgumentError, match="no positions to slide a window over"):
        cr.models.build("nngp", classes, architecture="convolutional")


def test_how_many_examples_are_kept_is_said(classes: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wide.MOST, "dense", 50)
    with pytest.warns(ChainruleWarning, match=r"50 of \d+ training examples are kept.*points="):
        model = cr.models.build("nngp", classes)
    assert model.config.points == 50  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="training examples"):
        cr.models.build("nngp", classes, points=10_000)


def test_noisy_values_over_one_column_are_predicted_as_in_double_precision() -> None:
    x = np.sort(RNG.uniform(-3, 3, size=(150, 1)), axis=0).astype(np.float32)
    y = np.sin(2 * x[:, 0]) + 0.15 * RNG.normal(size=len(x))
    data = cr.data.from_arrays(x, y, kind="table")
    model, seen, values = fitted(data, ridge=5e-6)  # where coefficients are large and cancel
    assert isinstance(model, WideRegressor)
    middle, values = np.asarray(model.center, np.float64), values.reshape(-1).astype(np.float64)
    seen, new = seen - middle, np.asarray(data.test.x, np.float64) - middle
    every = np.asarray(kernel_matrices(model.network(), np.concatenate([seen, new]), ntk=False).nngp)
    K, cross, own = (
        every[: len(seen), : len(seen)],
        every[len(seen) :, : len(seen)],
        np.diag(every)[len(seen) :],
    )
    noisy = K + 5e-6 * np.diag(K).mean() * np.eye(len(K))
    mean, scale = eqx.filter_jit(_predicted)(model, jnp.asarray(data.test.x))
    expected = cross @ np.linalg.solve(noisy, values - values.mean()) + values.mean()
    np.testing.assert_allclose(mean, expected, atol=2e-4)
    left = own - np.sum(cross * np.linalg.solve(noisy, cross.T).T, axis=1)
    expected_scale = np.sqrt(model.amplitude[0] * (left + noisy[0, 0] - K[0, 0]))
    np.testing.assert_allclose(scale, expected_scale, rtol=1e-3)


def test_classes_far_apart_are_not_told_with_certainty() -> None:
    """Every example left out is right here, so without doubt the likeliest temperature would be zero."""
    x = np.concatenate([RNG.normal(size=(20, 2)), RNG.normal(size=(20, 2)) + 20]).astype(np.float32)
    data = cr.data.from_arrays(x, np.repeat(["a", "b"], 20), kind="points")
    model, _, _ = fitted(data, depth=1)
    batch = jax.tree.map(jnp.asarray, data.val.batch(np.arange(len(data.val))))
    loss, _ = model.loss(batch, KEY)  # type: ignore[attr-defined]
    assert 1e-4 < float(loss) < 0.1


def test_pictures_can_be_drawn(
    values: Data, classes: Data, classifier: tuple[object, np.ndarray, np.ndarray]
) -> None:
    found = classifier[0].pictures(classes, KEY)  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["gram", "spectrum", "training-size", "certainty"]
    gram, _, sizes, certainty = found
    np.testing.assert_allclose(np.diag(gram.values), 1, atol=1e-9)
    assert certainty.values.shape == (2, len(classes.val))
    (curve,) = sizes.series.values()
    assert curve[0][-1] == len(classes.train)
    whole = np.asarray(classifier[0].predict(jnp.asarray(classes.val.x))).argmax(axis=1)  # type: ignore[attr-defined]
    assert curve[1][-1] == pytest.approx((whole != np.asarray(classes.val.y)).mean())
    line = cr.data.from_arrays(X[:, :1], np.sin(X[:, 0]), kind="table")
    regressor, _, _ = fitted(line, ridge=0.05, depth=1)
    more = regressor.pictures(line, KEY)  # type: ignore[attr-defined]
    assert [one.name for one in more] == ["gram", "spectrum", "training-size", "band"]
    assert all(report.draw(one).startswith("<svg") for one in [*found, *more])


def test_equal_examples_with_different_values_are_refused_without_a_ridge(values: Data) -> None:
    twice = cr.data.from_arrays(np.repeat(X, 2, axis=0), np.arange(2.0 * len(X)), kind="table")
    with pytest.raises(DataError, match=r"ridge=0: rows \d+ and \d+ are the same point(.|\n)*use ridge=auto"):
        cr.models.build("nngp", twice, ridge=0)
    cr.models.build("nngp", values, ridge=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_training_is_that_of_the_trained_model(
    values: Data, classes: Data, weighted: bool
) -> None:
    for data in (values, classes):
        batch = data.train.batch(np.arange(len(data.train)))
        if weighted:
            batch = batch._replace(weights=np.linspace(0.5, 2.0, len(batch.x)).astype(np.float32))
        model, metrics = cr.models.build("nngp", data, depth=1).iterate(batch, KEY)  # type: ignore[attr-defined]
        loss, own = eqx.filter_jit(lambda m, b: m.loss(b, KEY))(model, jax.tree.map(jnp.asarray, batch))
        assert float(metrics["loss"]) == pytest.approx(float(loss), rel=1e-3, abs=1e-6)
        assert set(own) <= set(metrics)
