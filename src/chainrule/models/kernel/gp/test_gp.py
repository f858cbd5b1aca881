"""The Gaussian process as a model: the same numbers as the library, intervals of its own, what is refused."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.data import Data
from chainrule.data.generated.functions import wave_function
from chainrule.kernels.gaussian_processes import GaussianProcess
from chainrule.models.kernel.gp import GPRegressor, pictures

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def table() -> Data:
    x = RNG.normal(size=(110, 3))
    y = 100 + 20 * (np.sin(2 * x[:, 0]) + 0.5 * x[:, 1]) + 2 * RNG.normal(size=110)
    return cr.data.from_arrays(x.astype(np.float32), y, kind="table")


@pytest.fixture(scope="module")
def run(table: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("gp", table, restarts=1)
    return cr.fit(model, table, run=tmp_path_factory.mktemp("runs") / "gp")


@eqx.filter_jit
def predictive(model: GPRegressor, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    found = model.predictive(x)
    return found.mean, found.variance


def test_predictions_are_those_of_the_library_for_what_was_learnt(run: cr.Run, table: Data) -> None:
    model = run.model
    assert isinstance(model, GPRegressor)
    noise = float(np.exp(model.log_noise))
    exact = GaussianProcess(model.kernel, noise).fit(table.train.x, table.train.y).predict(table.test.x)
    mean, variance = predictive(model, jnp.asarray(table.test.x))
    np.testing.assert_allclose(mean, exact.mean, atol=1e-4)
    np.testing.assert_allclose(variance, exact.variance, rtol=1e-3)
    np.testing.assert_allclose(model.predict(jnp.asarray(table.test.x)), mean, atol=1e-4)


def test_what_was_learnt_is_a_maximum_of_the_evidence(run: cr.Run, table: Data) -> None:
    model = run.model
    assert isinstance(model, GPRegressor)
    best = -run.curve("loss")[1][0] * len(model.points)
    for factor in (0.7, 1.4):
        moved = GaussianProcess(model.kernel, factor * np.exp(model.log_noise)).fit(
            table.train.x, table.train.y
        )
        assert moved.log_marginal_likelihood < best


def test_a_column_that_does_not_matter_has_a_long_scale(run: cr.Run) -> None:
    assert isinstance(run.model, GPRegressor)
    scales = pictures.column_scales(run.model)
    assert scales is not None
    assert scales[2] > 3 * scales[0]


def test_intervals_come_from_the_model_and_are_wider_far_away(run: cr.Run) -> None:
    found = run.predict(np.array([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]], np.float32), level=0.5)
    assert "model's own distribution" in " ".join(found.notes)
    width = (found["high"] - found["low"]) / 2
    assert width[1] > 3 * width[0]
    x = run.data.scaling.apply(np.array([[0.0, 0.0, 0.0]], np.float32))
    assert isinstance(run.model, GPRegressor)
    assert run.data.target_scaling is not None
    deviation = np.sqrt(predictive(run.model, jnp.asarray(x))[1][0]) / run.data.target_scaling.factor
    np.testing.assert_allclose(width[0], scipy.stats.norm.ppf(0.75) * deviation, rtol=1e-4)


def test_scores_are_the_density_and_the_coverage_in_units_of_the_data(run: cr.Run, table: Data) -> None:
    found = run.score("test")
    mean, variance = predictive(run.model, jnp.asarray(table.test.x))  # type: ignore[arg-type]
    scaling = table.target_scaling
    assert scaling is not None
    center = scaling.inverse(np.asarray(mean, np.float64))
    spread = np.sqrt(np.asarray(variance, np.float64)) / scaling.factor
    true = scaling.inverse(np.asarray(table.test.y, np.float64))
    density = scipy.stats.norm(center, spread).logpdf(true)
    np.testing.assert_allclose(found["nlpd"].value, -density.mean(), rtol=1e-4)
    assert found["nlpd"].unit == "nats"
    held = np.abs(true - center) <= scipy.stats.norm.ppf(0.95) * spread
    np.testing.assert_allclose(found["coverage_90"].value, held.mean())
    assert found["r2"].value > 0.9


def test_the_wave_is_found_and_its_gap_is_uncertain(tmp_path: Path) -> None:
    data = cr.data.load("wave", n=140)
    model = cr.models.build("gp", data, restarts=0)
    model, _ = model.iterate(data.train.batch(np.arange(len(data.train))), jax.random.key(0))  # type: ignore[attr-defined]
    x = np.array([[-2.0], [1.0], [2.5]], np.float32)
    mean, variance = model.latent(jnp.asarray(x))
    assert data.target_scaling is not None
    answer = data.target_scaling.inverse(np.asarray(mean, np.float64)[:, 0])
    np.testing.assert_allclose(answer, wave_function(x[:, 0]), atol=0.3)
    assert variance[1] > 3 * max(variance[0], variance[2])


def test_several_outputs_share_a_kernel() -> None:
    x = RNG.normal(size=(60, 2)).astype(np.float32)
    data = cr.data.from_arrays(x, np.stack([x[:, 0], x[:, 1] ** 2], axis=1), kind="table")
    model = cr.models.build("gp", data, restarts=0, kernel="matern52")
    batch = data.train.batch(np.arange(len(data.train)))
    before = float(model.loss(jax.tree.map(jnp.asarray, batch), jax.random.key(0))[0])
    model, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
    assert predictive(model, jnp.asarray(data.test.x))[0].shape == (len(data.test), 2)
    assert float(model.loss(jax.tree.map(jnp.asarray, batch), jax.random.key(0))[0]) < before


def test_hyperparameters_can_stay_as_they_are_given(table: Data) -> None:
    model = cr.models.build("gp", table, learn=False, scale=1.5, noise=0.02, ard=False, kernel="matern32")
    model, _ = model.iterate(table.train.batch(np.arange(len(table.train))), jax.random.key(0))  # type: ignore[attr-defined]
    assert isinstance(model, GPRegressor)
    np.testing.assert_allclose(np.exp(model.log_noise), 0.02, rtol=1e-5)
    np.testing.assert_allclose(model.kernel.second.scale, 1.5, rtol=1e-6)  # type: ignore[attr-defined]


def test_what_cannot_be_is_refused_and_what_is_left_out_is_said(table: Data) -> None:
    with pytest.raises(ArgumentError, match="kernel=linear has no scales"):
        cr.models.build("gp", table, kernel="linear", ard=True)
    with pytest.raises(ArgumentError, match="has 88 training examples"):
        cr.models.build("gp", table, points=89)
    many = cr.data.from_arrays(
        RNG.normal(size=(4000, 1)).astype(np.float32), RNG.normal(size=4000), kind="table"
    )
    with pytest.warns(ChainruleWarning, match="3,000 of 3,200 training examples are kept"):
        model = cr.models.build("gp", many)
    assert len(model.points) == 3000  # type: ignore[attr-defined]


def test_pictures_can_be_drawn(run: cr.Run, table: Data) -> None:
    found = run.model.pictures(table, jax.random.key(0))  # type: ignore[attr-defined]
    names = [one.name for one in found]
    assert names == [
        "hyper-parameters",
        *(f"band-{i}" for i in (0, 1, 2)),
        "relevance",
        "evidence-surface",
        "left-out",
    ]
    assert all(report.draw(one).startswith("<svg") for one in found)
    assert "interval-coverage" in [one.name for one in report.gallery.prediction_pictures(run)]


def test_the_surface_is_highest_at_what_was_learnt(run: cr.Run, table: Data) -> None:
    assert isinstance(run.model, GPRegressor)
    surface = pictures.evidence_surface(run.model, table).field
    assert surface is not None
    row, column = np.unravel_index(np.argmax(surface), surface.shape)
    assert abs(row - 12) <= 1
    assert abs(column - 12) <= 1


def test_targets_left_out_are_those_of_the_library(run: cr.Run, table: Data) -> None:
    model = run.model
    assert isinstance(model, GPRegressor)
    exact = GaussianProcess(model.kernel, np.exp(model.log_noise)).fit(table.train.x, table.train.y)
    (picture,) = pictures.left_out(model, table)
    assert table.target_scaling is not None
    answer = table.target_scaling.inverse(exact.leave_one_out().mean)
    np.testing.assert_allclose(picture.groups["examples"][:, 1], answer, rtol=1e-3)  # type: ignore[union-attr]
