"""The kernel trick and functions of the kernel's space, against features that are written out."""

import equinox as eqx
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Linear, Matern, Polynomial, trick
from chainrule.kernels import polynomial_features as written
from chainrule.kernels.rkhs import KernelFunction, interpolate

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(9, 2)), RNG.normal(size=(4, 2))
LABELS = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
KERNEL = Polynomial(2, 1.0)
A, B = RNG.normal(size=(2, 9))


def features(x: np.ndarray) -> np.ndarray:
    return np.asarray(written.explicit_features(KERNEL, x))


PHI = np.stack([np.ones(9), *(2**0.5 * X.T), X[:, 0] ** 2, X[:, 1] ** 2, 2**0.5 * X[:, 0] * X[:, 1]], axis=1)
K = PHI @ PHI.T


def test_combinations_of_features_are_known_by_their_weights() -> None:
    y, z = A @ PHI, B @ PHI
    assert trick.combined(K, A, B) == pytest.approx(y @ z)
    assert trick.squared_distance(K, A, B) == pytest.approx(np.square(y - z).sum())
    moved = PHI - PHI.mean(axis=0, keepdims=True)
    np.testing.assert_allclose(trick.centre(K), moved @ moved.T, atol=1e-12)
    unit = PHI / np.linalg.norm(PHI, axis=1, keepdims=True)
    np.testing.assert_allclose(trick.normalise(K), unit @ unit.T, atol=1e-12)


def test_means_spread_and_neighbours_are_those_of_the_features() -> None:
    phi, new = features(X), features(NEW)
    assert trick.feature_variance(KERNEL, X) == pytest.approx(
        np.square(phi - phi.mean(0)[None]).sum(1).mean()
    )
    apart = np.linalg.norm(new[:, None] - phi[None], axis=2)
    np.testing.assert_allclose(trick.feature_distances(KERNEL, NEW, X), apart, rtol=1e-8)
    found = trick.nearest_neighbours(KERNEL, NEW, X, 3)
    assert (found.numbers == np.argsort(apart, axis=1)[:, :3]).all()
    np.testing.assert_allclose(found.distances, np.sort(apart, axis=1)[:, :3], rtol=1e-8)
    means = np.stack([phi[c == LABELS].mean(axis=0) for c in range(3)])
    wanted = np.linalg.norm(new[:, None] - means[None], axis=2)
    np.testing.assert_allclose(trick.distances_to_means(KERNEL, NEW, X, LABELS), wanted, rtol=1e-8)
    assert (trick.nearest_mean(KERNEL, NEW, X, LABELS) == wanted.argmin(axis=1)).all()
    np.testing.assert_allclose(
        trick.distances_to_means(KERNEL, NEW, X)[:, 0], np.linalg.norm(new - phi.mean(0)[None], axis=1)
    )


@pytest.mark.parametrize(("size", "degree"), [(2, 2), (3, 3), (4, 5), (5, 1)])
@pytest.mark.parametrize("offset", [0.0, 0.7])
def test_features_written_out_have_the_kernel_as_inner_product(size, degree, offset) -> None:
    x = RNG.normal(size=(6, size))
    psi = np.asarray(written.explicit_features(Polynomial(degree, offset), x))
    assert psi.shape[1] == written.polynomial_feature_count(size, degree, offset=offset > 0)
    np.testing.assert_allclose(psi @ psi.T, (x @ x.T + offset) ** degree, rtol=1e-9, atol=1e-9)


def test_the_worked_polynomials_have_their_features_and_value() -> None:
    assert [written.polynomial_feature_count(*nd) for nd in ((2, 2), (3, 3), (20, 4))] == [3, 10, 8855]
    counts = [written.polynomial_feature_count(*nd, offset=True) for nd in ((2, 2), (3, 3), (20, 4))]
    assert counts == [6, 20, 10626]
    assert written.explicit_features(Polynomial(4), np.ones((1, 20))).shape == (1, 8855)
    x, y = [1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]
    psi = np.asarray(written.explicit_features(Polynomial(3), [x, y]))
    assert psi[0] @ psi[1] == pytest.approx(216)
    assert float(Polynomial(3)(x, y)) == pytest.approx(216)
    a, b = 3.0, 5.0
    np.testing.assert_allclose(
        written.explicit_features(Polynomial(2), [[a, b]])[0], [a * a, b * b, 2**0.5 * a * b]
    )


