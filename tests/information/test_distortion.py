"""Rate-distortion: closed forms, certificates, straight pieces, and normal sources."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError
from chainrule.probability import Normal

FLIPS = np.array([[0.0, 1.0], [1.0, 0.0]])


def binary(p: float) -> float:
    return I.entropy([p, 1 - p])


def test_a_biased_bit_has_its_curve() -> None:
    found = I.rate_at([0.6, 0.4], FLIPS, 0.1)
    assert found.rate == pytest.approx(0.501955, abs=1e-6)
    assert found.distortion == pytest.approx(0.1, abs=1e-9)
    assert found.gap < 1e-7
    curve = I.rate_distortion_curve([0.6, 0.4], FLIPS)
    inner = (curve.distortions > 1e-6) & (curve.distortions < 0.399)
    expected = [binary(0.4) - binary(d) for d in curve.distortions[inner]]
    np.testing.assert_allclose(curve.rates[inner], expected, atol=1e-5)
    # The slope of H - h(D) is -log((1 - D) / D).
    np.testing.assert_allclose(
        curve.slopes[inner], np.log((1 - curve.distortions[inner]) / curve.distortions[inner]), rtol=1e-3
    )


def test_ends_of_the_curve_are_the_entropy_and_nothing() -> None:
    p, apart = [0.5, 0.3, 0.2], 1 - np.eye(3)
    assert I.rate_at(p, apart, 0.0).rate == pytest.approx(I.entropy(p), abs=1e-6)
    assert I.rate_at(p, apart, 0.5).rate == pytest.approx(0, abs=1e-9)
    # The most likely symbol is always told; the loss is not beyond what was asked for.
    for asked in (0.5, 7.0):
        free = I.rate_at(p, apart, asked)
        assert (free.rate, free.gap, free.distortion) == (0, 0, 0.5)
        assert free.encoder[:, 0].tolist() == [1, 1, 1]


@given(st.integers(0, 10_000))
def test_no_encoder_beats_the_lower_bound(seed: int) -> None:
    draws = np.random.default_rng(seed)
    p, cost = draws.dirichlet(np.ones(4)), draws.uniform(size=(4, 3))
    found = I.rate_distortion(p, cost, slope=float(draws.uniform(0.5, 8)), tol=1e-6)
    assert I.mutual_information(p[:, None] * found.encoder) == pytest.approx(found.rate, abs=1e-9)
    floor = found.rate - found.gap
    for encoder in draws.dirichlet(np.full(3, 0.3), (20, 4)):
        joint = p[:, None] * encoder
        line = I.mutual_information(joint) + found.slope / np.log(2) * (
            (joint * cost).sum() - found.distortion
        )
        assert line >= floor - 1e-9


def test_straight_pieces_of_a_curve_are_mixed() -> None:
    # Three symbols told as themselves or as "any of these", whose cost makes part of the curve straight.
    p, cost = np.array([0.4, 0.3, 0.3]), np.column_stack([1 - np.eye(3), np.full(3, 0.55)])
    whole = float((p @ cost).min())
    grid = np.linspace(0.02, whole - 0.02, 9)
    rates = np.array([I.rate_at(p, cost, d).rate for d in grid])
    gaps = np.array([I.rate_at(p, cost, d).gap for d in grid])
    assert (gaps < 1e-5).all()
    assert (np.diff(rates) < 0).all()
    assert (np.diff(rates, 2) > -1e-5).all()


def test_the_lower_bound_of_shannon_is_below_and_tight_for_normal_sources() -> None:
    p = [0.5, 0.3, 0.2]
    for d in (0.05, 0.2, 0.4):
        assert I.shannon_lower_bound(p, d) <= I.rate_at(p, 1 - np.eye(3), d).rate + 1e-9
    bound = I.shannon_lower_bound(Normal(0.0, 2.0), 1.0, measure="squared")
    assert bound == pytest.approx(I.gaussian_rate_distortion([4.0], 1.0).rate, abs=1e-5)


@given(st.integers(0, 10_000))
def test_water_filling_shares_the_distortion_best(seed: int) -> None:
    draws = np.random.default_rng(seed)
    variances = draws.gamma(1.0, size=5)
    distortion = float(draws.uniform(0.05, 0.95) * variances.sum())
    found = I.gaussian_rate_distortion(variances, distortion)
    assert found.distortions.sum() == pytest.approx(distortion)
    other = np.minimum(variances, draws.dirichlet(np.ones(5)) * distortion)
    assert found.rate <= 0.5 * np.log2(variances / other).sum() + 1e-9
    level = scipy.optimize.brentq(lambda t: np.minimum(variances, t).sum() - distortion, 0, variances.max())
    assert found.level == pytest.approx(level)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.rate_distortion([0.5, 0.6], FLIPS, 1.0), "0.1 above 1"),
        (lambda: I.rate_distortion([0.5, 0.5], np.ones((3, 2)), 1.0), "a row for each of the 2 symbols"),
        (lambda: I.rate_distortion([0.5, 0.5], FLIPS, -1.0), "without its sign"),
        (
            lambda: I.rate_distortion([0.5, 0.5], FLIPS, 1.0, tol=0),
            r"rate_distortion\(tol=0\): .* positive number",
        ),
        (lambda: I.rate_at([0.5, 0.5], FLIPS, 0.1, tol=-1.0), r"rate_at\(tol=-1.0\): .* positive number"),
        (
            lambda: I.rate_distortion_curve([0.5, 0.5], FLIPS, tol=float("nan")),
            r"rate_distortion_curve\(tol=nan\): .* positive number",
        ),
        (lambda: I.rate_at([0.5, 0.5], FLIPS + 1, 0.5), "no code does better than 1"),
        (lambda: I.rate_distortion([0.5, 0.5], -FLIPS, 1.0), "never negative"),
        (lambda: I.gaussian_rate_distortion([1.0], 0.0), "infinitely many bits"),
        (lambda: I.rate_distortion_curve([0.5, 0.5], FLIPS, slopes=[]), "at least one point"),
        (lambda: I.shannon_lower_bound([0.5, 0.5], 0.1, measure="squared"), "a density is needed"),
        (lambda: I.shannon_lower_bound(Normal(0.0, 1.0), 0.1), "a Normal has a density"),
    ],
)
def test_problems_that_are_none_are_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
