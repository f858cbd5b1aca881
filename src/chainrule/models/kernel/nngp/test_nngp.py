"""The Gaussian process of infinite networks: conditioning by hand, what leaving one out chooses, parts, settings."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.data import Data
from chainrule.models.kernel import wide
from chainrule.models.kernel.nngp import NNGPClassifier, NNGPRegressor

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
    assert isinstance(model, NNGPRegressor)
    middle, y = x.mean(axis=0), y.reshape(-1)
    x, new = x - middle, np.asarray(values.test.x, np.float64) - middle
    K, cross, own = kernel(model, x, x), kernel(model, new, x), np.diag(kernel(model, new, new))
    noise = 0.05 * np.diag(K).mean()
    inverse = np.linalg.inv(K + noise * np.eye(len(K)))
    alpha = inverse @ (y - y.mean())
    mean, scale = eqx.filter_jit(_predicted)(model, jnp.asarray(values.test.x))
    np.testing.assert_allclose(mean, cross @ alpha + y.mean(), atol=2e-3)
    left = own - np.einsum("ij,jk,ik->i", cross, inverse, cross) + noise
    amplitude = np.mean((alpha / np.diag(inverse)) ** 2 * np.diag(inverse))
    np.testing.assert_allclose(scale, np.sqrt(amplitude * left), rtol=5e-3)
    held = np.abs(np.asarray(values.test.y).reshape(-1) - np.asarray(mean)) < 2 * np.asarray(scale)
    assert held.mean() > 0.7


def _predicted(model: NNGPRegressor, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    found = model.predictive(x)
    return found.mean.reshape(-1), found.scale.reshape(-1)


def test_classes_are_regression_on_centred_one_hot_rows_at_the_best_temperature(
    classes: Data, classifier: tuple[object, np.ndarray, np.ndarray]
) -> None:
    model, x, y = classifier
    assert isinstance(model, NNGPClassifier)
    middle = x.mean(axis=0)
    K = kernel(model, x - middle, x - middle)
    cross = kernel(model, np.asarray(classes.test.x, np.float64) - middle, x - middle)
    inverse = np.linalg.inv(K + 0.01 * np.diag(K).mean() * np.eye(len(K)))
    alpha = inverse @ (np.eye(2)[y] - 0.5)
    np.testing.assert_allclose(model.outputs(jnp.asarray(classes.test.x)), cross @ alpha, atol=2e-3)
    left_out = (np.eye(2)[y] - 0.5) - alpha / np.diag(inverse)[:, None]

    def cross_entropy(sharpness: float) -> float:
        logits = sharpness * left_out
        return float((np.logaddexp(*logits.T) - logits[np.arange(len(y)), y]).mean())

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
    np.testing.assert_allclose(model.outputs(x), whole, atol=1e-3)  # type: ignore[attr-defined]


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
    np.testing.assert_allclose(weighted.outputs(x), alone.outputs(x), atol=1e-3)


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