def test_too_many_columns_are_refused_and_the_remedy_works() -> None:
    with pytest.raises(ArgumentError, match=r"1,609,344,100 columns.*\n.*Polynomial\(6\)\.gram\(x\)"):
        written.explicit_features(Polynomial(6), np.ones((2, 100)))
    assert Polynomial(6).gram(np.ones((2, 100))).shape == (2, 2)


def test_a_value_is_the_inner_product_with_the_section() -> None:
    f = KernelFunction(Matern(2.5), X, A)
    sections = [KernelFunction.section(Matern(2.5), x) for x in NEW]
    np.testing.assert_allclose([f.inner(section) for section in sections], f(NEW), rtol=1e-10)
    assert float(sections[0].inner(sections[1])) == pytest.approx(float(Matern(2.5)(NEW[0], NEW[1])))
    assert (np.abs(f(NEW)) <= float(f.norm) * 1.0 + 1e-12).all()  # k(x, x) is one


def test_inner_products_and_norms_are_those_of_the_written_features() -> None:
    f, g = KernelFunction(KERNEL, X, A), KernelFunction(KERNEL, NEW, B[:4])
    w, v = A @ features(X), B[:4] @ features(NEW)
    assert float(f.inner(g)) == pytest.approx(w @ v)
    assert float(f.norm) == pytest.approx(np.linalg.norm(w))
    assert float((f - 2.0 * g).norm) == pytest.approx(np.linalg.norm(w - 2 * v))
    np.testing.assert_allclose((f + g)(NEW), features(NEW) @ (w + v), rtol=1e-8)


def test_the_derivative_is_that_of_differences() -> None:
    f = KernelFunction(RBF(0.8), X, A)
    steps = 1e-5 * np.eye(2)
    wanted = np.stack([(f(NEW + h[None]) - f(NEW - h[None])) / 2e-5 for h in steps], axis=1)
    np.testing.assert_allclose(f.derivative(NEW), wanted, rtol=1e-6, atol=1e-8)


def test_interpolation_has_the_least_norm_and_projection_leaves_what_is_orthogonal() -> None:
    f = KernelFunction(RBF(1.0), X, A)
    near = f.project(X[:4])
    np.testing.assert_allclose(near(X[:4]), f(X[:4]), atol=1e-8)
    assert float((f - near).inner(near)) == pytest.approx(0, abs=1e-7)
    assert float(near.norm) < float(f.norm)
    wave = interpolate(Matern(1.5), X, B)
    np.testing.assert_allclose(
        wave.coefficients, np.linalg.solve(np.asarray(Matern(1.5).gram(X)), B), rtol=1e-6
    )


def test_values_that_no_function_takes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no function of the kernel takes these values"):
        interpolate(RBF(1.0), [0.0, 0.0, 1.0], [0.0, 1.0, 0.0])
    with pytest.raises(ArgumentError, match="no function of the kernel takes these values"):
        interpolate(Linear(), [1.0, 2.0, 3.0], [1.0, 0.0, 1.0])
    np.testing.assert_allclose(interpolate(RBF(1.0), [0.0, 0.0, 1.0], [2.0, 2.0, 0.0])([0.0]), 2, rtol=1e-6)
    with pytest.raises(ArgumentError, match="different spaces"):
        KernelFunction(RBF(1.0), X, A).inner(KernelFunction(RBF(2.0), X, A))
    with pytest.raises(ArgumentError, match="each needs one"):
        interpolate(RBF(1.0), [0.0, 1.0], [1.0])


def test_a_function_can_be_compiled_and_differentiated_in_its_coefficients() -> None:
    slope = eqx.filter_jit(eqx.filter_grad(lambda f: f(NEW).sum()))(KernelFunction(RBF(1.0), X, A))
    np.testing.assert_allclose(slope.coefficients, np.asarray(RBF(1.0).gram(NEW, X)).sum(0))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ArgumentError, match="needs 9 weights"):
        trick.combined(K, A[:3], B)
    with pytest.raises(ArgumentError, match="only 9 points"):
        trick.nearest_neighbours(KERNEL, NEW, X, 10)
    with pytest.raises(ArgumentError, match="no point is in group 1"):
        trick.distances_to_means(KERNEL, NEW, X, 2 * (LABELS > 1))
    with pytest.raises(ArgumentError, match=r"needs one whole number from 0"):
        trick.nearest_mean(KERNEL, NEW, X, ["a"] * 9)
    with pytest.raises(ArgumentError, match=r"K\[1, 1\] is 0"):
        trick.normalise([[1.0, 0.0], [0.0, 0.0]])
