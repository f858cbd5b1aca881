"""Reward processes: the cat's numbers, moments of returns against simulation, and what has no limit."""

import jax
import numpy as np
import pytest

from chainrule.agents.mdp import RewardProcess, cat_world, solve
from chainrule.core.errors import ArgumentError

LOOP = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5]]


@pytest.fixture(scope="module")
def cat() -> RewardProcess:
    return RewardProcess(cat_world.chain(), cat_world.rewards(), 0.9, names=cat_world.STATES)


@pytest.fixture(scope="module")
def patient() -> RewardProcess:
    return RewardProcess(cat_world.chain(), cat_world.rewards(), 1, names=cat_world.STATES)


def test_values_of_the_cat(cat, patient) -> None:
    np.testing.assert_allclose(cat.values, [-24.43497, -10.23218, 6.14123, 2.12371, 0.68728, 0], atol=5e-6)
    np.testing.assert_allclose(patient.values, [-49.053, -24.053, 4.947, 1.474, -2.632, 0], atol=5e-4)
    np.testing.assert_allclose(patient.steps, [15.342, 10.342, 3.342, 1.921, 4.605, 0], atol=5e-4)


def test_a_path_has_the_return_one_adds_up(cat, patient) -> None:
    path = ("hungry", "hunting", "hungry", "affectionate", "sleeping")
    assert patient.path_return(path) == -4
    assert cat.path_return(path) == pytest.approx(-4.475)
    assert cat.path_return([1, 0, 1, 2, 5]) == pytest.approx(-4.475)


def test_visits_and_rewards_make_the_values(cat, patient) -> None:
    for process in (cat, patient):
        np.testing.assert_allclose(process.occupancy @ process.rewards, process.values, atol=1e-12)
    np.testing.assert_allclose(patient.occupancy[:5, :5].sum(1), patient.steps[:5])


def test_variance_is_that_of_the_second_moment(cat) -> None:
    # E G^2 = r^2 + 2 gamma r P V + gamma^2 P E G^2, solved as it stands.
    r, P, gamma = cat.rewards, cat.transition, cat.gamma
    right = r**2 + 2 * gamma * r * (P @ cat.values)
    second = np.linalg.solve(np.eye(6) - gamma**2 * P, right)
    np.testing.assert_allclose(cat.variance, second - cat.values**2, atol=1e-10)


def test_simulation_agrees_within_its_standard_errors(cat, patient) -> None:
    for process in (cat, patient):
        found = process.simulate(jax.random.key(1), 4000)
        assert np.abs(found.deviations).max() < 4
        spread = found.standard_error**2 * found.paths
        np.testing.assert_allclose(spread[:5], process.variance[:5], rtol=0.25)
        assert found.deviations[5] == 0


def test_an_absorbing_state_that_earns_nothing_is_an_end_as_well(patient) -> None:
    P = cat_world.chain()
    P[5, 5] = 1.0
    process = RewardProcess(P, cat_world.rewards(), 1.0)
    np.testing.assert_allclose(process.values, patient.values, atol=1e-12)
    np.testing.assert_allclose(process.variance, patient.variance, atol=1e-9)
    np.testing.assert_allclose(process.steps, patient.steps)
    assert process.occupancy[0, 5] == np.inf


def test_hitting_times_of_other_states(cat) -> None:
    found = cat.hitting([cat_world.STATES.index("affectionate")])
    assert found.steps[:2].tolist() == pytest.approx([12.0, 7.0])
    assert found.probabilities[3] == pytest.approx(0.04 / (1 - 0.16))


def test_a_recurrent_class_that_earns_is_named_without_a_discount() -> None:
    names = ("day", "night", "first")
    with pytest.raises(ArgumentError, match=r"gamma=1.*recurrent class \{day, night\}"):
        RewardProcess(LOOP, [1.0, -1.0, 0.0], 1.0, names=names)
    resting = RewardProcess(LOOP, [0.0, 0.0, 3.0], 1.0)
    assert resting.values.tolist() == [0, 0, 6]
    assert resting.steps.tolist() == [0, 0, 2]
    assert np.isinf(RewardProcess(LOOP, [1.0, -1.0, 0.0], 0.9).steps).all()


@pytest.mark.parametrize("make", [RewardProcess, solve])
@pytest.mark.parametrize(
    ("P", "r", "gamma", "message"),
    [
        ([[0.5, 0.4], [0.0, 1.0]], [0, 0], 0.9, r"row P\[0\] sums to 0.9"),
        ([[1.5, -0.5], [0.0, 1.0]], [0, 0], 0.9, r"row P\[0\] holds -0.5"),
        ([[0.5, 0.5], [0.0, 1.0]], [0, 0], 1.1, r"gamma=1.1.*between 0 and 1"),
        ([[0.5, 0.5], [0.0, 1.0]], [0, 0], -0.1, r"gamma=-0.1"),
        ([[0.5, 0.5], [0.0, 1.0]], [0, 0], float("nan"), r"gamma=nan"),
        ([[0.5, 0.5], [0.0, 1.0]], [0, 0, 0], 0.9, r"r\): shape \(3,\)"),
        ([[0.5, 0.5], [0.0, 1.0]], [0, np.inf], 0.9, r"r\[1\] is inf"),
        ([[0.5, 0.5], [0.0, 1.0]], [0, 1.0], 1.0, r"recurrent class \{1\}"),
        ([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]], [0, 0], 0.9, r"shape \(2, 3\)|\(states, states\)"),
    ],
)
def test_bad_processes_are_refused_by_name(make, P, r, gamma, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        make(P, r, gamma)
