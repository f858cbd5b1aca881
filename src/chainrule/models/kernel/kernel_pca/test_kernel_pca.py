"""Kernel PCA as a model: PCA with the linear kernel, the library's codes, and two ways back from codes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import report
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.kernels import RBF
from chainrule.kernels.principal_components import KernelPCA

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def data() -> Data:
    angle = RNG.uniform(0, np.pi, 150)
    x = np.stack([np.cos(angle), np.sin(angle), 0.2 * angle], axis=1) + 0.02 * RNG.normal(size=(150, 3))
    return cr.data.from_arrays(
        x.astype(np.float32), np.array(["a", "b"])[(angle > 1.5).astype(int)], kind="table"
    )


@pytest.fixture(scope="module")
def run(data: Data, tmp_path_factory: pytest.TempPathFactory) -> cr.Run:
    model = cr.models.build("kernel-pca", data, latent=4, scale=2.0)
    return cr.fit(model, data, run=tmp_path_factory.mktemp("runs") / "kernel-pca")


def test_codes_are_those_of_the_library(run: cr.Run, data: Data) -> None:
    found = KernelPCA(RBF(2.0), 4).fit(np.asarray(data.train.x, np.float64))
    codes = np.asarray(run.model.encode(jnp.asarray(data.test.x)))  # type: ignore[attr-defined]
    np.testing.assert_allclose(np.abs(codes), np.abs(found.transform(data.test.x)), atol=2e-3)
    lost = 1 - found.explained[:4].sum()
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(120)))
    loss, _ = run.model.loss(batch, jax.random.key(0))
    assert float(loss) == pytest.approx(lost * found.variances.sum(), rel=0.01, abs=1e-4)


@pytest.mark.parametrize("approximate", ["rff", "nystrom"])
def test_features_in_place_of_the_kernel_give_nearly_its_codes(
    run: cr.Run, data: Data, approximate: str
) -> None:
    count = {"rff": 400, "nystrom": 40}[approximate]
    model = cr.models.build(
        "kernel-pca", data, latent=4, scale=2.0, approximate=approximate, features=count, points=60
    )
    found, _ = model.iterate(data.train.batch(np.arange(120)), jax.random.key(0))  # type: ignore[attr-defined]
    x = jnp.asarray(data.test.x)
    exact = np.asarray(run.model.encode(x))  # type: ignore[attr-defined]
    for axis in range(3):  # the sign of an axis is anyone's
        assert abs(np.corrcoef(np.asarray(found.encode(x))[:, axis], exact[:, axis])[0, 1]) > 0.98
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(120)))
    exact_loss = float(run.model.loss(batch, jax.random.key(0))[0])
    assert float(found.loss(batch, jax.random.key(0))[0]) == pytest.approx(exact_loss, abs=0.02)
    assert np.square(found.decode(found.encode(x)) - x).mean() < 0.02
    assert all(report.draw(one).startswith("<svg") for one in found.pictures(data, jax.random.key(0)))


def test_features_that_do_not_suit_are_refused(data: Data) -> None:
    for settings, message in (
        ({"features": 50}, "approximate=none takes the kernel itself"),
        ({"approximate": "nystrom", "features": 121}, "landmarks are training examples"),
        ({"approximate": "rff", "features": 8}, r"latent=16: .* vary along 8 axes"),
    ):
        with pytest.raises(ArgumentError, match=message):
            cr.models.build("kernel-pca", data, scale=2.0, **settings)


def test_pictures_can_be_drawn(run: cr.Run, data: Data) -> None:
    found = run.model.pictures(data, jax.random.key(0))  # type: ignore[attr-defined]
    assert [one.name for one in found] == ["scree", "codes", "gram"]
    assert all(report.draw(one).startswith("<svg") for one in found)


def test_more_axes_than_examples_are_refused(data: Data) -> None:
    with pytest.raises(
        ArgumentError, match=r"latent=30: .* 20 examples vary along 19 axes\n.*latent=19 or less"
    ):
        cr.models.build("kernel-pca", data, latent=30, points=20)
    with pytest.raises(ArgumentError, match=r"latent=16: .*\n.*use latent=\d+ or less"):
        cr.models.build("kernel-pca", data, kernel="linear")
