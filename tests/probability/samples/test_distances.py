"""Distances between samples and real rows by other routes: SciPy, loops over pairs, scikit-learn."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from sklearn.neighbors import NearestNeighbors

from chainrule.core.errors import ArgumentError
from chainrule.kernels.functions import Polynomial
from chainrule.kernels.mean_embedding import squared_mmd
from chainrule.probability.gaussian.distances import wasserstein_2
from chainrule.probability.samples import (
    alikeness,
    biased_kernel_distance,
    classifier_score,
    fidelity,
    frechet_at_infinity,
    frechet_distance,
    frechet_distance_of_moments,
    kernel_distance,
    kernel_distance_over_subsets,
    mode_coverage,
    nearest,
    spread,
    two_sample_accuracy,
)

DRAW = np.random.default_rng(0)


# ---------------------------------------------------------------------- Fréchet


def test_the_frechet_distance_of_known_moments() -> None:
    first, second, nothing = np.array([[2.0, 1.0], [1.0, 2.0]]), np.diag([1.0, 3.0]), np.zeros(2)
    assert frechet_distance_of_moments(nothing, first, nothing, second) == pytest.approx(0.5166852, abs=5e-8)
    eye = np.eye(2)
    assert frechet_distance_of_moments(nothing, eye, np.array([3.0, 4.0]), eye) == pytest.approx(
        25, rel=1e-14
    )


@pytest.mark.parametrize("columns", [6, 9, 50])
def test_the_frechet_distance_agrees_with_the_root_of_the_product_by_scipy(columns: int) -> None:
    first, second = DRAW.normal(size=(6, 9)), DRAW.normal(size=(6, columns))
    one, other = first @ first.T, second @ second.T
    mean, other_mean = DRAW.normal(size=(2, 6))
    root = scipy.linalg.sqrtm(one @ other).real
    expected = np.square(mean - other_mean).sum() + np.trace(one + other - 2 * root)
    found = frechet_distance_of_moments(mean, one, other_mean, other)
    assert found == pytest.approx(expected, rel=1e-9)
    assert frechet_distance_of_moments(other_mean, other, mean, one) == pytest.approx(found, rel=1e-9)
    distance = wasserstein_2(mean, one, other_mean, other)
    assert found == pytest.approx(float(distance) ** 2, rel=1e-4)


def test_covariances_without_some_directions_are_no_trouble() -> None:
    first, second = np.diag([4.0, 0.0, 1.0]), np.diag([1.0, 9.0, 0.0])
    axes = np.linalg.qr(DRAW.normal(size=(3, 3)))[0]
    turned = [axes @ one @ axes.T for one in (first, second)]
    found = frechet_distance_of_moments(np.zeros(3), turned[0], np.zeros(3), turned[1])
    assert found == pytest.approx(1 + 9 + 1, rel=1e-7)


def test_the_frechet_distance_of_gaussians_along_the_axes_has_a_closed_form() -> None:
    x = DRAW.normal(size=(60, 3))
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T  # white to the last digit
    sizes = np.array([1.0, 2.0, 5.0])
    turned = x @ np.linalg.qr(DRAW.normal(size=(3, 3)))[0]  # a white set seen from elsewhere is as white
    assert frechet_distance(x, turned * sizes[None] + 1) == pytest.approx(3 + ((sizes - 1) ** 2).sum())
    assert frechet_distance(x, turned) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ArgumentError, match="1 and 5 examples are too few"):
        frechet_distance(np.zeros((1, 2)), np.zeros((5, 2)))


def test_a_line_to_infinity_takes_most_of_the_bias_away() -> None:
    known = DRAW.normal(size=(20_000, 16)) + 0.25  # a distance of 1 from what follows
    found = [
        (frechet_distance(x, known), frechet_at_infinity(x, known)) for x in DRAW.normal(size=(8, 250, 16))
    ]
    plain, corrected = np.mean(found, axis=0)
    assert plain > 1.2
    assert corrected == pytest.approx(1, abs=0.1)
    with pytest.raises(ArgumentError, match="too few"):
        frechet_at_infinity(known[:10], known)


# ---------------------------------------------------------------------- kernels


def loops(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Unbiased and biased, pair by pair."""

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        return float((a @ b / len(a) + 1) ** 3)

    between = np.mean([kernel(a, b) for a in x for b in y])
    apart = [np.mean([kernel(a, b) for a, b in itertools.permutations(z, 2)]) for z in (x, y)]
    every = [np.mean([kernel(a, b) for a in z for b in z]) for z in (x, y)]
    return sum(apart) - 2 * between, sum(every) - 2 * between


