"""k-means: every centre is the mean of its rows, as another library finds them from the same start."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.k_means import distant_rows, k_means, squares

ROWS = np.concatenate(
    [np.random.default_rng(i).normal(size=(40, 3)) + 4 * np.eye(3)[i][None] for i in range(3)]
)


def test_each_centre_is_the_mean_of_the_rows_nearest_to_it() -> None:
    found = k_means(ROWS, 3, np.random.default_rng(0))
    for number, centre in enumerate(found.centres):
        np.testing.assert_allclose(centre, ROWS[found.nearest == number].mean(axis=0), atol=1e-12)
    assert (found.nearest == squares(ROWS, found.centres).argmin(axis=1)).all()
    assert found.rounds < 100


def test_from_the_same_start_another_library_ends_in_the_same_centres(
    oracle: Callable[[str], ModuleType],
) -> None:
    start = distant_rows(ROWS, 3, np.random.default_rng(5))
    theirs = oracle("sklearn.cluster").KMeans(3, init=start, n_init=1, algorithm="lloyd", tol=0).fit(ROWS)
    ours = k_means(ROWS, 3, np.random.default_rng(5))
    np.testing.assert_allclose(ours.centres, theirs.cluster_centers_, atol=1e-10)
    assert (ours.nearest == theirs.labels_).all()


def test_rows_far_from_zero_are_told_apart() -> None:
    near, far = (k_means(rows, 3, np.random.default_rng(5)) for rows in (ROWS, ROWS + 1e9))
    assert (near.nearest == far.nearest).all()


def test_more_clusters_than_different_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match="only 2 different rows"):
        k_means(np.array([[0.0], [1.0], [1.0]]), 3, np.random.default_rng(0))
