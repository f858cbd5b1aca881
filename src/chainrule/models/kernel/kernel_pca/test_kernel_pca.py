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