def test_both_kernel_distances_are_those_of_loops_over_pairs() -> None:
    x, y = np.array([[0.0], [1.0]]), np.array([[1.0], [2.0]])
    assert kernel_distance(x, y).value == pytest.approx(9.5, rel=1e-14)
    assert biased_kernel_distance(x, y) == pytest.approx(31, rel=1e-14)
    x, y = DRAW.normal(size=(7, 3)), DRAW.normal(size=(9, 3)) + 0.5
    unbiased, biased = loops(x, y)
    assert kernel_distance(x, y).value == pytest.approx(unbiased, rel=1e-12)
    assert biased_kernel_distance(x, y) == pytest.approx(biased, rel=1e-12)


def test_it_is_the_discrepancy_of_the_polynomial_kernel() -> None:
    x, y = DRAW.normal(size=(20, 4)), DRAW.normal(size=(30, 4)) + 0.5
    ours = kernel_distance(x, y).value
    theirs = squared_mmd(x / 2, y / 2, Polynomial(3, 1.0))  # four features: x·y/4
    assert ours == pytest.approx(float(theirs), rel=1e-4)


def test_the_kernel_distance_is_unbiased_and_grows_with_the_difference() -> None:
    same = [kernel_distance(DRAW.normal(size=(40, 2)), DRAW.normal(size=(50, 2))).value for _ in range(200)]
    assert abs(np.mean(same)) < 3 * np.std(same) / np.sqrt(200)
    far = kernel_distance(DRAW.normal(size=(400, 2)), DRAW.normal(size=(400, 2)) + 1)
    assert far.value > 10 * np.std(same)
    with pytest.raises(ArgumentError, match="2 or more"):
        kernel_distance(np.zeros((1, 2)), np.zeros((5, 2)))


def test_the_kernel_distance_of_examples_with_a_fixed_number_of_each_class_is_unbiased_too() -> None:
    def classes_apart(labels: np.ndarray) -> np.ndarray:
        return DRAW.normal(size=(len(labels), 2)) + 3 * labels[:, None]

    even = np.repeat([0, 1], 20)
    far = classes_apart(DRAW.integers(0, 2, 2000))
    within = alikeness(far)
    plain, corrected = [], []
    for _ in range(200):
        rows = classes_apart(even)
        plain.append(kernel_distance(rows, far, within).value)
        corrected.append(kernel_distance(rows, far, within, even).value)
    error = np.std(corrected) / np.sqrt(200)
    fixed = np.mean(kernel_distance(classes_apart(np.repeat([0, 1], 2000)), far, within).value)
    assert abs(np.mean(corrected) - fixed) < 4 * error
    assert np.mean(plain) < np.mean(corrected) - 10 * error  # what counting all pairs alike would say


def test_the_error_of_the_kernel_distance_is_its_spread_over_draws() -> None:
    other = DRAW.normal(size=(300, 2)) + 1
    found = [kernel_distance(DRAW.normal(size=(80, 2)), other) for _ in range(300)]
    assert np.std([one.value for one in found]) == pytest.approx(
        np.mean([one.error for one in found]), rel=0.15
    )


