"""Bottlenecks: the bit that flips, the noisy typewriter, normal variables, hard clusters, and what surrounds them."""

import itertools

import numpy as np
import pytest

from chainrule import information as I
from chainrule.core.errors import ArgumentError
from chainrule.information.bottleneck_steps import BottleneckProblem, random_starts

FLIP = I.binary_symmetric(0.1) / 2
TYPEWRITER = I.noisy_typewriter(64, 16) / 64


def binary(p: float) -> float:
    return I.entropy([p, 1 - p])


@pytest.fixture(scope="module")
def flipped() -> I.BottleneckCurve:
    return I.bottleneck_curve(FLIP, [1.2, 1.5, 1.6, 2, 2.02, 3, 5])


def test_a_bit_that_flips_has_its_known_points_and_transition(flipped) -> None:
    assert flipped.first_transition == pytest.approx(1.5625)
    points = dict(zip(flipped.betas.tolist(), flipped.points, strict=True))
    assert (points[1.2].rate, points[1.5].rate, points[1.5].cardinality) == (0, 0, 1)
    assert (points[2].rate, points[2].relevance) == pytest.approx((0.696433, 0.407234), abs=1e-6)
    assert (points[5].rate, points[5].relevance) == pytest.approx((0.997837, 0.530616), abs=1e-6)
    assert flipped.critical_betas.tolist() == [pytest.approx(1.5625)]
    for point in flipped.points[2:]:
        confused = point.encoder[0].min()
        assert point.rate == pytest.approx(1 - binary(confused), abs=1e-5)
        assert point.relevance == pytest.approx(1 - binary(0.9 * confused + 0.1 * (1 - confused)), abs=1e-5)


def test_the_slope_of_the_curve_is_one_over_beta(flipped) -> None:
    low, high = flipped.points[3], flipped.points[4]
    slope = (high.relevance - low.relevance) / (high.rate - low.rate)
    assert slope == pytest.approx(1 / np.sqrt(low.beta * high.beta), rel=0.01)


@pytest.mark.parametrize(
    ("beta", "rate", "relevance"),
    [(2.5, 0, 0), (3, 1.0670, 0.3767), (5, 2.1388, 0.6717), (10, 3.1906, 0.8229)],
)
def test_the_noisy_typewriter_has_its_known_points(beta, rate, relevance) -> None:
    found = I.bottleneck(TYPEWRITER, beta)
    assert (found.rate, found.relevance) == pytest.approx((rate, relevance), abs=1e-3)


def test_a_large_beta_finds_every_letter_for_itself_where_random_starts_do_not() -> None:
    assert I.first_transition(TYPEWRITER) == pytest.approx(2.7333, abs=1e-4)
    found = I.bottleneck(TYPEWRITER, 30.0, restarts=2, most=2000)
    assert 30 * found.relevance - found.rate >= 24 - 1e-9
    problem = BottleneckProblem(np.full(64, 1 / 64), 64 * TYPEWRITER)
    starts = random_starts(5, 64, 64, np.random.default_rng(0))
    alone = problem.solve(starts, 30.0, most=1000)
    assert -problem.objective(alone.encoder, 30.0).min() / np.log(2) < 23.9


def test_small_tables_are_solved_as_well_as_by_going_through_all_hard_clusters() -> None:
    draws = np.random.default_rng(0)
    for beta in (2.0, 6.0, 30.0):
        joint = draws.dirichlet(np.full(12, 0.4)).reshape(4, 3)
        found = I.bottleneck(joint, beta, deterministic=True)
        best = np.inf
        for labels in itertools.product(range(4), repeat=4):
            codes = np.eye(4)[list(labels)]
            kept = codes.T @ joint
            best = min(best, I.entropy(kept.sum(axis=1)) - beta * I.mutual_information(kept))
        assert found.objective == pytest.approx(best, abs=1e-9)
        assert set(found.encoder.ravel().tolist()) <= {0.0, 1.0}
        soft = I.bottleneck(joint, beta)
        hard_as_soft = found.rate - beta * found.relevance
        assert soft.objective <= hard_as_soft + 1e-9


def test_one_cluster_one_x_and_independence_are_answered_too() -> None:
    assert I.bottleneck(FLIP, 5.0, clusters=1).rate == 0
    assert I.bottleneck_curve([[0.3, 0.7]]).cardinalities.max() == 1
    independent = I.bottleneck_curve(np.full((3, 3), 1 / 9), [2.0, 50.0])
    assert independent.first_transition == np.inf
    assert independent.rates.max() == 0


def test_solutions_are_codes_and_say_what_they_keep() -> None:
    joint = np.random.default_rng(1).dirichlet(np.full(30, 0.5)).reshape(6, 5)
    joint[2] = 0
    joint /= joint.sum()
    found = I.bottleneck(joint, 4.0, unit="nats")
    mass = joint.sum(axis=1)
    np.testing.assert_allclose(found.encoder.sum(axis=1), mass > 0, atol=1e-9)
    np.testing.assert_allclose(mass @ found.encoder, found.clusters, atol=1e-9)
    assert found.rate == pytest.approx(I.mutual_information(mass[:, None] * found.encoder, unit="nats"))
    assert found.relevance == pytest.approx(I.mutual_information(found.encoder.T @ joint, unit="nats"))
    identity = I.bottleneck_identity(joint, np.where(mass[:, None] > 0, found.encoder, 1 / found.cardinality))
    assert identity.divergence == pytest.approx(identity.conditional, abs=1e-9)
    assert identity.divergence == pytest.approx(identity.lost, abs=1e-9)
    assert I.bottleneck_identity(joint, np.eye(6)).divergence == pytest.approx(0, abs=1e-12)


