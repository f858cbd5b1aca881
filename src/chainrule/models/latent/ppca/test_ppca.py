"""PPCA and PCA as models: closed forms, levels, the choice of the number of factors."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.models.latent.ppca.choice import validation_likelihoods
from chainrule.probability.linear import FactorModel, ppca, principal_components


@pytest.fixture(scope="module")
def table() -> Data:
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 2)) @ random.normal(size=(2, 6)) + 0.3 * random.normal(size=(400, 6))
    return cr.data.from_arrays(x.astype(np.float32))


def test_a_run_ends_in_one_iteration_at_the_closed_form(table: Data, tmp_path: Path) -> None:
    run = cr.fit(cr.models.build("ppca", table), table, run=tmp_path / "ppca")
    assert run.status["message"] == "converged after 1 iteration"
    assert run.model.config.latent == 2  # type: ignore[attr-defined]  # the data have two factors
    expected = ppca(principal_components(np.asarray(table.train.x)), 2)
    covariance = expected.loadings @ expected.loadings.T + np.diag(expected.noise)
    exact = scipy.stats.multivariate_normal(expected.mean, covariance)
    x = np.asarray(table.val.x)
    np.testing.assert_allclose(run.model.log_prob(jnp.asarray(x)), exact.logpdf(x), rtol=1e-4, atol=1e-4)  # type: ignore[attr-defined]
    drawn = np.asarray(run.model.sample(jax.random.key(0), 4000))  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.12)
    assert run.score("val")["nll"].unit == "nats"


def test_the_number_of_factors_is_the_one_that_a_model_of_each_number_would_choose(table: Data) -> None:
    x, held = (np.asarray(part.x, np.float64) for part in (table.train, table.val))
    found = validation_likelihoods(x, held)
    with jax.enable_x64(True):
        for k in (1, 3, 5):
            model = FactorModel.of(ppca(principal_components(x), k))
            expected = float(model.distribution.log_prob(jnp.asarray(held)).mean())
            assert found[k - 1] == pytest.approx(expected, abs=1e-8)


def test_levels_are_scored_with_noise_between_them_as_they_were_learned(tmp_path: Path) -> None:
    data = cr.data.load("digits")
    run = cr.fit(cr.models.build("ppca", data, latent=20), data, run=tmp_path / "levels")
    scores = run.score("test")
    assert "bits_per_dim" not in scores
    assert scores["bits_per_dim_bound"].unit == "bits/dim"
    assert scores["bits_per_dim_bound"].kind == "bound, uniform dequantisation"
    # Noise of variance 1/12 of a squared level is part of the model: the loss it was trained to is that of noisy data.
    x = np.asarray(data.train.x, np.float64).reshape(len(data.train), -1)
    noisy = x + np.random.default_rng(0).uniform(-0.5, 0.5, x.shape) / 16
    loss = -float(np.asarray(run.model.log_prob(jnp.asarray(noisy.reshape(-1, 8, 8, 1), jnp.float32))).mean())  # type: ignore[attr-defined]
    assert run.curve("loss")[1][-1] == pytest.approx(loss, rel=0.005)
    with pytest.raises(ArgumentError, match=r"latent=64: .* at most 63 factors"):
        cr.models.build("ppca", data, latent=64)
    with pytest.raises(ArgumentError, match=r"latent=65: 1437 training examples of 64 entries have 64 axes"):
        cr.models.build("pca", data, latent=65)


def test_factor_analysis_climbs_above_one_noise_for_all(table: Data, tmp_path: Path) -> None:
    runs = [
        cr.fit(cr.models.build("ppca", table, latent=2, noise=noise), table, run=tmp_path / noise)
        for noise in ("isotropic", "diagonal")
    ]
    losses = [run.curve("loss")[1] for run in runs]
    assert losses[1][-1] < losses[0][-1]
    assert (np.diff(losses[1]) <= 1e-6).all()
    assert "converged" in runs[1].status["message"]


def test_pca_rebuilds_what_its_axes_hold(table: Data, tmp_path: Path) -> None:
    run = cr.fit(cr.models.build("pca", table, latent=2, whiten=True), table, run=tmp_path / "pca")
    x = jnp.asarray(table.train.x)
    codes = np.asarray(run.model.encode(x))  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.cov(codes.T, bias=True), np.eye(2), atol=1e-3)
    found = principal_components(np.asarray(table.train.x), 2)
    back = np.asarray(run.model.decode(jnp.asarray(codes)))  # type: ignore[attr-defined]
    assert np.square(back - np.asarray(x)).sum(axis=1).mean() == pytest.approx(found.error, rel=1e-3)


@pytest.fixture(scope="module")
def flat() -> Data:
    """Four columns of which the last is the sum of two others."""
    x = np.random.default_rng(0).normal(size=(60, 3))
    return cr.data.from_arrays(np.column_stack([x, x[:, 0] + x[:, 1]]).astype(np.float64))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "pca",
            {"latent": 6},
            r"latent=6: 48 training examples of 4 entries have 4 axes\n +use latent=4 or less",
        ),
        (
            "pca",
            {"latent": 4, "whiten": True},
            r"vary along 3 axes.*\n +use latent=3 or less, or whiten=false",
        ),
        ("ppca", {"latent": 3}, r"latent=3: .* vary along 3 directions.*\n +use latent=2 or less"),
    ],
)
def test_what_the_data_cannot_have_is_refused_before_training_by_the_name_of_the_setting(
    flat: Data, name: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        cr.models.build(name, flat, **settings)


def test_points_on_a_line_have_no_probabilistic_components() -> None:
    line = cr.data.from_arrays(np.outer(np.random.default_rng(0).normal(size=50), [1.0, 2.0, -1.0]))
    with pytest.raises(ArgumentError, match="lie on a line"):
        cr.models.build("ppca", line)