def test_subsets_have_the_mean_of_the_whole_and_spread_as_subsets_do() -> None:
    x, y = DRAW.normal(size=(600, 3)), DRAW.normal(size=(700, 3)) + 0.3
    found = kernel_distance_over_subsets(x, y, subsets=200, size=50)
    assert found.size == 50
    assert found.mean == pytest.approx(kernel_distance(x, y).value, abs=4 * found.deviation / np.sqrt(200))
    fresh = [
        kernel_distance(DRAW.normal(size=(50, 3)), DRAW.normal(size=(50, 3)) + 0.3).value for _ in range(200)
    ]
    assert found.deviation == pytest.approx(np.std(fresh), rel=0.3)
    with pytest.raises(ArgumentError, match="two subsets"):
        kernel_distance_over_subsets(x, y, subsets=1)


# ---------------------------------------------------------------------- neighbours


def test_precision_and_recall_of_the_same_set_and_of_sets_far_apart() -> None:
    x = DRAW.normal(size=(50, 4))
    assert fidelity(x, x)[:2] == (1.0, 1.0)
    assert fidelity(x, x + 1e6) == (0.0, 0.0, 0.0, 0.0)
    with pytest.raises(ArgumentError, match="neighbour"):
        fidelity(x[:5], x)


@pytest.mark.parametrize("k", [1, 5])
def test_fidelity_is_what_neighbours_of_scikit_learn_say(k: int) -> None:
    real, fake = DRAW.normal(size=(300, 3)), 0.8 * DRAW.normal(size=(270, 3)) + 0.5

    def reach(rows: np.ndarray) -> np.ndarray:
        return NearestNeighbors(n_neighbors=k + 1).fit(rows).kneighbors(rows)[0][:, -1]

    apart = np.linalg.norm(fake[:, None] - real[None], axis=-1)
    inside = apart <= reach(real)[None]
    found = fidelity(real, fake, k)
    assert found.precision == inside.any(axis=1).mean()
    assert found.recall == (apart <= reach(fake)[:, None]).any(axis=0).mean()
    assert found.density == pytest.approx(inside.sum() / (k * len(fake)), rel=1e-12)
    assert found.coverage == inside.any(axis=0).mean()


def test_rows_that_come_twice_have_balls_of_no_size_and_hold_themselves() -> None:
    twice = np.repeat(DRAW.integers(0, 2, (20, 8)).astype(float), 7, axis=0)
    assert fidelity(twice, twice + 0.0, 5) == pytest.approx((1, 1, fidelity(twice, twice, 5).density, 1))


def test_nearest_rows_are_those_of_scikit_learn() -> None:
    x, among = DRAW.normal(size=(300, 5)), DRAW.normal(size=(40, 5))
    for count in (1, 3, 40):
        distances, numbers = nearest(x, among, count)
        theirs = NearestNeighbors(n_neighbors=count).fit(among).kneighbors(x)
        np.testing.assert_allclose(distances, theirs[0], atol=1e-7)
        np.testing.assert_array_equal(numbers, theirs[1])


def test_distances_and_spreads_are_those_of_small_sets() -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    distances, numbers = nearest(np.array([[3.0, 3.0]]), x, 2)
    np.testing.assert_allclose(distances, [[1.0, np.sqrt(13)]])
    assert numbers.tolist() == [[1, 2]]
    assert spread(x[:2]) == pytest.approx(5)
    assert spread(x, np.array([0, 1, 0])) == pytest.approx(1)


def test_chance_is_within_the_interval_as_often_as_it_says() -> None:
    found = [two_sample_accuracy(*DRAW.normal(size=(2, 60, 2)), seed=i) for i in range(200)]
    assert np.mean([one.chance for one in found]) > 0.92
    assert np.mean([one.accuracy for one in found]) == pytest.approx(0.5, abs=0.02)
    assert found[0].asked == 60
    moved = two_sample_accuracy(DRAW.normal(size=(200, 2)), DRAW.normal(size=(200, 2)) + 1.5)
    assert moved.low > 0.6


