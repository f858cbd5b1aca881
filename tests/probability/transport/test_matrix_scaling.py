"""Matrices scaled to given sums: what is known in closed form, and what zeros leave possible."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.transport import scale_matrix
from chainrule.probability.transport.matrix_scaling import support_of


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def test_a_positive_matrix_is_scaled_to_a_doubly_stochastic_one() -> None:
    found = scale_matrix([[1.0, 2.0], [3.0, 4.0]], tolerance=1e-12)
    s = 2 / (2 + np.sqrt(6))
    np.testing.assert_allclose(found.matrix, [[s, 1 - s], [1 - s, s]], atol=1e-10)
    assert s == pytest.approx(0.4494897, abs=1e-7)
    assert found.exists
    np.testing.assert_allclose(
        np.asarray(found.left)[:, None] * np.array([[1, 2], [3, 4]]) * np.asarray(found.right)[None],
        found.matrix,
    )


def test_sums_of_any_kind_are_reached_by_rectangles() -> None:
    matrix = np.random.default_rng(0).uniform(size=(3, 5))
    rows, columns = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, 1.0, 1.0, 3.0])
    found = scale_matrix(matrix, rows, columns, tolerance=1e-10)
    np.testing.assert_allclose(found.matrix.sum(axis=1), rows, atol=1e-8)
    np.testing.assert_allclose(found.matrix.sum(axis=0), columns, atol=1e-12)
    with pytest.raises(ArgumentError, match="rows sum to 6 and columns to 7"):
        scale_matrix(matrix, rows, columns + 0.2)


def test_with_support_alone_iterates_creep_and_no_scaling_is_claimed() -> None:
    for rounds in (1, 5, 50):
        found = scale_matrix([[1.0, 1.0], [0.0, 1.0]], max_iterations=rounds)
        assert float(found.matrix[0, 1]) == pytest.approx(1 / (2 * rounds + 1), rel=1e-9)
        assert found.support == "partial"
        assert not found.exists


def test_zeros_that_leave_a_scaling_are_told_from_those_that_do_not() -> None:
    cycle = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [4.0, 0.0, 1.0]])
    found = scale_matrix(cycle, tolerance=1e-10)
    assert found.support == "total"
    assert float(found.error) <= 3e-10
    with pytest.raises(ArgumentError, match=r"rows 0, 1 have 2 to give, .* 0, take 1") as error:
        scale_matrix([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    assert "make some of their zeros positive" in str(error.value)
    # The same zeros do for other sums.
    scale_matrix([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]], [0.2, 0.2, 2.6], [1.0, 1.0, 1.0])
    with pytest.raises(ArgumentError, match=r"matrix\[0, 1\] is -1"):
        scale_matrix([[1.0, -1.0], [1.0, 1.0]])


def test_cycles_through_a_matching_say_the_same_as_a_linear_program() -> None:
    """Sums that differ in the last digits take the other way."""
    draw, seen = np.random.default_rng(0), set()

    def said(matrix: np.ndarray, off: float) -> str:
        ones = 1 + off * np.arange(len(matrix))
        try:
            return support_of(matrix, ones, ones[::-1])
        except ArgumentError:
            return "none"

    for _ in range(60):
        size = draw.integers(2, 7)
        matrix = (draw.random((size, size)) < draw.uniform(0.3, 0.9)).astype(float)
        seen.add(said(matrix, 0.0))
        assert said(matrix, 0.0) == said(matrix, 1e-13), matrix
    assert seen == {"positive", "total", "partial", "none"}
