"""Decision processes: three methods and published numbers, ties, bounds, and problems without a discount."""

import numpy as np
import pytest
from scipy.optimize import brentq

from chainrule.agents import envs
from chainrule.agents.mdp import cat_world, enumerated, evaluate, finite_horizon, solve, sweeps
from chainrule.core.errors import ArgumentError

METHODS = ["value-iteration", "policy-iteration", "linear-programme"]
RELAXED = cat_world.STATES.index("relaxed")


def random_process(seed: int, states: int = 7, actions: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(states, 0.3), (states, actions))
    P[-1] = 0.0
    return P, rng.normal(size=(states, actions))


@pytest.mark.parametrize("method", METHODS)
def test_talking_to_the_cat_is_best_at_gamma_09(method) -> None:
    found = solve(cat_world.decisions(), cat_world.rewards(), 0.9, method=method)
    np.testing.assert_allclose(found.values, [-23.96312, -9.49819, 7.30048, 3.86731, 2.07479, 0], atol=5e-6)
    assert found.q[RELAXED, 1] == 2
    assert found.actions == ((0, 1), (0, 1), (0, 1), (0,), (0, 1), (0, 1))
    assert found.policy[RELAXED] == 0
    assert found.method == method
    assert found.bound < 2e-9


def test_stroking_becomes_best_where_the_two_are_worth_the_same() -> None:
    def lead(gamma: float) -> float:
        q = solve(cat_world.decisions(), cat_world.rewards(), gamma).q[RELAXED]
        return float(q[0] - q[1])

    flip = brentq(lead, 0.9, 0.99, xtol=1e-12)
    assert flip == pytest.approx(cat_world.FLIP, abs=5e-7)
    both = solve(cat_world.decisions(), cat_world.rewards(), flip)
    assert both.actions[RELAXED] == (0, 1)
    assert solve(cat_world.decisions(), cat_world.rewards(), flip + 1e-6).actions[RELAXED] == (1,)
    assert solve(cat_world.decisions(), cat_world.rewards(), flip - 1e-6).actions[RELAXED] == (0,)


@pytest.mark.parametrize("seed", range(4))
def test_methods_agree_on_random_processes_within_their_bounds(seed) -> None:
    P, r = random_process(seed)
    exact = solve(P, r, 0.95, method="policy-iteration")
    # No policy of an exhaustive list is better anywhere.
    some = np.random.default_rng(seed).integers(0, 3, (200, 7))
    assert all((evaluate(P, r, policy, 0.95).values <= exact.values + 1e-9).all() for policy in some)
    np.testing.assert_allclose(evaluate(P, r, exact.policy, 0.95).values, exact.values, atol=1e-10)
    for method in METHODS:
        found = solve(P, r, 0.95, method=method, tolerance=1e-6)
        assert np.abs(found.values - exact.values).max() <= found.bound + exact.bound
        assert found.bound <= 1e-6
        assert found.actions == exact.actions


def test_the_bound_of_value_iteration_is_gamma_over_one_minus_gamma_times_the_change() -> None:
    P, r = random_process(3)
    found = solve(P, r, 0.8, method="value-iteration", tolerance=1e-2)
    before, after = sweeps(P, r, 0.8, found.iterations)[-2:]
    assert found.bound == pytest.approx(0.8 / 0.2 * np.abs(after - before).max(), rel=1e-9)
    assert np.abs(found.values - solve(P, r, 0.8).values).max() <= found.bound <= 1e-2


def test_frozen_lake_has_its_published_values() -> None:
    lake = enumerated(envs.make("frozen-lake"))
    assert lake.exact
    # Beside the goal all moves but that away from it reach it as often: they stay equally good to the last bit.
    assert lake.rewards[14, 0] == 0
    assert len(set(lake.rewards[14, 1:])) == 1
    assert lake.start @ lake.solve(0.99).values == pytest.approx(0.542026, abs=5e-7)
    for method in ("policy-iteration", "linear-programme"):
        found = lake.solve(1, method=method)
        assert lake.start @ found.values == pytest.approx(14 / 17, abs=1e-7)
        # Without a discount, wandering and arriving look alike; the policy must arrive.
        followed = evaluate(lake.transition, lake.rewards, found.policy, 1)
        assert lake.start @ followed.values == pytest.approx(14 / 17, abs=1e-7)


def test_the_cliff_takes_thirteen_steps() -> None:
    cliff = enumerated(envs.make("cliff-walking"))
    for method in ("policy-iteration", "linear-programme"):
        found = cliff.solve(1, method=method)
        assert cliff.start @ found.values == pytest.approx(-13, abs=1e-9)
        assert cliff.start @ evaluate(
            cliff.transition, cliff.rewards, found.policy, 1
        ).values == pytest.approx(-13)


