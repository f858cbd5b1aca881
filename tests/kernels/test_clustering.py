"""Kernel k-means against k-means, and clusters of rings and moons."""

import jax
import numpy as np
import pytest
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.metrics import adjusted_rand_score

from chainrule.core.errors import ArgumentError
from chainrule.kernels import RBF, Linear
from chainrule.kernels.clustering import kernel_k_means, spectral_clustering

RNG = np.random.default_rng(0)
BLOBS = np.concatenate([RNG.normal(size=(30, 2)) * 0.5 + centre for centre in ([0, 0], [4, 0], [0, 4])])
ANGLE = RNG.uniform(0, 2 * np.pi, 160)
RADIUS = np.where(np.arange(160) < 60, 1.0, 4.0) + 0.1 * RNG.normal(size=160)
RINGS = np.stack([RADIUS * np.cos(ANGLE), RADIUS * np.sin(ANGLE)], axis=1)
RING = (np.arange(160) >= 60).astype(int)


def feature_error(gram: np.ndarray, labels: np.ndarray) -> float:
    """Sum of squared distances from the means of features, by definition."""
    return float(
        sum(
            np.trace(gram[np.ix_(m, m)]) - gram[np.ix_(m, m)].sum() / m.sum()
            for m in (labels == label for label in np.unique(labels))
        )
    )


def test_with_the_linear_kernel_it_is_k_means() -> None:
    found = kernel_k_means(BLOBS, 3, Linear())
    theirs = KMeans(3, n_init=10, random_state=0).fit(BLOBS)
    assert found.error == pytest.approx(theirs.inertia_, rel=1e-9)
    assert adjusted_rand_score(found.labels, theirs.labels_) == 1


@pytest.mark.parametrize("clusters", [2, 5])
def test_the_error_is_that_of_the_labels_and_no_move_of_one_point_to_a_nearer_mean_is_left(clusters) -> None:
    found = kernel_k_means(BLOBS, clusters, RBF(1.0), restarts=3)
    gram = np.asarray(RBF(1.0).gram(BLOBS))
    assert found.error == pytest.approx(feature_error(gram, found.labels))
    member = np.eye(clusters)[found.labels]
    mean = gram @ member / member.sum(axis=0)
    within = (member * mean).sum(axis=0) / member.sum(axis=0)
    apart = 1 - 2 * mean + within
    np.testing.assert_allclose(apart[np.arange(90), found.labels], apart.min(axis=1), atol=1e-12)
    assert len(np.unique(found.labels)) == clusters


def test_rings_are_clusters_of_the_spectrum_and_not_of_means() -> None:
    spectral = spectral_clustering(RINGS, 2, RBF(0.5))
    assert adjusted_rand_score(spectral.labels, RING) == 1
    assert (spectral.eigenvalues < 1e-5).sum() == 2
    assert adjusted_rand_score(kernel_k_means(RINGS, 2, Linear()).labels, RING) < 0.5


def test_clusters_of_the_spectrum_are_those_of_scikit_learn() -> None:
    found = spectral_clustering(BLOBS, 3, RBF(gamma=0.5))
    theirs = SpectralClustering(3, gamma=0.5, random_state=0).fit(BLOBS)
    assert adjusted_rand_score(found.labels, theirs.labels_) == 1


def test_eigenvalues_are_those_of_the_normalised_laplacian() -> None:
    found = spectral_clustering(BLOBS, 3, RBF(1.0))
    weights = np.asarray(RBF(1.0).gram(BLOBS))
    root = 1 / np.sqrt(weights.sum(axis=1))
    expected = np.linalg.eigvalsh(np.eye(90) - root[:, None] * weights * root[None])
    np.testing.assert_allclose(found.eigenvalues, np.maximum(expected, 0), atol=1e-10)
    np.testing.assert_allclose(np.linalg.norm(found.coordinates, axis=1), 1)
    assert found.eigenvalues[0] == pytest.approx(0, abs=1e-12)


def test_labels_are_numbered_by_first_points_and_keys_decide_starts() -> None:
    first = kernel_k_means(BLOBS, 3, RBF(2.0), key=jax.random.key(1))
    assert first.labels[[0, 30, 60]].tolist() == [0, 1, 2]
    again = kernel_k_means(BLOBS, 3, RBF(2.0), key=jax.random.key(1))
    assert (first.labels == again.labels).all()


def test_as_many_clusters_as_points_leave_no_error_and_equal_points_no_cluster_empty() -> None:
    found = kernel_k_means(BLOBS[:6], 6, RBF(1.0))
    assert found.error == pytest.approx(0, abs=1e-9)
    assert sorted(found.labels.tolist()) == list(range(6))
    same = kernel_k_means(np.ones((4, 1)), 2, RBF(1.0))
    assert sorted(np.unique(same.labels)) == [0, 1]


def test_features_in_place_of_the_kernel_find_the_same_clusters() -> None:
    every = spectral_clustering(RINGS, 2, RBF(0.5), approximate="nystrom", count=len(RINGS))
    exact = spectral_clustering(RINGS, 2, RBF(0.5))
    np.testing.assert_allclose(every.eigenvalues[:20], exact.eigenvalues[:20], atol=1e-6)
    few = spectral_clustering(RINGS, 2, RBF(0.5), approximate="nystrom", count=60)
    assert adjusted_rand_score(few.labels, RING) == 1
    for how in ("rff", "nystrom"):
        found = kernel_k_means(BLOBS, 3, RBF(2.0), approximate=how, count=40)
        assert (found.labels == kernel_k_means(BLOBS, 3, RBF(2.0)).labels).all()
    gram = np.asarray(RBF(2.0).gram(BLOBS))
    assert found.error == pytest.approx(feature_error(gram, found.labels), rel=1e-3)
    with pytest.raises(ArgumentError, match="approximate"):
        kernel_k_means(BLOBS, 3, RBF(2.0), approximate="fourier")


def test_too_few_features_are_no_graph_and_the_remedy_works() -> None:
    with pytest.raises(ArgumentError, match="a degree in a graph is positive"):
        spectral_clustering(RINGS, 2, RBF(0.1), approximate="rff", count=4)
    assert len(spectral_clustering(RINGS, 2, RBF(0.1), approximate="nystrom", count=100).labels) == 160


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kernel_k_means(BLOBS, 100, RBF(1.0)), "there are 90 points\n.*use 90 clusters or less"),
        (lambda: kernel_k_means(BLOBS, 0, RBF(1.0)), "clusters must be a whole number"),
        (lambda: spectral_clustering(BLOBS, 2, Linear()), "a similarity is -.*\n.*RBF or Matern"),
    ],
)
def test_what_cannot_be_is_refused(call, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
