"""Transport between normal distributions: closed forms against samples, grids and limits."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import entropic_normals, normal_transport


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_the_map_carries_one_to_the_other_and_its_mean_square_is_the_cost() -> None:
    random = np.random.default_rng(0)
    factors = random.normal(size=(2, 3, 3))
    c, d = (factor @ factor.T for factor in factors)
    m, n = random.normal(size=(2, 3))
    found = normal_transport(m, c, n, d)
    matrix = np.asarray(found.matrix)
    np.testing.assert_allclose(matrix @ c @ matrix.T, d, atol=1e-9)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)
    assert np.linalg.eigvalsh(matrix).min() > 0, "a gradient of a convex function"
    moved = np.eye(3) - matrix
    assert float(found.square) == pytest.approx(
        np.square(m - n).sum() + np.trace(moved @ c @ moved.T), abs=1e-9
    )
    x = random.normal(size=(4, 5, 3))
    np.testing.assert_allclose(found(x), n + (x - m) @ matrix.T, atol=1e-12)


def test_on_the_line_it_is_known() -> None:
    assert float(normal_transport([0.0], [[1.0]], [3.0], [[4.0]]).square) == pytest.approx(10, abs=1e-12)


def test_entropic_plans_have_the_known_covariance_and_value() -> None:
    found = entropic_normals(0.0, 1.0, 0.0, 2.0, np.array([0.5, 2.0]))
    np.testing.assert_allclose(found.covariance, [1.8789024, 1.5615528], atol=1e-7)
    np.testing.assert_allclose(found.value, [1.7776703, 2.8175080], atol=1e-7)
    # The value is the cost and eps times the information that the plan's coordinates share.
    shared = -0.5 * np.log(1 - np.square(np.asarray(found.covariance) / 2))
    np.testing.assert_allclose(found.value, found.cost + np.array([0.5, 2.0]) * shared, atol=1e-12)


def test_little_entropy_gives_the_exact_distance_and_much_an_independent_plan() -> None:
    exact = float(normal_transport([1.0], [[1.0]], [3.0], [[4.0]]).square)
    found = entropic_normals(1.0, 1.0, 3.0, 2.0, np.array([1e-9, 1e9]))
    assert float(found.value[0]) == pytest.approx(exact, abs=1e-6)
    assert float(found.covariance[1]) == pytest.approx(0, abs=1e-8)
    assert float(found.value[1]) == pytest.approx(4 + 1 + 4, rel=1e-6)


def test_a_minimiser_of_the_biased_value_is_shrunk_by_half_of_eps() -> None:
    slope = jax.grad(lambda t: entropic_normals(0.0, 1.0, 0.0, t, 0.5).value)
    assert float(slope(np.sqrt(1 - 0.5 / 2))) == pytest.approx(0, abs=1e-12)


def test_laws_without_spread_and_without_entropy_are_refused() -> None:
    with pytest.raises(ArgumentError, match="eps is 0"):
        entropic_normals(0.0, 1.0, 0.0, 1.0, 0.0)
    with pytest.raises(ArgumentError, match="scale"):
        entropic_normals(0.0, -1.0, 0.0, 1.0, 1.0)
