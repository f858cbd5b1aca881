"""Points from similarities: three methods, one shape; and what words make of them."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF
from chainrule.kernels.finite_sets import FiniteKernel, cooccurrences, positive_mutual_information
from chainrule.kernels.reconstruction import embed, procrustes, reconstruct

RNG = np.random.default_rng(0)
K = np.array([[1.0, 0.8, -0.6], [0.8, 1.0, -0.2], [-0.6, -0.2, 1.0]])
REFUSED = [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
WORDS = ("cat", "dog", "tax")
METHODS = ("eigh", "cholesky", "pivoted")


@pytest.fixture(scope="module")
def words() -> FiniteKernel:
    return FiniteKernel.of_scores(WORDS, K)


def test_the_worked_example_has_its_eigenvalues_factor_and_similarities(words: FiniteKernel) -> None:
    np.testing.assert_allclose(np.linalg.eigvalsh(K), [0.089427, 0.808648, 2.101926], atol=5e-7)
    wanted = [[1, 0, 0], [0.8, 0.6, 0], [-0.6, 0.466667, 0.649786]]
    np.testing.assert_allclose(words.coordinates("cholesky").x, wanted, atol=5e-7)
    assert words.similarity("cat dog", "dog tax tax") == pytest.approx(0.2, abs=1e-12)
    assert words.cosine("cat dog", ["dog", "tax", "tax"]) == pytest.approx(0.051434, abs=5e-7)


@pytest.mark.parametrize("method", METHODS)
def test_coordinates_give_the_matrix_back_and_agree_after_turning(method) -> None:
    found = embed(K, method=method)
    assert found.error < 1e-12
    assert procrustes(found.x, embed(K).x).error < 1e-10
    large = np.asarray(RBF(1.0).gram(RNG.normal(size=(20, 3))))
    assert procrustes(embed(large, method=method).x, embed(large).x).error < 1e-6
    with pytest.raises(ArgumentError, match=r"smallest eigenvalue -0\.8"):
        embed(REFUSED, method=method)


def test_the_three_reconstructions_agree_to_ten_digits() -> None:
    first, *others = (embed(K, method=method).x for method in METHODS)
    assert all(procrustes(other, first).error < 1e-10 for other in others)


def test_a_singular_matrix_has_as_many_coordinates_as_its_rank() -> None:
    points = RNG.normal(size=(12, 3))
    gram = points @ points.T
    for method in ("eigh", "pivoted"):
        found = embed(gram, method=method)
        assert found.rank == 3
        assert found.jitter == 0
        assert procrustes(found.x, points).error < 1e-10
    with_jitter = embed(gram, method="cholesky")
    assert with_jitter.rank == 12
    assert 0 < with_jitter.jitter < 1e-6
    assert with_jitter.error < 1e-6


def test_the_best_coordinates_for_a_rank_leave_the_smallest_eigenvalues() -> None:
    gram = np.asarray(RBF(1.0).gram(RNG.normal(size=(15, 2))))
    found = embed(gram, rank=4)
    values = np.linalg.eigvalsh(gram)[::-1]
    assert found.rank == 4
    assert np.linalg.norm(gram - found.x @ found.x.T, 2) == pytest.approx(values[4], rel=1e-6)
    assert embed(gram, rank=4, method="pivoted").rank == 4


def test_columns_with_the_inverse_as_metric_give_the_matrix_back_turned_or_not() -> None:
    for gram in (K, (lambda x: x @ x.T)(RNG.normal(size=(5, 2)))):
        found = reconstruct(gram)
        np.testing.assert_allclose(found.gram(), gram, atol=1e-10)
        turn = np.linalg.qr(RNG.normal(size=gram.shape))[0]
        turn[:, 0] *= -np.sign(np.linalg.det(turn))  # with a reflection
        np.testing.assert_allclose(found.rotated(turn).gram(), gram, atol=1e-10)
        np.testing.assert_allclose(found.rotated(turn).metric, turn @ found.metric @ turn.T, atol=1e-10)
    with pytest.raises(ArgumentError, match="needs an orthogonal matrix"):
        reconstruct(K).rotated(2 * np.eye(3))
    with pytest.raises(ArgumentError, match=r"smallest eigenvalue -0\.8"):
        reconstruct(REFUSED)


def test_points_are_mirrored_where_that_is_what_lies_between_them() -> None:
    x = RNG.normal(size=(6, 3))
    mirror = np.diag([1.0, 1.0, -1.0])
    found = procrustes(x @ mirror, x)
    assert found.error < 1e-12
    assert np.linalg.det(found.rotation) == pytest.approx(-1)
    assert procrustes(x[:, :2], np.pad(x[:, :2], ((0, 0), (0, 1)))).error < 1e-12
    with pytest.raises(ArgumentError, match="not as many points"):
        procrustes(x, x[:4])


def test_sentences_are_compared_all_at_once(words: FiniteKernel) -> None:
    sentences = ["cat dog", "dog tax tax", "tax"]
    counts = np.array([[1, 1, 0], [0, 1, 2], [0, 0, 1]])
    np.testing.assert_allclose(words.gram(sentences), counts @ K @ counts.T, atol=1e-12)
    cosines = words.gram(sentences, cosine=True)
    np.testing.assert_allclose(np.diag(cosines), 1, atol=1e-12)
    np.testing.assert_allclose(words.kernel().gram([0, 1, 2]), K, atol=1e-12)


def test_vectors_and_counts_make_kernels_of_words() -> None:
    table = RNG.normal(size=(5, 3))
    found = FiniteKernel.of_vectors("abcde", table)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(found.matrix, unit @ unit.T, atol=1e-12)
    assert found.coordinates().rank == 3
    items, counts = cooccurrences(["the cat sat", "the dog sat", "a tax rose", "a fee rose"], window=2)
    made = FiniteKernel.of_counts(items, counts)
    i, j, k = (items.index(word) for word in ("cat", "dog", "tax"))
    assert made.matrix[i, j] == pytest.approx(1)  # they stand among the same words
    assert made.matrix[i, k] == pytest.approx(0)


def test_mutual_information_is_that_of_its_definition() -> None:
    counts = RNG.integers(0, 4, size=(4, 4))
    p = counts / counts.sum()
    with np.errstate(divide="ignore"):
        wanted = np.maximum(np.log(p / (p.sum(1)[:, None] * p.sum(0)[None])), 0)
    np.testing.assert_allclose(positive_mutual_information(counts), wanted, atol=1e-12)


def test_scores_that_are_no_similarities_of_unit_vectors_are_refused(words: FiniteKernel) -> None:
    with pytest.raises(ArgumentError, match=r"smallest eigenvalue -0\.8"):
        FiniteKernel.of_scores(WORDS, REFUSED)
    with pytest.raises(ArgumentError, match=r"'a' and 'b' is 1\.5; vectors of length one"):
        FiniteKernel.of_scores("ab", [[1.0, 1.5], [1.5, 1.0]])
    with pytest.raises(ArgumentError, match="'b' with itself is 4, not 1"):
        FiniteKernel.of_scores("ab", [[1.0, 1.0], [1.0, 4.0]])
    made = FiniteKernel.of_scores("ab", [[1.0, 1.0], [1.0, 4.0]], normalize=True)  # the remedy
    assert made.matrix[0, 1] == pytest.approx(0.5)
    with pytest.raises(ArgumentError, match="'cot' is none of the 3 items"):
        words.similarity("cot", "dog")
    with pytest.raises(ArgumentError, match="is there twice"):
        FiniteKernel.of_scores("aa", np.eye(2))
    with pytest.raises(ArgumentError, match="length zero"):
        words.cosine("", "dog")
    with pytest.raises(ArgumentError, match="the vector of 'b' is zero"):
        FiniteKernel.of_vectors("ab", [[1.0], [0.0]])
    with pytest.raises(ArgumentError, match="nothing was counted"):
        positive_mutual_information(np.zeros((2, 2)))
