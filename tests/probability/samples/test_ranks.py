"""Ranks of true values among draws: uniform for an exact posterior, and for no other."""

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability.samples import RankCalibration, rank_calibration

EXAMPLES, DRAWS = 2000, 99


def simulated(shift: float = 0.0, width: float = 1.0, seed: int = 0) -> RankCalibration:
    """Two normal parameters, each seen once under unit noise; the exact posterior is N(x / 2, 1 / 2)."""
    random = np.random.default_rng(seed)
    theta = random.normal(size=(EXAMPLES, 2))
    x = theta + random.normal(size=theta.shape)
    noise = random.normal(size=(EXAMPLES, DRAWS, 2))
    wrong = np.array([1.0, 0.0])  # of the first parameter alone
    deviation = np.sqrt(0.5) * (1 + wrong * (width - 1))
    return rank_calibration(theta, x[:, None] / 2 + shift * wrong + deviation * noise)


def test_ranks_under_the_exact_posterior_are_uniform() -> None:
    found = simulated()
    assert found.is_uniform()
    assert found.concerns() == ["", ""]
    assert found.counts.sum(axis=1).tolist() == [EXAMPLES, EXAMPLES]
    assert np.allclose(found.expected, EXAMPLES / 20)
    inside = (found.counts >= found.low) & (found.counts <= found.high)
    assert inside.mean() > 0.9
    assert (found.p_values > 0.005).all()


def test_chances_are_themselves_uniform_over_many_right_posteriors() -> None:
    found = [simulated(seed=seed) for seed in range(25)]
    assert 0.3 < np.mean([one.p_values for one in found]) < 0.7
    assert sum(not one.is_uniform() for one in found) <= 2


def test_draws_that_are_called_uniform_are_called_nothing_else() -> None:
    """Also where chance is near the level: slightly shifted posteriors."""
    found = [simulated(shift, seed=seed) for seed in range(10) for shift in (0.02, 0.04, 0.06)]
    assert {one.is_uniform() for one in found} == {True, False}
    assert not any(any(one.concerns()) for one in found if one.is_uniform())


@pytest.mark.parametrize(
    ("shift", "width", "said"),
    [(0.0, 0.7, "too narrow"), (0.0, 1.4, "too wide"), (0.3, 1.0, "too high"), (-0.3, 1.0, "too low")],
)
def test_a_wrong_posterior_is_noticed_and_what_is_wrong_with_it_is_said(
    shift: float, width: float, said: str
) -> None:
    found = simulated(shift, width)
    assert not found.is_uniform()
    assert found.concerns() == [said, ""]
    assert found.p_values[0] < 1e-6
    assert ((found.counts[0] < found.low) | (found.counts[0] > found.high)).sum() > 5


def test_ranks_count_draws_below_and_ties_fall_either_way() -> None:
    draws = np.arange(9.0)[None, :, None] * np.ones((40, 1, 1))
    found = rank_calibration(np.full((40, 1), 3.5), draws)
    assert (found.ranks == 4).all()
    tied = rank_calibration(np.zeros((400, 1)), np.zeros((400, 9, 1)))
    assert set(tied.ranks.ravel()) == set(range(10))
    assert tied.is_uniform()


def test_few_examples_have_few_bins_and_single_draws_two() -> None:
    random = np.random.default_rng(0)
    few = rank_calibration(random.normal(size=(30, 1)), random.normal(size=(30, 99, 1)))
    assert few.counts.shape == (1, 6)
    single = rank_calibration(random.normal(size=(200, 1)), random.normal(size=(200, 1, 1)))
    assert single.counts.shape == (1, 2)
    assert single.is_uniform()
    uneven = rank_calibration(random.normal(size=(500, 1)), random.normal(size=(500, 9, 1)), bins=4)
    assert uneven.expected.tolist() == [150.0, 100.0, 150.0, 100.0]


def test_what_does_not_fit_is_refused() -> None:
    for true, draws, said in (
        (np.zeros((20, 2)), np.zeros((20, 9, 3)), r"draws of shape \(20, 9, 3\)"),
        (np.zeros((4, 1)), np.zeros((4, 9, 1)), "too few"),
        (np.full((20, 1), np.nan), np.zeros((20, 9, 1)), "the true values are not all finite"),
    ):
        with pytest.raises(ArgumentError, match=said):
            rank_calibration(true, draws)