def test_waiting_for_nothing_before_a_prize_is_seen_through() -> None:
    # Two states joined for nothing, from the second of which a prize can be had; a third rests for ever.
    P = np.zeros((4, 2, 4))
    P[0, 0, 0] = P[0, 1, 1] = P[1, 0, 0] = P[1, 1, 3] = 1
    P[2, :, 2] = 1
    r = np.array([[0.0, 0.0], [0.0, 5.0], [0.0, -1.0], [0.0, 0.0]])
    for method in ("policy-iteration", "linear-programme"):
        found = solve(P, r, 1, method=method)
        assert found.values.tolist() == [5, 5, 0, 0]
        assert found.policy[:3].tolist() == [1, 1, 0]
        assert found.actions[0] == (0, 1)


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], r"never loses in, \{here\}"),
        ([[-1.0, -2.0], [0.0, 0.0]], r"no policy is sure to end from \{here\}"),
    ],
)
def test_returns_without_a_limit_name_the_states(rewards, message) -> None:
    P = np.zeros((2, 2, 2))
    P[0, :, 0] = 1
    with pytest.raises(ArgumentError, match=message):
        solve(P, rewards, 1, names=("here", "there"))


def test_a_loop_that_pays_and_costs_the_same_has_no_limit_and_one_that_loses_has() -> None:
    P = np.zeros((3, 2, 3))
    P[0, 0, 1] = P[1, 0, 0] = P[0, 1, 2] = P[1, 1, 2] = 1
    with pytest.raises(ArgumentError, match="never loses"):
        solve(P, [[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]], 1)
    found = solve(P, [[1.0, 0.0], [-1.5, 0.0], [0.0, 0.0]], 1)
    assert found.values.tolist() == [1, 0, 0]


def test_few_steps_left_are_valued_by_backward_induction() -> None:
    P, r = random_process(5)
    found = finite_horizon(P, r, 6, gamma=0.9)
    np.testing.assert_allclose(found.values[::-1], sweeps(P, r, 0.9, 6), atol=1e-12)
    np.testing.assert_array_equal(found.q.max(-1), found.values[:-1])
    assert all(found.policy[t, s] == found.actions[t][s][0] for t in range(6) for s in range(7))
    cliff = enumerated(envs.make("cliff-walking"))
    left = finite_horizon(cliff.transition, cliff.rewards, 13).values[0]
    assert cliff.start @ left == -13
    prize = finite_horizon(P, r, 1, final=np.arange(7.0))
    np.testing.assert_allclose(prize.q[0], r + P @ np.arange(7.0))


def test_a_reward_process_is_solved_too() -> None:
    found = solve(cat_world.chain(), cat_world.rewards(), 0.9)
    assert found.method == "linear-system"
    assert found.values[0] == pytest.approx(-24.43497, abs=5e-6)
    again = solve(cat_world.chain(), cat_world.rewards(), 0.9, method="linear-programme")
    np.testing.assert_allclose(again.values, found.values, atol=1e-9)


def test_advantages_of_a_policy_average_to_nothing() -> None:
    P, r = random_process(2)
    policy = np.random.default_rng(0).dirichlet(np.ones(3), 7)
    found = evaluate(P, r, policy, 0.9)
    np.testing.assert_allclose((policy * found.advantages).sum(1), 0, atol=1e-12)
    np.testing.assert_allclose(found.occupancy @ (policy * r).sum(1), found.values, atol=1e-10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "value"}, "value-iteration"),
        ({"gamma": 1, "method": "value-iteration"}, "policy-iteration"),
        ({"tolerance": 0}, "tolerance must be above 0"),
        ({"iterations": 3, "method": "value-iteration"}, "after 3 sweeps"),
        ({"r": np.zeros((6, 3))}, r"needs \(6, 2\) or \(6,\)"),
        ({"P": np.zeros((6, 2, 5))}, r"\(states, actions, states\)"),
        ({"P": np.full((6, 2, 6), 0.1)}, r"row P\[0, 0\] sums to 0.6"),
        ({"P": "cat"}, "array of numbers"),
        ({"names": ("cat",)}, "1 names for 6 states"),
    ],
)
def test_bad_arguments_are_refused_by_name(changes, message) -> None:
    given = {"P": cat_world.decisions(), "r": cat_world.rewards(), "gamma": 0.9, **changes}
    with pytest.raises(ArgumentError, match=message):
        solve(**given)


@pytest.mark.parametrize("policy", [[0, 1, 2], np.full((6, 2), 0.4), [2] * 6])
def test_policies_that_are_none_are_refused(policy) -> None:
    with pytest.raises(ArgumentError, match="policy"):
        evaluate(cat_world.decisions(), cat_world.rewards(), policy, 0.9)