# ---------------------------------------------------------------------- modes and classes


def test_modes_are_counted_where_enough_samples_are_near() -> None:
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    near = centres[np.repeat([0, 1], [1500, 900])] + 0.1 * DRAW.normal(size=(2400, 2))
    few = centres[[2] * 19] + 0.01 * DRAW.normal(size=(19, 2))
    off = np.full((81, 2), 2.0)
    samples = np.concatenate([near, few, off])
    found = mode_coverage(samples, centres, 0.1)
    assert (found.covered, found.modes, found.threshold) == (2, 3, 20)
    assert found.high_quality == pytest.approx(2419 / 2500, abs=0.012)
    assert mode_coverage(samples, centres, 0.1, threshold=19).covered == 3
    # A normal law in the plane cut off at three deviations: 1 - (9/2) exp(-9/2) / (1 - exp(-9/2)) of its variance.
    cut = np.sqrt(1 - 4.5 * np.exp(-4.5) / (1 - np.exp(-4.5)))
    assert found.deviation == pytest.approx(cut, rel=0.03)
    shares = np.array([1500 + 81, 900, 19]) / 2500  # what is as far from all goes to the first
    assert found.divergence == pytest.approx((shares * np.log(3 * shares)).sum(), rel=1e-12)
    collapsed = mode_coverage(np.zeros((100, 2)), centres, 0.1)
    assert (collapsed.covered, collapsed.deviation) == (1, 0.0)
    assert collapsed.divergence == pytest.approx(np.log(3))


def test_the_classifier_score_is_the_exponential_of_the_information_of_samples_on_classes() -> None:
    p = DRAW.dirichlet(np.ones(5), 40)
    divergence = np.mean([(row * np.log(row / p.mean(axis=0))).sum() for row in p])
    assert classifier_score(p) == pytest.approx(np.exp(divergence), rel=1e-12)


# ---------------------------------------------------------------------- what is no set of rows

ABLE = [
    frechet_distance,
    frechet_at_infinity,
    kernel_distance,
    biased_kernel_distance,
    kernel_distance_over_subsets,
    fidelity,
    two_sample_accuracy,
    nearest,
]


@pytest.mark.parametrize("distance", ABLE)
def test_sets_that_are_no_rows_of_finite_numbers_are_refused(distance: Any) -> None:
    x = DRAW.normal(size=(40, 3))
    broken = x.copy()
    broken[7, 1] = np.nan
    with pytest.raises(ArgumentError, match="example 7 has an entry that is not finite"):
        distance(x, broken)
    with pytest.raises(ArgumentError, match=r"have 3 entries, those of .* 2"):
        distance(x, x[:, :2])
    with pytest.raises(ArgumentError, match=r"shape \(40, 3, 1\); examples are rows"):
        distance(x[..., None], x[..., None])
    assert np.allclose(np.asarray(distance(x.tolist(), x), float), np.asarray(distance(x, x), float))


def test_modes_and_class_probabilities_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ArgumentError, match="have 3 entries, those of centres 2"):
        mode_coverage(np.zeros((5, 3)), np.zeros((2, 2)), 0.1)
    with pytest.raises(ArgumentError, match="deviation=nan"):
        mode_coverage(np.zeros((5, 2)), np.zeros((2, 2)), float("nan"))
    with pytest.raises(ArgumentError, match=r"row 1 has the sum 0.6"):
        classifier_score(np.array([[0.5, 0.5], [0.3, 0.3]]))
    with pytest.raises(ArgumentError, match=r"least entry -0.5"):
        classifier_score(np.array([[1.5, -0.5]]))
    with pytest.raises(ArgumentError, match="count=4"):
        nearest(np.zeros((2, 1)), np.zeros((3, 1)), 4)
    with pytest.raises(ArgumentError, match="2 classes for 3"):
        spread(np.zeros((3, 1)), np.array([0, 1]))
