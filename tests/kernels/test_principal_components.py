"""Kernel PCA against PCA and scikit-learn, and pre-images."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import KernelPCA as Theirs

from chainrule.core.errors import ArgumentError, DataError
from chainrule.kernels import RBF, Linear, Matern, Precomputed
from chainrule.kernels.pre_images import descend
from chainrule.kernels.principal_components import KernelPCA
from chainrule.kernels.trick import centred
from chainrule.probability.linear import principal_components

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(50, 3)) * [2.0, 1.0, 0.5] + 5, RNG.normal(size=(15, 3)) + 5


def aligned(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Ours with the signs of theirs: the sign of an axis is anyone's."""
    return ours * np.sign((ours * theirs).sum(axis=0))[None]


def test_with_the_linear_kernel_it_is_pca() -> None:
    found, plain = KernelPCA(Linear(), 3).fit(X), principal_components(X)
    for ours, theirs in ((found.codes, plain.transform(X)), (found.transform(NEW), plain.transform(NEW))):
        np.testing.assert_allclose(aligned(ours, theirs), theirs, atol=1e-9)
    np.testing.assert_allclose(found.variances[:3], plain.variances, rtol=1e-9)
    np.testing.assert_allclose(found.explained[:3], plain.explained, rtol=1e-9)


def test_coordinates_are_those_of_scikit_learn() -> None:
    found = KernelPCA(RBF(gamma=0.2), 4).fit(X)
    theirs = Theirs(4, kernel="rbf", gamma=0.2, eigen_solver="dense").fit(X)
    np.testing.assert_allclose(found.variances[:4] * len(X), theirs.eigenvalues_, rtol=1e-9)
    expected = theirs.transform(NEW)
    np.testing.assert_allclose(aligned(found.transform(NEW), expected), expected, atol=1e-6)


def test_new_rows_are_centred_with_the_means_of_training() -> None:
    found = KernelPCA(RBF(1.0), 3).fit(X)
    np.testing.assert_allclose(found.transform(X), found.codes, atol=1e-9)
    alone = np.concatenate([found.transform(NEW[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(alone, found.transform(NEW)[:3], atol=1e-12)


def test_codes_are_centred_uncorrelated_and_have_the_variances() -> None:
    found = KernelPCA(Matern(1.5, 2.0), 5).fit(X)
    np.testing.assert_allclose(found.codes.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(found.codes.T @ found.codes / len(X), np.diag(found.variances[:5]), atol=1e-12)
    assert found.explained.sum() == pytest.approx(1)
    gram = np.asarray(centred(Matern(1.5, 2.0).gram(X)))
    everything = KernelPCA(Matern(1.5, 2.0), 49).fit(X)
    np.testing.assert_allclose(everything.codes @ everything.codes.T, gram, atol=1e-9)


def test_descent_finds_the_point_whose_code_it_is() -> None:
    found = KernelPCA(RBF(3.0), 20).fit(X)
    inside = (X[:10] + X[10:20]) / 2
    back = found.pre_image(found.transform(inside), steps=500)
    assert np.sqrt(np.square(back - inside).mean()) < 0.02


def test_descent_never_ends_above_its_start() -> None:
    found = KernelPCA(RBF(1.0), 3).fit(X)
    z = found.transform(NEW)
    arrays = (jnp.asarray(z), jnp.asarray(found.points), jnp.asarray(found.codes))
    gaps = [
        np.asarray(found.projection.gap(descend(found.projection, *arrays, n), arrays[0])) for n in (1, 20)
    ]
    apart = np.square(z[:, None] - found.codes[None]).sum(axis=-1)
    start = np.asarray(found.projection.gap(jnp.asarray(X[apart.argmin(axis=1)]), arrays[0]))
    assert (gaps[0] <= start).all()
    assert (gaps[1] < gaps[0]).all()


def test_the_gap_is_the_squared_distance_in_feature_space() -> None:
    found = KernelPCA(Linear(), 2).fit(X)
    plain = principal_components(X, 2)
    z = found.transform(NEW)
    target = (
        plain.mean
        + np.square(aligned(z, plain.transform(NEW)) - plain.transform(NEW)).sum()
        + (aligned(z, plain.transform(NEW)) @ plain.axes)
    )
    at = RNG.normal(size=(15, 3))
    gap = np.asarray(found.projection.gap(jnp.asarray(at), jnp.asarray(z)))
    np.testing.assert_allclose(
        gap + np.square(target).sum(axis=1), np.square(at - target).sum(axis=1), atol=1e-8
    )


def test_ridge_learns_the_way_back() -> None:
    found = KernelPCA(RBF(3.0), 20).fit(X)
    inside = (X[:10] + X[10:20]) / 2
    back = found.pre_image(found.transform(inside), "ridge")
    assert np.sqrt(np.square(back - inside).mean()) < 0.1
    heavy = found.pre_image(found.transform(inside), "ridge", ridge=1e6)
    np.testing.assert_allclose(heavy, np.broadcast_to(X.mean(axis=0), heavy.shape), atol=1e-3)


def test_the_projection_can_be_compiled_in_single_precision() -> None:
    with jax.enable_x64(False):
        found = KernelPCA(RBF(2.0), 2).fit(X)
        codes = eqx.filter_jit(found.projection)(NEW.astype(np.float32))
        assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, found.transform(NEW), atol=1e-5)


@pytest.mark.parametrize(("method", "count", "most"), [("nystrom", 50, 1e-5), ("rff", 1000, 0.2)])
def test_features_stand_for_the_kernel(method, count, most) -> None:
    near = KernelPCA(RBF(2.0), 2, approximate=method, count=count).fit(X)
    expected = KernelPCA(RBF(2.0), 2).fit(X).transform(NEW)
    np.testing.assert_allclose(aligned(near.transform(NEW), expected), expected, atol=most)
    assert near.pre_image(near.codes[:2], steps=5).shape == (2, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: KernelPCA(Linear(), 4).fit(X), "vary along 3 axes\n.*use components=3 or less"),
        (lambda: KernelPCA(RBF(1.0), 1).fit(np.ones((5, 2))), "vary along 0 axes\n.*all alike"),
        (lambda: KernelPCA(RBF(1.0), 0), "components must be a whole number of at least 1"),
        (lambda: KernelPCA(RBF(1.0)).fit(X[:1]), "1 points have no variance"),
        (lambda: KernelPCA(RBF(1.0)).fit([[np.inf]]), "row 0, column 0 is inf"),
        (lambda: KernelPCA(RBF(1.0)).fit(X).transform(NEW[:, :2]), r"expected \(n, 3\), got \(15, 2\)"),
        (lambda: KernelPCA(RBF(1.0)).fit(X).pre_image(np.zeros((2, 3))), r"\[points, 2\] is needed"),
        (lambda: KernelPCA(RBF(1.0)).fit(X).pre_image(np.zeros((2, 2)), "guess"), '"gradient" or "ridge"'),
        (
            lambda: KernelPCA(
                Precomputed(np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0]])), 1
            ).fit(np.arange(3.0)),
            "not positive semi-definite",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises((ArgumentError, DataError), match=words):
        call()
