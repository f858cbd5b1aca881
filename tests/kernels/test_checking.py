"""Is it a kernel? Kernels pass, duplicates and all; others are refused with points that show why."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Linear, Matern, Polynomial, Precomputed, check, nearest_psd

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(12, 2))
REFUSED = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(0.5), Linear(), Polynomial(3, 1.0), RBF(1.0) + Linear()])
def test_kernels_pass_with_duplicates_and_with_more_points_than_features(kernel) -> None:
    found = check(kernel, np.concatenate([POINTS, POINTS[:3]]))
    assert found
    assert found.witness == ()
    assert abs(found.smallest_eigenvalue) <= found.tolerance or found.smallest_eigenvalue > 0
    assert found.asymmetry == 0


def test_the_tolerance_is_what_rounding_may_do() -> None:
    found = check(Linear(), POINTS)
    largest = np.linalg.eigvalsh(POINTS @ POINTS.T)[-1]
    assert found.tolerance == pytest.approx(12 * np.finfo(float).eps * largest)


def test_a_matrix_with_a_negative_eigenvalue_is_refused_with_all_three_points() -> None:
    found = check(Precomputed(REFUSED), np.arange(3)[:, None])
    assert not found
    assert found.smallest_eigenvalue == pytest.approx(-0.8)
    assert found.witness == (0, 1, 2)  # every two of them are fine
    weights = np.array(found.coefficients)
    assert weights @ REFUSED @ weights == pytest.approx(-0.8)
    assert check(Precomputed(nearest_psd(REFUSED) + 1e-9 * np.eye(3)), np.arange(3)[:, None])


def test_a_witness_is_no_larger_than_it_has_to_be() -> None:
    matrix = np.eye(8)
    matrix[np.ix_([1, 4, 6], [1, 4, 6])] = REFUSED
    found = check(lambda i, j: matrix[i, j], list(range(8)))
    assert found.witness == (1, 4, 6)
    weights = np.array(found.coefficients)
    assert weights @ REFUSED @ weights < 0
    for one in range(3):  # leave any out, and nothing is wrong with the others
        others = [i for i in (1, 4, 6) if i != (1, 4, 6)[one]]
        assert np.linalg.eigvalsh(matrix[np.ix_(others, others)])[0] > 0


def test_functions_that_are_no_kernels_are_found_out() -> None:
    distance = check(lambda a, b: float(np.linalg.norm(a - b)), POINTS)
    assert len(distance.witness) == 2  # zero on the diagonal, so any two points show it
    assert check(lambda a, b: float(np.tanh(a @ b - 1)), POINTS).value is False
    single = check(lambda a, b: float(-(a @ b)), POINTS)
    assert len(single.witness) == 1


def test_a_function_that_is_not_symmetric_is_refused_by_two_points() -> None:
    found = check(lambda a, b: float(a @ b + 0.01 * a[0]), POINTS)
    assert not found
    assert found.coefficients == ()
    i, j = found.witness
    spread = 0.01 * np.abs(POINTS[:, 0][:, None] - POINTS[:, 0][None]).max()
    assert found.asymmetry == pytest.approx(spread)
    assert 0.01 * abs(POINTS[i, 0] - POINTS[j, 0]) == pytest.approx(spread)


def test_words_can_be_compared_too() -> None:
    assert check(lambda a, b: float(len(set(a) & set(b))), ["cat", "act", "dog"])


def test_nothing_to_check_and_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no points"):
        check(RBF(1.0), [])
    with pytest.raises(ArgumentError, match="not finite numbers"):
        check(lambda a, b: float("nan"), POINTS)
    with pytest.raises(ArgumentError, match=r"array of shape \(\d,\), not one number"):
        check(lambda a, b: a * b, POINTS)
    with pytest.raises(ArgumentError, match="entries must be finite"):
        nearest_psd([[np.nan, 0.0], [0.0, 1.0]])
