"""The density estimate as a model: SciPy's density, widths that validation chooses, samples, levels."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Data
from chainrule.models.kernel.kde.settings import KDEConfig, measured, searched, unit_of

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(300, 2)) @ np.array([[1.0, 0.9], [0.0, 0.2]])).astype(np.float32)


@pytest.fixture(scope="module")
def data() -> Data:
    return cr.data.from_arrays(X, kind="points")


@pytest.fixture(scope="module")
def run(data: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("kde", data)
    return cr.fit(model, data, run=tmp_path_factory.mktemp("runs") / "kde")


def test_densities_are_those_of_scipy(data: Data) -> None:
    model = cr.models.build("kde", data, shape="covariance", width=0.4)
    model, _ = model.iterate(data.train.batch(np.arange(len(data.train))), jax.random.key(0))  # type: ignore[attr-defined]
    x = np.asarray(data.train.x, np.float64).T
    ours = model.log_prob(jnp.asarray(data.test.x))
    # SciPy's covariance is divided by one less than the number of examples.
    theirs = scipy.stats.gaussian_kde(x, 0.4 * np.sqrt((x.shape[1] - 1) / x.shape[1]))
    np.testing.assert_allclose(ours, theirs.logpdf(np.asarray(data.test.x).T), atol=1e-4)


def test_shape_and_width_are_those_that_validation_likes_best(run: cr.Run, data: Data) -> None:
    config = run.model.config  # type: ignore[attr-defined]
    assert config.shape == "covariance"  # the data are a narrow ellipse
    values = []
    for width in (config.width, 0.7 * config.width, 1.4 * config.width):
        model = cr.models.build("kde", data, shape="covariance", width=width)
        model, _ = model.iterate(data.train.batch(np.arange(len(data.train))), jax.random.key(0))  # type: ignore[attr-defined]
        values.append(float(model.log_prob(jnp.asarray(data.val.x)).mean()))
    assert values[0] == max(values)


def test_without_validation_examples_each_is_judged_by_the_others(data: Data) -> None:
    alone = replace(data, val=cr.data.Rows({"x": X[:0]}))
    assert searched(alone)[1] is None
    assert 0.1 < measured(KDEConfig(shape="covariance"), alone)["width"] < 0.8


def test_scores_are_exact_likelihoods_and_samples_resemble_the_data(run: cr.Run, data: Data) -> None:
    assert run.score("test")["nll"].unit == "nats"
    drawn = run.sample(4000)
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.15)
    assert np.corrcoef(drawn.T)[0, 1] > 0.9


def test_levels_are_modelled_with_the_noise_between_them() -> None:
    digits = cr.data.load("digits")
    x = np.asarray(digits.train.x, np.float64).reshape(len(digits.train), -1)
    black = x.std(axis=0) == 0
    assert black.any()
    np.testing.assert_allclose(unit_of("columns", digits.schema, x)[black], 1 / 16 / np.sqrt(12), rtol=1e-9)
    _, held = searched(digits)
    assert held is not None
    levels = np.asarray(digits.val.x, np.float64).reshape(len(digits.val), -1)
    assert 0 < np.abs(held - levels).max() <= 0.5 / 16 + 1e-6


def test_pictures_can_be_drawn(run: cr.Run, data: Data) -> None:
    found = run.model.pictures(data, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["density", "widths"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_what_cannot_be_is_refused_and_remedies_work(data: Data) -> None:
    with pytest.raises(ArgumentError, match=r"width=0.5: .*shape of the bumps\n.*add shape=sphere"):
        cr.models.build("kde", data, width=0.5)
    assert cr.models.build("kde", data, width=0.5, shape="sphere").config.width == 0.5  # type: ignore[attr-defined]
    flat = cr.data.from_arrays(X * np.array([[1, 0]], np.float32), kind="points")
    with pytest.raises(ArgumentError, match=r"entry 1 is the same in all training examples\n.*shape=sphere"):
        cr.models.build("kde", flat, shape="columns")
    assert cr.models.build("kde", flat).config.shape == "sphere"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["gp", "kde", "kernel-pca"])
def test_weights_of_examples_are_refused_where_they_would_not_count(name: str) -> None:
    data = cr.data.from_arrays(X, X[:, 0], kind="table")
    weighty = replace(data, train=cr.data.Rows({**data.train.arrays, "weight": np.ones(len(data.train))}))
    with pytest.raises(CapabilityError, match=f"{name}: examples count equally(.|\\n)*leave data.weight out"):
        cr.models.build(name, weighty)
