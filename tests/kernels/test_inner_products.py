"""Inner products of vectors and of functions: against their definitions, in plain coordinates and by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from chainrule.core.errors import ArgumentError
from chainrule.kernels.function_spaces import L2
from chainrule.kernels.inner_products import InnerProduct, check_axioms

RNG = np.random.default_rng(0)
M = (lambda a: a @ a.T + 0.5 * np.eye(4))(RNG.normal(size=(4, 4)))
X, Y = RNG.normal(size=(2, 7, 4))
POWERS = [lambda t: 1.0, lambda t: t, lambda t: t**2]


@pytest.fixture(scope="module")
def product() -> InnerProduct:
    return InnerProduct(M)


def test_inner_products_lengths_and_distances_are_those_of_the_matrix(product: InnerProduct) -> None:
    np.testing.assert_allclose(product.inner(X, Y), np.einsum("ni,ij,nj->n", X, M, Y), rtol=1e-12)
    np.testing.assert_allclose(product.norm(X), np.sqrt(np.einsum("ni,ij,nj->n", X, M, X)), rtol=1e-12)
    np.testing.assert_allclose(product.distance(X, Y), product.norm(X - Y), rtol=1e-12)
    cosine = product.inner(X, Y) / (product.norm(X) * product.norm(Y))
    np.testing.assert_allclose(np.cos(product.angle(X, Y)), cosine, atol=1e-12)
    assert float(product.inner(X[0], Y[0])) == pytest.approx(X[0] @ M @ Y[0])


def test_whitened_coordinates_have_the_plain_inner_product_and_lead_back(product: InnerProduct) -> None:
    w, z = product.whiten(X), product.whiten(Y)
    np.testing.assert_allclose((w * z).sum(axis=1), product.inner(X, Y), rtol=1e-12)
    np.testing.assert_allclose(product.unwhiten(w), X, rtol=1e-10)
    upward = product.whiten(np.eye(4)).T  # L, column by column
    np.testing.assert_allclose(upward.T @ upward, M, rtol=1e-12)
    np.testing.assert_allclose(upward, np.linalg.cholesky(M).T, rtol=1e-12)  # and not the lower factor itself


def test_the_zero_vector_has_no_angle() -> None:
    plain = InnerProduct(np.eye(2))
    with pytest.raises(ArgumentError, match=r"angle\(y\): vector 1 is zero"):
        plain.angle([1.0, 0.0], [[1.0, 1.0], [0.0, 0.0]])
    with pytest.raises(ArgumentError, match=r"angle\(x\): vector is zero"):
        plain.angle([0.0, 0.0], [1.0, 1.0])
    assert np.isnan(jax.jit(lambda x, y: plain.angle(x, y))(jnp.zeros(2), jnp.ones(2)))


def test_tiny_angles_keep_their_digits() -> None:
    plain = InnerProduct(np.eye(2))
    assert float(plain.angle([1.0, 0.0], [1.0, 1e-9])) == pytest.approx(1e-9, rel=1e-9)
    assert float(plain.angle([1.0, 0.0], [-2.0, 0.0])) == pytest.approx(np.pi)


def test_gram_schmidt_gives_orthonormal_vectors_of_growing_spans(product: InnerProduct) -> None:
    made = np.asarray(product.gram_schmidt(X[:4]))
    np.testing.assert_allclose(made @ M @ made.T, np.eye(4), atol=1e-10)
    weights = made @ np.linalg.inv(
        X[:4]
    )  # row i uses the first i vectors alone, the last with a positive weight
    np.testing.assert_allclose(weights, np.tril(weights), atol=1e-8)
    assert (np.diag(weights) > 0).all()


def test_gram_schmidt_stays_orthonormal_where_vectors_nearly_depend(product: InnerProduct) -> None:
    near = np.stack([X[0], X[0] + 1e-7 * X[1]])
    made = np.asarray(product.gram_schmidt(near))
    np.testing.assert_allclose(made @ M @ made.T, np.eye(2), atol=1e-10)
    with pytest.raises(ArgumentError, match="vector 1 depends on those before it"):
        product.gram_schmidt(np.stack([X[0], 2 * X[0], X[1]]))
    with pytest.raises(ArgumentError, match="vector 4 depends on those before it"):
        product.gram_schmidt(X[:5])


def test_axioms_hold_for_an_inner_product_and_fail_for_what_is_none(product: InnerProduct) -> None:
    assert product.check_axioms()
    assert not check_axioms(lambda x, y: (x * (y @ np.triu(M))).sum(-1), 4)  # not symmetric
    assert not check_axioms(lambda x, y: np.abs(x * y).sum(-1), 4)  # not bilinear
    found = check_axioms(lambda x, y: (x * y)[..., :3].sum(-1) - x[..., 3] * y[..., 3], 4)
    assert found.asymmetry < 1e-12
    assert found.smallest_square < 0
    assert not found


def test_inner_products_can_be_differentiated(product: InnerProduct) -> None:
    slope = jax.grad(lambda x: product.norm(x) ** 2)(jax.numpy.asarray(X[0]))
    np.testing.assert_allclose(slope, 2 * M @ X[0], rtol=1e-10)


def test_matrices_that_are_none_of_an_inner_product_are_refused(product: InnerProduct) -> None:
    with pytest.raises(ArgumentError, match=r"needs a square matrix, not shape \(2, 3\)"):
        InnerProduct(np.ones((2, 3)))
    with pytest.raises(ArgumentError, match=r"the largest difference 0\.5"):
        InnerProduct([[1.0, 0.5], [0.0, 1.0]])
    with pytest.raises(ArgumentError, match=r"smallest eigenvalue is -0\.8"):
        InnerProduct([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    with pytest.raises(ArgumentError, match="not positive definite"):
        InnerProduct(np.ones((2, 2)))  # semi-definite does not do
    with pytest.raises(ArgumentError, match="does not fit M"):
        product.norm(np.ones(3))


def test_powers_have_the_hilbert_matrix_and_its_corner() -> None:
    gram = L2(0.0, 1.0).gram(POWERS)
    np.testing.assert_allclose(gram, scipy.linalg.hilbert(3), rtol=1e-13)
    assert np.linalg.cholesky(gram)[2, 2] == pytest.approx(0.074536, abs=5e-7)


def test_powers_made_orthonormal_are_legendre_polynomials() -> None:
    rows = L2(-1.0, 1.0).orthonormal([*POWERS, lambda t: t**3])
    for degree, row in enumerate(rows):
        wanted = np.polynomial.legendre.leg2poly(np.eye(4)[degree]) * np.sqrt(degree + 0.5)
        np.testing.assert_allclose(row[: degree + 1], wanted, atol=1e-10)


def test_the_best_approximation_leaves_what_is_orthogonal() -> None:
    space = L2(0.0, 1.0)
    best = space.project(np.exp, POWERS)
    left = lambda t: np.exp(t) - best.function(t)  # noqa: E731
    assert max(abs(space.inner(left, f)) for f in POWERS) < 1e-12
    assert space.norm(left) == pytest.approx(best.error, rel=1e-6)
    assert space.project(lambda t: 3 - t, POWERS).error < 1e-12


def test_a_weight_counts_and_functions_of_jax_do() -> None:
    chebyshev = L2(-1.0, 1.0, nodes=64, weight=lambda t: 1 + t)
    assert chebyshev.inner(lambda t: t, lambda t: 1.0) == pytest.approx(2 / 3, rel=1e-12)
    assert L2(0.0, np.pi).inner(jax.numpy.sin, jax.numpy.sin) == pytest.approx(np.pi / 2, rel=1e-12)


def test_functions_of_norm_one_have_no_largest_value_at_a_point() -> None:
    space = L2(0.0, 1.0, nodes=2000)
    at_zero = [1 / space.norm(lambda t, width=width: np.exp(-t / width)) for width in (0.1, 0.01, 0.001)]
    assert at_zero[1] / at_zero[0] == pytest.approx(10**0.5, rel=0.01)
    assert at_zero[2] / at_zero[1] == pytest.approx(10**0.5, rel=0.01)


def test_what_is_no_function_of_the_space_is_refused() -> None:
    space = L2(-1.0, 1.0, nodes=5)
    with pytest.raises(ArgumentError, match="finite ends with a < b"):
        L2(0.0, np.inf)
    with pytest.raises(ArgumentError, match=r"functions\[1\]\): the value at 0 is not finite"):
        space.gram([lambda t: t, lambda t: np.divide(1.0, t, where=t != 0, out=np.full_like(t, np.inf))])
    with pytest.raises(ArgumentError, match="not one value for each"):
        space.norm(lambda t: t[:2])
    with pytest.raises(ArgumentError, match="function 1 depends on those before it"):
        space.orthonormal([lambda t: t, lambda t: 2 * t])
    with pytest.raises(ArgumentError, match="negative at"):
        L2(-1.0, 1.0, weight=lambda t: t)
