"""Kernels of several parts by their names: the formula, what is learnt, what is refused, old settings."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.kernels import RBF, ArcCosine, KernelPCA, KernelRidge, Linear, Periodic
from chainrule.models.kernel.gp import pictures

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
X = np.linspace(-1, 1, 60)[:, None].astype(np.float32)


@pytest.fixture(scope="module")
def seasons() -> Data:
    """A wave of period 0.4 on a trend."""
    y = np.sin(2 * np.pi * X[:, 0] / 0.4) + X[:, 0] + 0.05 * RNG.normal(size=len(X))
    return cr.data.from_arrays(X, y, kind="table")


@pytest.fixture(scope="module")
def moons() -> Data:
    return cr.data.load("moons", n=80)


def trained(name: str, data: Data, **settings: Any) -> Any:
    batch = data.train.batch(np.arange(len(data.train)))
    model: Any = cr.models.build(name, data, **settings)
    return model.iterate(batch, KEY)[0]


def test_a_sum_of_products_is_the_kernel_that_it_says(seasons: Data) -> None:
    model: Any = cr.models.build(
        "gp", seasons, kernel="rbf + linear*periodic+arc-cosine", scale=0.7, period=0.3, order=2, points=9
    )
    assert model.config.kernel == "rbf+linear*periodic+arc-cosine"
    x = X[:5]
    expected = RBF(0.7).gram(x) + Linear().gram(x) * Periodic(1.0, 0.3).gram(x) + ArcCosine(2).gram(x)
    np.testing.assert_allclose(model.kernel.gram(x), expected, rtol=1e-5)
    variances = [name for name in tree.names(model.kernel) if name.endswith("log_value")]
    assert len(variances) == 3  # one for every term


@pytest.mark.slow
def test_regressions_components_and_borders_are_those_of_the_composed_kernel(
    seasons: Data, moons: Data
) -> None:
    x = np.asarray(seasons.train.x, np.float64)
    y = np.asarray(seasons.train.y, np.float64).reshape(-1, 1)
    settings = {"kernel": "rbf*periodic+linear", "scale": 2.0, "period": 1.5}
    kernel = RBF(2.0) * Periodic(1.0, 1.5) + Linear()
    ridge = trained("kernel-ridge", seasons, ridge=0.1, **settings)
    by_hand = KernelRidge(kernel, 0.1).fit(x, y - y.mean()).predict(x[:7])
    found = np.asarray(ridge.predict(jnp.asarray(x[:7], jnp.float32))).reshape(-1, 1)
    np.testing.assert_allclose(found, by_hand + y.mean(), atol=1e-4)
    codes = trained("kernel-pca", moons, latent=2, **settings)
    variances = KernelPCA(kernel, 2).fit(np.asarray(moons.train.x, np.float64)).variances
    np.testing.assert_allclose(codes.encode(jnp.asarray(moons.train.x)).var(axis=0), variances[:2], rtol=1e-2)
    border = trained("svm", moons, kernel="arc-cosine+linear", probability=False)
    classes = np.asarray(border.predict(jnp.asarray(moons.train.x))).argmax(axis=1)
    assert (classes == np.asarray(moons.train.y)).mean() > 0.8


def test_a_periodic_kernel_begins_at_the_period_of_the_strongest_wave(seasons: Data) -> None:
    model: Any = cr.models.build("gp", seasons, kernel="linear+periodic", points=9)
    assert model.config.period == pytest.approx(0.4 * float(np.ravel(seasons.scaling.factor)[0]), rel=0.1)
    assert model.config.scale == "auto"  # no part has one


@pytest.mark.slow
def test_what_repeats_on_a_trend_is_learnt_beyond_the_examples(seasons: Data) -> None:
    process = trained("gp", seasons, kernel="linear+periodic", restarts=0)
    learnt = dict(pictures.numbers_of(process.kernel))
    unit = float(np.ravel(seasons.scaling.factor)[0])
    assert learnt["Periodic period"] == pytest.approx(0.4 * unit, rel=0.05)
    beyond = np.array([[1.3], [1.5]], np.float32)
    assert seasons.target_scaling is not None
    new = jnp.asarray(seasons.scaling.apply(beyond))
    found = seasons.target_scaling.inverse(np.asarray(process.predict(new)))
    true = np.sin(2 * np.pi * beyond[:, 0] / 0.4) + beyond[:, 0]
    np.testing.assert_allclose(np.asarray(found).reshape(-1), true, atol=0.4)


@pytest.mark.parametrize("kernel", ["rbf+foo", "rbf*", "", "+", "rbf-linear", "__import__('os')"])
@pytest.mark.parametrize("name", ["gp", "kernel-pca", "kernel-ridge", "svm"])
def test_what_is_no_kernel_is_refused_and_the_known_ones_are_named(
    moons: Data, name: str, kernel: str
) -> None:
    with pytest.raises(ArgumentError, match=r"kernel=.* is no kernel(.|\n)*'rbf'.*'arc-cosine'"):
        cr.models.build(name, moons, kernel=kernel)


def test_a_misspelt_part_has_a_suggestion(moons: Data) -> None:
    with pytest.raises(ArgumentError, match=r"'perodic' is no kernel \(did you mean 'periodic'\?\)"):
        cr.models.build("svm", moons, kernel="rbf*perodic")


@pytest.mark.parametrize("unread", [{"period": 2.0}, {"order": 2}, {"degree": 4}])
def test_settings_of_parts_that_are_not_there_are_refused(moons: Data, unread: dict[str, Any]) -> None:
    (only,) = unread
    with pytest.raises(ArgumentError, match=f"^{only}="):
        cr.models.build("kernel-pca", moons, latent=2, kernel="rbf+linear", **unread)


def test_features_of_sums_are_those_of_landmarks(seasons: Data) -> None:
    settings: dict[str, Any] = {"kernel": "rbf+linear", "scale": 1.0, "ridge": 0.1, "features": 20}
    with pytest.raises(ArgumentError, match=r"no frequencies(.|\n)*use approximate=nystrom"):
        cr.models.build("kernel-ridge", seasons, approximate="rff", **settings)
    trained("kernel-ridge", seasons, approximate="nystrom", **settings)


def test_a_sum_of_inner_products_has_as_many_axes_as_monomials(moons: Data) -> None:
    with pytest.raises(ArgumentError, match=r"vary along 5 axes"):
        cr.models.build("kernel-pca", moons, kernel="linear+linear*linear", latent=6)


def test_settings_and_arrays_of_single_kernels_are_what_they_were(moons: Data) -> None:
    before = {"kernel": "rbf", "scale": 1.5, "degree": 3, "approximate": "none"}
    for name in ("gp", "kernel-pca", "kernel-ridge", "svm"):
        config = cr.models.entry(name).config.model_validate(before)
        assert config.kernel == "rbf"  # type: ignore[attr-defined]
    wave = cr.data.load("wave", n=40)
    kernel = cr.models.build("gp", wave, points=9).kernel  # type: ignore[attr-defined]
    assert tree.names(kernel) == ["first.log_value", "second.log_scale"]
