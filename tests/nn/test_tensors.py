"""The tensor toolbox: explained mistakes, products, unfoldings, ranks."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import tensors

E1, E2 = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def pure(*vectors: np.ndarray) -> np.ndarray:
    return np.asarray(tensors.product(*vectors), dtype=np.float64)


DIAGONAL = pure(E1, E1, E1) + pure(E2, E2, E2)
COMPLEX = pure(E1, E1, E1) - pure(E2, E2, E1) + pure(E1, E2, E2) + pure(E2, E1, E2)
TANGENT = pure(E1, E1, E2) + pure(E1, E2, E1) + pure(E2, E1, E1)


@pytest.mark.parametrize(
    ("tensor", "hyperdeterminant", "rank"),
    [
        (DIAGONAL, 1, 2),
        (COMPLEX, -4, 3),
        (TANGENT, 0, 3),
        (pure(E1, E1 + E2, E2), 0, 1),
        (pure(E1, E1, E1) + pure(E1, E2, E2), 0, 2),
    ],
    ids=["diagonal", "complex multiplication", "tangent", "pure", "a matrix in disguise"],
)
def test_ranks_of_two_by_two_by_two_tensors(tensor, hyperdeterminant, rank) -> None:
    assert tensors.hyperdeterminant(tensor) == pytest.approx(hyperdeterminant, abs=1e-12)
    found = tensors.rank(tensor)
    assert found.is_exact
    assert found.low == rank


def test_the_hyperdeterminant_scales_with_a_change_of_basis() -> None:
    random = np.random.default_rng(0)
    t, m = random.normal(size=(2, 2, 2)), random.normal(size=(2, 2))
    changed = np.einsum("ia,abc->ibc", m, t)
    assert tensors.hyperdeterminant(changed) == pytest.approx(
        np.linalg.det(m) ** 2 * tensors.hyperdeterminant(t)
    )


def test_tensors_of_rank_two_come_close_to_one_of_rank_three() -> None:
    small = 1e-3
    close = (pure(*[E1 + small * E2] * 3) - pure(E1, E1, E1)) / small
    assert tensors.rank(close).low == 2
    assert np.linalg.norm(close - TANGENT) == pytest.approx(1.7e-3, abs=5e-5)


def test_rank_is_exact_for_matrices_and_an_interval_beyond() -> None:
    random = np.random.default_rng(1)
    assert tensors.rank(random.normal(size=(4, 2)) @ random.normal(size=(2, 5))).low == 2
    factors = [random.normal(size=(n, 3)) for n in (3, 4, 3)]
    found = tensors.rank(tensors.compose(factors))
    assert (found.low, found.high) == (3, 3)
    recovered = tensors.decompose(tensors.compose(factors), 3)
    assert recovered is not None
    np.testing.assert_allclose(tensors.compose(recovered), tensors.compose(factors), atol=1e-5)
    # The product of 2x2 matrices has rank 7 (Strassen); its unfoldings only prove 4.
    product = np.einsum("ij,kl,mn->jkinlm", *[np.eye(2)] * 3).reshape(4, 4, 4)
    low, high = tensors.rank(product).low, tensors.rank(product).high
    assert low == 4
    assert 7 <= high <= 16
    assert tensors.rank(np.zeros((2, 3, 4))).high == 0
    assert tensors.rank(np.ones(3)).low == 1
    assert tensors.rank(np.ones((2, 3, 4))).high == 1


def test_products_unfoldings_and_pure_tensors() -> None:
    a, b, c = np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]), np.array([6.0, 7.0])
    both = tensors.product(tensors.product(a, b), c)
    assert (both == tensors.product(a, tensors.product(b, c))).all()
    assert tensors.product(b, a).shape != tensors.product(a, b).shape
    assert tensors.unfolding_ranks(both) == (1, 1, 1)
    assert tensors.is_pure(both)
    assert not tensors.is_pure(TANGENT)
    np.testing.assert_array_equal(tensors.unfold(both, 1), np.asarray(both).transpose(1, 0, 2).reshape(3, 4))
    with pytest.raises(ArgumentError, match="no such axis"):
        tensors.unfold(both, 3)


def test_without_an_arrow_repeated_indices_are_summed_and_with_one_the_output_decides() -> None:
    m = np.arange(9.0).reshape(3, 3)
    assert float(tensors.einsum("ii", m)) == 12
    assert tensors.einsum("ii->i", m).tolist() == [0, 4, 8]
    np.testing.assert_allclose(tensors.einsum("ij,jk", m, m), m @ m)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "message"),
    [
        (
            "ij,jk->ik",
            [(2, 3), (4, 2)],
            '"j" has size 3 as axis 1 of tensor 0 and size 4 as axis 0 of tensor 1',
        ),
        ("ij->ij", [(2, 3, 4)], '"ij" names 2 axes, but tensor 0 has order 3'),
        ("ij,jk->ik", [(2, 3)], "names 2 tensors, but 1 were given"),
        ("ij->ik", [(2, 3)], '"k" in the output is an axis of no tensor'),
        ("ij->ii", [(2, 3)], '"i" occurs twice in the output'),
        ("i.->i", [(2, 3)], "named by one letter"),
    ],
)
def test_a_clash_of_axes_is_explained(subscripts, shapes, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        tensors.einsum(subscripts, *[np.zeros(shape) for shape in shapes])


def test_what_has_no_rank_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not finite"):
        tensors.rank(np.array([[np.nan]]))
    with pytest.raises(ArgumentError, match=r"shape \(2, 2, 2\)"):
        tensors.hyperdeterminant(np.zeros((2, 2)))
