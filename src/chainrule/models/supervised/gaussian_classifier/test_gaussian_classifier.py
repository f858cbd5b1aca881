"""The Gaussian classifier as a model: against scikit-learn and SciPy, samples of a class, what is said of bad data."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data import Data
from chainrule.data.batches import Batch

RNG = np.random.default_rng(0)
THEIRS = {
    "shared": LinearDiscriminantAnalysis(solver="lsqr"),
    "per-class": QuadraticDiscriminantAnalysis(solver="eigen"),
    "diagonal": GaussianNB(var_smoothing=0),
}


@pytest.fixture(scope="module")
def table() -> Data:
    y = RNG.integers(0, 3, 400)
    x = RNG.normal(size=(400, 4)) @ RNG.normal(size=(4, 4)) + 2 * RNG.normal(size=(3, 4))[y]
    return cr.data.from_arrays(x.astype(np.float32), np.array(["a", "b", "c"])[y], kind="table")


@pytest.fixture(scope="module")
def run(table: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("gaussian-classifier", table, covariance="per-class")
    return cr.fit(model, table, run=tmp_path_factory.mktemp("runs") / "gaussian")


@pytest.mark.parametrize("covariance", list(THEIRS))
def test_probabilities_are_those_of_scikit_learn(table: Data, covariance: str) -> None:
    with jax.enable_x64(True):
        model = cr.models.build("gaussian-classifier", table, covariance=covariance, shrinkage=0)
        batch = table.train.batch(np.arange(len(table.train)))
        model, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
        theirs = THEIRS[covariance].fit(np.asarray(batch.x, np.float64), batch.y)
        x = np.asarray(table.test.x, np.float64)
        np.testing.assert_allclose(model.predict(jnp.asarray(x)), theirs.predict_proba(x), atol=1e-6)


def test_densities_are_those_of_scipy_for_every_class_and_for_all_together(run: cr.Run, table: Data) -> None:
    model, x = run.model, np.asarray(table.test.x)
    batch = table.train.batch(np.arange(len(table.train)))
    fit = np.asarray(batch.x, np.float64)
    from chainrule.models.supervised.gaussian_classifier.model import fitted

    found = fitted(model.config, model.schema, Batch(fit, batch.y))  # type: ignore[attr-defined]
    logs = np.stack(
        [
            scipy.stats.multivariate_normal(m, c).logpdf(x)
            for m, c in zip(found.means, found.covariances, strict=True)
        ],
        axis=1,
    )
    each = eqx.filter_jit(lambda m, x: m.class_log_prob(x))(model, jnp.asarray(x))
    np.testing.assert_allclose(each, logs, rtol=2e-4, atol=2e-3)
    joint = logs + np.log(found.counts / found.counts.sum())
    whole = eqx.filter_jit(lambda m, x: m.log_prob(x))(model, jnp.asarray(x))
    np.testing.assert_allclose(whole, np.logaddexp.reduce(joint, axis=1), rtol=2e-4, atol=2e-3)


def test_samples_of_a_class_have_its_mean_and_covariance(run: cr.Run) -> None:
    model = run.model
    drawn = np.asarray(model.sample(jax.random.key(0), 20_000, condition="b"))  # type: ignore[attr-defined]
    own = model.spread.of(model.means[1:2], jnp.array([1]))  # type: ignore[attr-defined]
    np.testing.assert_allclose(drawn.mean(axis=0), own.mean[0], atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), own.covariance[0], atol=0.1)


def test_scores_are_accuracy_and_exact_likelihood_and_take_a_temperature(run: cr.Run) -> None:
    found = run.score("test")
    assert found["accuracy"].value > 0.8
    assert found["nll"].unit == "nats"
    assert run.predict(np.asarray(run.data.inverse(run.data.test.x[:4])), calibrated=True).notes


def test_priors_are_counted_equal_or_given(table: Data) -> None:
    batch = table.train.batch(np.arange(len(table.train)))
    for prior, expected in (
        ("empirical", np.bincount(batch.y) / len(batch.y)),
        ("uniform", np.full(3, 1 / 3)),
        ((1.0, 2.0, 1.0), np.array([0.25, 0.5, 0.25])),
    ):
        model = cr.models.build("gaussian-classifier", table, prior=prior)
        model, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
        np.testing.assert_allclose(np.exp(model.log_prior), expected, rtol=1e-5)
    with pytest.raises(ArgumentError, match="2 probabilities for 3 classes"):
        cr.models.build("gaussian-classifier", table, prior=(0.5, 0.5))


def test_a_singular_covariance_is_said_before_training(table: Data) -> None:
    x = np.asarray(table.train.x)
    twice = np.concatenate([x, x[:, :1]], axis=1)
    data = cr.data.from_arrays(twice, np.asarray(table.train.y), kind="table")
    with pytest.warns(ChainruleWarning, match="in 1 of 5 directions"):
        cr.models.build("gaussian-classifier", data, covariance="per-class", shrinkage=0)


def test_a_class_without_training_examples_is_refused(table: Data) -> None:
    from dataclasses import replace

    x, y = np.asarray(table.train.x), np.asarray(table.train.y)
    few = replace(table, train=cr.data.Rows({"x": x[y > 0], "y": y[y > 0]}))
    with pytest.raises(DataError, match="class 'a' has no training examples"):
        cr.models.build("gaussian-classifier", few)


def test_levels_are_fitted_with_the_noise_between_them(tmp_path: Path) -> None:
    data = cr.data.load("digits")
    model = cr.models.build("gaussian-classifier", data, covariance="diagonal")
    batch = data.train.batch(np.arange(len(data.train)))
    model, _ = model.iterate(batch, jax.random.key(0))  # type: ignore[attr-defined]
    black = np.asarray(batch.x).reshape(len(batch.x), -1).std(axis=0) == 0  # pixels that are always black
    scale = np.exp(np.asarray(model.spread.log_scales))[:, black]
    np.testing.assert_allclose(scale, 1 / 16 / np.sqrt(12), rtol=1e-4)


def test_pictures_can_be_drawn(run: cr.Run, table: Data) -> None:
    found = run.model.pictures(table, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["classes", "discriminants"]
    assert all(report.draw(one).startswith("<svg") for one in found)
