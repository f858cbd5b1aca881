"""Distances between normal distributions against quadrature, other formulas and differences."""

import math
from collections.abc import Iterator

import jax
import numpy as np
import pytest
import scipy.linalg
import scipy.stats

from chainrule.core.errors import ArgumentError
from chainrule.probability.gaussian import distances as d

ONE = (np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))
TWO = (np.array([0.0, 0.5]), np.array([[2.5, -0.3], [-0.3, 1.6]]))


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def densities() -> tuple[np.ndarray, np.ndarray, float]:
    """Both on a fine grid of the plane, and the area of its cells: the trapezium rule is exact to rounding."""
    axis = np.linspace(-14, 14, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    area = (axis[1] - axis[0]) ** 2
    return (*(scipy.stats.multivariate_normal(*one).pdf(grid) for one in (ONE, TWO)), area)


def test_closed_forms_are_integrals(densities) -> None:
    p, q, area = densities
    root = (np.sqrt(p * q)).sum() * area
    assert float(d.bhattacharyya(*ONE, *TWO)) == pytest.approx(-math.log(root), abs=1e-10)
    assert float(d.hellinger(*ONE, *TWO)) == pytest.approx(math.sqrt(1 - root), abs=1e-10)
    for alpha in (0.3, 0.5, 2.0):
        integral = (p**alpha * q ** (1 - alpha)).sum() * area
        assert float(d.renyi(*ONE, *TWO, alpha)) == pytest.approx(math.log(integral) / (alpha - 1), abs=1e-9)
    assert float(d.chi_square(*ONE, *TWO)) == pytest.approx((p**2 / q).sum() * area - 1, rel=1e-9)


def test_the_transport_distance_is_the_matrix_formula() -> None:
    root = scipy.linalg.sqrtm(TWO[1]).real
    square = ((ONE[0] - TWO[0]) ** 2).sum() + np.trace(
        ONE[1] + TWO[1] - 2 * scipy.linalg.sqrtm(root @ ONE[1] @ root).real
    )
    assert float(d.wasserstein_2(*ONE, *TWO)) == pytest.approx(math.sqrt(square), abs=1e-12)
    assert float(d.wasserstein_2([0.0], [[1.0]], [3.0], [[1.0]])) == 3
    assert float(d.wasserstein_2([0.0], [[0.0]], [3.0], [[0.0]])) == 3  # two points
    flat = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert float(d.wasserstein_2(np.zeros(2), flat, np.zeros(2), 4 * flat)) == pytest.approx(math.sqrt(2))


def test_equal_distributions_are_no_distance_apart() -> None:
    for distance in (d.bhattacharyya, d.hellinger, d.chi_square, d.wasserstein_2):
        assert float(distance(*ONE, *ONE)) == pytest.approx(0, abs=1e-7)
    for distance in (d.hellinger, d.wasserstein_2):
        gradient = jax.grad(distance)(*ONE, *ONE)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("distance", [d.bhattacharyya, d.hellinger, d.wasserstein_2])
def test_gradients_are_those_of_differences(distance) -> None:
    change = np.array([[0.3, 0.1], [0.1, -0.2]])

    @jax.jit
    def found(step: float, one: np.ndarray) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(
            lambda c: distance(ONE[0], one + c * change, TWO[0], np.eye(2) + c * change @ change)
        )(step)

    for one in (ONE[1], np.eye(2)):  # with a tie between eigenvalues
        (after, _), (before, _), (_, slope) = (found(step, one) for step in (1e-5, -1e-5, 0.0))
        np.testing.assert_allclose(slope, (after - before) / 2e-5, rtol=1e-6)


def test_light_tails_make_a_divergence_infinite() -> None:
    assert float(d.chi_square([0.0], [[2.0]], [0.0], [[1.0]])) == math.inf
    assert float(d.chi_square([0.0], [[1.99]], [0.0], [[1.0]])) < math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: d.renyi(*ONE, *TWO, 1.0), "order 1 is the Kullback-Leibler"),
        (lambda: d.renyi(*ONE, *TWO, -1.0), "from 0"),
        (lambda: d.hellinger(*ONE, [0.0], [[1.0]]), "2 variables, the other 1"),
        (lambda: d.hellinger(*ONE, np.zeros(2), np.ones((2, 2))), "singular"),
        (lambda: d.hellinger(*ONE, np.zeros(2), -np.eye(2)), r"other_covariance\): smallest eigenvalue -1"),
    ],
)
def test_what_has_no_distance_is_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