def test_the_past_of_a_sequence_is_clustered_by_what_follows() -> None:
    # After a or b comes c or d alike; after c or d comes a or b: two clusters say all there is.
    draws = np.random.default_rng(0)
    text = "".join(draws.choice(list("ab" if t % 2 else "cd")) for t in range(4000))
    found = I.predictive_table(text, 1)
    assert found.windows == [("a",), ("b",), ("c",), ("d",)]
    kept = I.bottleneck(found.joint, 3.0)
    assert kept.cardinality == 2
    assert kept.relevance == pytest.approx(1, abs=0.01)
    with pytest.raises(ArgumentError, match="no window and a next symbol"):
        I.predictive_table("ab", 2)


def test_a_jump_before_one_cluster_is_unstable_is_among_the_default_values_of_beta() -> None:
    jumping = I.noisy_typewriter(12, 3) / 12  # tells 1 bit of log2(12), and has no better code than all of it
    curve = I.bottleneck_curve(jumping, restarts=2)
    assert curve.first_transition == pytest.approx(4.8231, abs=1e-4)
    assert (curve.cardinalities[0], curve.cardinalities[-1]) == (1, 12)
    assert curve.critical_betas[0] == pytest.approx(np.log2(12), rel=0.1)


def test_three_terms_contain_the_bottleneck_and_rate_distortion() -> None:
    flips = np.array([[0.0, 1.0], [1.0, 0.0]])
    only_relevance = I.three_term_bottleneck(FLIP, flips, a=1, b=2, c=0)
    assert (only_relevance.rate, only_relevance.relevance) == pytest.approx((0.696433, 0.407234), abs=1e-5)
    only_distortion = I.three_term_bottleneck(FLIP, flips, a=1, b=0, c=3.0)
    point = I.rate_distortion([0.5, 0.5], flips, slope=3.0)
    assert (only_distortion.rate, only_distortion.distortion) == pytest.approx(
        (point.rate, point.distortion), abs=1e-5
    )
    both = I.three_term_bottleneck(FLIP, flips, a=1, b=2, c=3.0)
    assert both.rate > max(only_relevance.rate, only_distortion.rate)
    with pytest.raises(ArgumentError, match="a positive"):
        I.three_term_bottleneck(FLIP, flips, a=0)
    with pytest.raises(ArgumentError, match="restarts must be a whole number of at least 0"):
        I.three_term_bottleneck(FLIP, flips, restarts=-1)


def test_normal_variables_have_the_bottleneck_in_closed_form() -> None:
    covariance = np.array([[1, 0.8], [0.8, 1]])
    found = I.gaussian_bottleneck(covariance, 4.0)
    assert (found.rate, found.relevance) == pytest.approx((1.207519, 0.529447), abs=1e-6)
    assert I.gaussian_bottleneck(covariance, 1e9).relevance == pytest.approx(0.736966, abs=1e-6)
    assert found.critical_betas[0] == pytest.approx(1 / 0.64)
    assert I.gaussian_bottleneck(covariance, 1.5, np.int64(0)).rate == 0


def test_projections_of_normal_variables_keep_what_they_say_and_are_the_best() -> None:
    root = np.random.default_rng(0).normal(size=(5, 5))
    covariance = root @ root.T + np.eye(5)
    found = I.gaussian_bottleneck(covariance, 12.0, (0, 1, 2))

    def kept(projection: np.ndarray) -> tuple[float, float]:
        count = len(projection)
        top = projection @ covariance[:3]
        noisy = top[:, :3] @ projection.T + np.eye(count)
        whole = np.block([[noisy, top], [top.T, covariance]])
        codes, x, y = tuple(range(count)), tuple(range(count, count + 3)), (count + 3, count + 4)
        return (
            I.gaussian_mutual_information(whole, codes, x),
            I.gaussian_mutual_information(whole, codes, y),
        )

    assert kept(found.projection) == pytest.approx((found.rate, found.relevance), abs=1e-9)
    best = found.rate - 12 * found.relevance
    for seed in range(20):
        other = found.projection + 0.1 * np.random.default_rng(seed).normal(size=found.projection.shape)
        rate, relevance = kept(other)
        assert rate - 12 * relevance >= best - 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.bottleneck([[0.5, 0.5], [0.5, 0.5]], 2.0), "sums to 2, which is 1 above 1"),
        (lambda: I.bottleneck(FLIP, 0.0), "beta is a positive number"),
        (lambda: I.bottleneck(FLIP, 2.0, clusters=4), "never need more"),
        (lambda: I.bottleneck([0.5, 0.5], 2.0), "needs a matrix"),
        (lambda: I.bottleneck(FLIP, 2.0, seed=-1), "seed must be a whole number of at least 0"),
        (lambda: I.three_term_bottleneck(FLIP, np.eye(2), seed=-1), "seed must be a whole number"),
        (lambda: I.three_term_bottleneck(FLIP, -np.eye(2)), "never negative"),
        (lambda: I.three_term_bottleneck(FLIP, np.zeros((2, 0))), r"shape \(2, 0\)"),
        (lambda: I.bottleneck_identity(FLIP, np.eye(3)), "has 3 rows"),
        (lambda: I.gaussian_bottleneck(np.eye(2), 2.0, (0, 1)), "leaves some for y"),
        (lambda: I.gaussian_bottleneck(np.eye(2), -1.0), "beta is a positive number"),
    ],
)
def test_bad_tables_and_settings_are_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
