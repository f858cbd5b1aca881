"""Kernel ridge regression as a model: against scikit-learn, with settings and probabilities by leaving one out."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge as Theirs

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import Data
from chainrule.models.kernel.calibration import sharpness
from chainrule.models.kernel.kernel_ridge.settings import KernelRidgeConfig, measured

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def values() -> Data:
    y = np.sin(X[:, :1]) + np.array([[0.5, -1.0]]) * X[:, 1:2] + 0.1 * RNG.normal(size=(200, 2))
    return cr.data.from_arrays(X, y.astype(np.float32), kind="table")


@pytest.fixture(scope="module")
def classes() -> Data:
    y = (X[:, 0] ** 2 + X[:, 1] + 0.5 * RNG.normal(size=200) > 0.5).astype(int)
    return cr.data.from_arrays(X, np.array(["no", "yes"])[y], kind="table")


@pytest.fixture(scope="module")
def run(classes: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("kernel-ridge", classes)
    return cr.fit(model, classes, run=tmp_path_factory.mktemp("runs") / "ridge")


def batch_of(data: Data):
    return data.train.batch(np.arange(len(data.train)))


@pytest.mark.parametrize(
    ("ridge", "error"), [(0.2, 1e-6), (1e-8, 1e-4)]
)  # small: large coefficients that cancel
def test_values_are_those_of_scikit_learn(values: Data, ridge: float, error: float) -> None:
    model = cr.models.build("kernel-ridge", values, scale=1.3, ridge=ridge)
    model, numbers = model.iterate(batch_of(values), jax.random.key(0))  # type: ignore[attr-defined]
    x, y = np.asarray(values.train.x, np.float64), np.asarray(values.train.y, np.float64)
    middle = y.mean(axis=0)
    theirs = Theirs(alpha=ridge, kernel="rbf", gamma=1 / (2 * 1.3**2)).fit(x, y - middle)
    expected = theirs.predict(np.asarray(values.test.x)) + middle
    np.testing.assert_allclose(model.predict(jnp.asarray(values.test.x)), expected, atol=error, rtol=error)
    assert float(numbers["left_out_loss"]) > float(numbers["loss"])


def test_scale_and_ridge_are_chosen_by_leaving_one_out(values: Data) -> None:
    found = measured(KernelRidgeConfig(), values)
    assert found["points"] == len(values.train)
    free = cr.models.build("kernel-ridge", values, **found)
    poor = cr.models.build("kernel-ridge", values, scale=found["scale"] / 20, ridge=found["ridge"])
    errors = []
    for model in (free, poor):
        _, numbers = model.iterate(batch_of(values), jax.random.key(0))  # type: ignore[attr-defined]
        errors.append(float(numbers["left_out_loss"]))
    assert errors[0] < 0.2 * errors[1]


def test_what_is_given_is_not_searched(values: Data) -> None:
    assert measured(KernelRidgeConfig(scale=2.0, ridge=0.5, points=50), values) == {"points": 50}
    assert measured(KernelRidgeConfig(scale=2.0), values)["scale"] == 2.0
    assert measured(KernelRidgeConfig(kernel="linear", ridge=0.5), values)["points"] == 160


def test_probabilities_are_calibrated_and_scores_follow(run: cr.Run) -> None:
    found = run.score("test")
    assert found["accuracy"].value > 0.7
    assert found["loss"].value < 0.6
    assert run.predict(np.asarray(run.data.inverse(run.data.test.x[:3]))).prediction.shape == (3,)


def test_fewer_points_are_drawn_by_the_key_and_room_for_more_stays_empty(classes: Data) -> None:
    model = cr.models.build("kernel-ridge", classes, points=40, scale=1.0, ridge=0.1)
    first, _ = model.iterate(batch_of(classes), jax.random.key(0))  # type: ignore[attr-defined]
    second, _ = model.iterate(batch_of(classes), jax.random.key(1))  # type: ignore[attr-defined]
    assert first.points.shape == (40, 3)
    assert not np.array_equal(first.points, second.points)
    few = replace(classes, train=cr.data.Rows({"x": classes.train.x[:30], "y": classes.train.y[:30]}))
    third, _ = model.iterate(batch_of(few), jax.random.key(0))  # type: ignore[attr-defined]
    assert not np.asarray(third.coefficients.high)[30:].any()


def test_weights_of_examples_count(values: Data) -> None:
    model = cr.models.build("kernel-ridge", values, scale=1.0, ridge=0.1)
    batch = batch_of(values)
    heavy = batch._replace(weights=np.where(np.arange(len(batch.x)) < 20, 50.0, 1.0).astype(np.float32))
    plain, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
    weighed, _ = model.iterate(heavy, jax.random.key(0))  # type: ignore[attr-defined]
    lost = [np.square(m.predict(jnp.asarray(batch.x)) - batch.y)[:20].mean() for m in (plain, weighed)]
    assert lost[1] < lost[0]


def test_examples_of_weight_zero_are_none(values: Data) -> None:
    weights = np.where(np.arange(len(values.train)) % 2, 2.0, 0.0)
    weighty = replace(values, train=cr.data.Rows({**values.train.arrays, "weight": weights}))
    model = cr.models.build("kernel-ridge", weighty, scale=1.0, ridge=0.1)
    assert model.points.shape[0] == len(values.train) // 2  # type: ignore[attr-defined]
    found, _ = model.iterate(batch_of(weighty), jax.random.key(0))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found.points, np.asarray(values.train.x)[1::2])


@pytest.mark.parametrize("approximate", ["rff", "nystrom"])
def test_features_in_place_of_the_kernel_learn_from_every_example(values: Data, approximate: str) -> None:
    options = {"scale": 1.5, "ridge": 0.1}
    features = {"rff": 2000, "nystrom": 60}[approximate]
    model = cr.models.build("kernel-ridge", values, approximate=approximate, features=features, **options)
    found, numbers = model.iterate(batch_of(values), jax.random.key(0))  # type: ignore[attr-defined]
    exact, _ = cr.models.build("kernel-ridge", values, **options).iterate(  # type: ignore[attr-defined]
        batch_of(values), jax.random.key(0)
    )
    x = jnp.asarray(values.test.x)
    np.testing.assert_allclose(found.predict(x), exact.predict(x), atol=0.15)
    kernel = cr.kernels.KernelRidge(
        cr.kernels.RBF(1.5), 0.1, approximate=approximate, count=features, key=jax.random.key(0)
    )
    y = np.asarray(values.train.y, np.float64)
    fitted = kernel.fit(values.train.x, y - y.mean(axis=0))
    np.testing.assert_allclose(found.predict(x), fitted.predict(values.test.x) + y.mean(axis=0), atol=1e-5)
    left_out = np.square(np.asarray(fitted.residuals)).mean()
    assert float(numbers["left_out_loss"]) == pytest.approx(left_out, rel=1e-4)


def test_a_model_on_random_features_is_kept_and_opened(classes: Data, tmp_path: Path) -> None:
    model = cr.models.build("kernel-ridge", classes, approximate="rff", features=100)
    run = cr.fit(model, classes, run=tmp_path / "features")
    x = jnp.asarray(classes.test.x)
    again = cr.Run.open(tmp_path / "features").model
    np.testing.assert_array_equal(again.predict(x), run.model.predict(x))  # type: ignore[attr-defined]
    assert run.score("test")["accuracy"].value > 0.7


def test_features_that_contradict_other_settings_are_refused(values: Data) -> None:
    for settings, message in (
        ({"features": 50}, r"features=50: approximate=none takes the kernel itself\n.*approximate=nystrom"),
        ({"approximate": "rff", "points": 50}, r"features learn from every example.*\n.*use features=50"),
        ({"approximate": "rff", "features": 51}, r"two features\n.*use features=52"),
        ({"approximate": "rff", "kernel": "linear"}, r"kernel=linear .* no frequencies\n.*=nystrom"),
        ({"approximate": "nystrom", "features": 161}, r"has 160\n.*features=160 or less"),
    ):
        with pytest.raises(ArgumentError, match=message):
            cr.models.build("kernel-ridge", values, ridge=0.1, **settings)
    model = cr.models.build("kernel-ridge", values, scale=1.0, ridge=0.1, approximate="nystrom")
    assert len(model.points) == 160  # type: ignore[attr-defined]


def test_sharpness_undoes_a_factor_and_stays_finite() -> None:
    logits = 2 * RNG.normal(size=(2000, 3))
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (odds.cumsum(axis=1) < RNG.random((2000, 1))).sum(axis=1)
    assert sharpness(logits / 5, y) == pytest.approx(5, rel=0.1)
    sure = np.eye(3)[y]
    assert 2 < sharpness(sure, y) < 20


def test_pictures_can_be_drawn(run: cr.Run, values: Data) -> None:
    found = run.model.pictures(run.data, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["gram", "spectrum", "ridges"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_what_cannot_be_is_refused(values: Data) -> None:
    with pytest.raises(
        ArgumentError, match=r"points=500: .* has 160 training examples\n.*use points=160 or less"
    ):
        cr.models.build("kernel-ridge", values, points=500)
    same = cr.data.from_arrays(np.ones((20, 2), np.float32), np.arange(20.0, dtype=np.float32), kind="table")
    with pytest.raises((ArgumentError, DataError), match="all training examples are the same"):
        cr.models.build("kernel-ridge", same)
    with pytest.raises(ArgumentError, match=r"^ridge=0: input should be greater than 0, or 'auto'"):
        cr.models.build("kernel-ridge", values, ridge=0)
