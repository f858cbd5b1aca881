"""Gaussian processes by features in place of their kernel, as models: the exact process, what is kept, bad settings."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.models.kernel.gp import FeatureGPRegressor, GPRegressor
from tests.contracts import checks

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
GIVEN: dict[str, Any] = {"learn": False, "scale": 1.5, "noise": 0.05}


@pytest.fixture(scope="module")
def table() -> Data:
    x = RNG.normal(size=(110, 2))
    y = 100 + 20 * (np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]) + 2 * RNG.normal(size=110)
    return cr.data.from_arrays(x.astype(np.float32), y, kind="table")


@pytest.fixture(scope="module")
def run(table: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("gp", table, approximate="nystrom", features=40, restarts=0)
    return cr.fit(model, table, run=tmp_path_factory.mktemp("runs") / "gp")


def iterated(data: Data, **settings: Any) -> Any:
    model = cr.models.build("gp", data, **settings)
    return model.iterate(data.train.batch(np.arange(len(data.train))), KEY)  # type: ignore[attr-defined]


@eqx.filter_jit
def latent(model: Any, x: jax.Array) -> tuple[jax.Array, ...]:
    return *model.latent(x), jax.grad(lambda x: model.predict(x).sum())(x)


def test_with_all_landmarks_answers_slopes_and_loss_are_those_of_the_exact_process(table: Data) -> None:
    exact, numbers = iterated(table, kernel="matern32", **GIVEN)
    found, own = iterated(table, kernel="matern32", approximate="nystrom", features=88, **GIVEN)
    assert isinstance(exact, GPRegressor)
    assert isinstance(found, FeatureGPRegressor)
    x = jnp.asarray(np.concatenate([table.test.x, [[9.0, 9.0]]]), jnp.float32)
    for ours, theirs in zip(latent(found, x), latent(exact, x), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-4)
    assert float(own["loss"]) == pytest.approx(float(numbers["loss"]), abs=1e-4)


def test_random_features_come_close_and_several_outputs_share_them(table: Data) -> None:
    x = np.asarray(table.train.x)
    data = cr.data.from_arrays(x, np.stack([x[:, 0], np.sin(2 * x[:, 1])], axis=1), kind="table")
    exact, _ = iterated(data, **GIVEN)
    found, _ = iterated(data, approximate="rff", features=2000, **GIVEN)
    new = jnp.asarray(data.test.x)
    for ours, theirs, most in zip(latent(found, new), latent(exact, new), (0.1, 0.02, 0.5), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=most)
    assert found.predict(new).shape == (len(data.test), 2)


def test_a_run_learns_scales_is_opened_and_drawn(run: cr.Run, table: Data) -> None:
    again = cr.Run.open(run.path).model
    x = jnp.asarray(table.test.x)
    np.testing.assert_array_equal(again.predict(x), run.model.predict(x))  # type: ignore[attr-defined]
    found = run.score("test")
    assert found["r2"].value > 0.9
    assert found["coverage_90"].value > 0.5
    pictures = run.model.pictures(table, KEY)  # type: ignore[attr-defined]
    assert [one.name for one in pictures] == [
        "hyper-parameters",
        "band-0",
        "band-1",
        "relevance",
        "evidence-surface",
    ]
    assert all(report.draw(one).startswith("<svg") for one in pictures)
    checks.check_predict(run.model, checks.examples(table), table.schema)


def test_before_training_the_answer_is_the_prior(table: Data) -> None:
    for approximate in ("rff", "nystrom"):
        model = cr.models.build("gp", table, approximate=approximate, features=20)
        mean, variance, _ = latent(model, jnp.asarray(table.test.x))
        np.testing.assert_allclose(mean, 0, atol=1e-6)
        np.testing.assert_allclose(variance, 1, atol=1e-5)


def test_settings_that_contradict_are_refused(table: Data) -> None:
    for settings, message in (
        ({"features": 50}, r"features=50: approximate=none takes the kernel itself"),
        ({"approximate": "rff", "points": 50}, r"features learn from every example.*\n.*use features=50"),
        ({"approximate": "rff", "kernel": "linear", "ard": False}, r"kernel=linear .* no frequencies"),
        ({"approximate": "nystrom", "features": 89}, r"has 88\n.*features=88 or less"),
        ({"approximate": "rff", "method": "sparse"}, r"approximate=rff method=sparse: .* the kernel itself"),
        ({"approximate": "rff", "method": "iterative"}, r"method=iterative: .*\n.*leave one of the two out"),
    ):
        with pytest.raises(ArgumentError, match=message):
            cr.models.build("gp", table, **settings)
    with pytest.raises(ArgumentError, match=r"approximate=nystrom: classes .*\n.*svm and kernel-ridge"):
        cr.models.build("gp", cr.data.load("moons"), approximate="nystrom")
