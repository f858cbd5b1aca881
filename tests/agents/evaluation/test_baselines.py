"""Baselines: random actions against exact values of the same policy, optimal ones against known optima."""

import jax
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.evaluation.baselines import RandomPolicy, baselines, facts
from chainrule.agents.evaluation.evaluate import evaluate
from chainrule.agents.mdp.enumeration import enumerated

KEYS = jax.random.split(jax.random.key(0), 400)


def test_random_actions_earn_what_their_policy_is_worth() -> None:
    env = envs.make("grid-world")
    world = enumerated(env)
    chain, rewards = world.transition.mean(axis=1), world.rewards.mean(axis=1)
    values = np.linalg.solve(np.eye(len(rewards)) - 0.9 * chain, rewards)
    found = evaluate(RandomPolicy(env.action_space), env, KEYS, greedy=False, gamma=0.9)
    earned = np.asarray(found.discounted, np.float64)
    assert abs(earned.mean() - world.start @ values) < 3 * earned.std() / np.sqrt(len(KEYS)) + 1e-4


def test_a_grid_is_solved_within_its_limit_of_time_also_when_wrapped() -> None:
    plain = envs.make("cliff-walking")
    found = baselines(plain, KEYS[:4])
    wrapped = baselines(envs.vector_observations(plain), KEYS[:4])
    assert found == wrapped
    assert found.optimal == -13
    assert found.lines == {"random": found.random, "optimal": -13}
    assert (found.rewards, found.rewards_known) == ((-100, 0), True)


def test_what_has_too_many_states_has_no_optimum() -> None:
    found = baselines(envs.make("cartpole"), KEYS)
    assert found.optimal is None
    assert found.lines.keys() == {"random"}
    assert found.random == pytest.approx(22, abs=3 * found.random_error + 1)
    assert (found.rewards, found.rewards_known) == ((1, 1), False)


def test_the_watch_is_given_what_is_known() -> None:
    env = envs.make("cliff-walking")
    known = baselines(env, KEYS[:4])
    found = facts(env, known, {"gamma": 0.9, "batch": 32, "other": "x"}, steps=500)
    assert (found.actions, found.gamma, found.batch, found.buffer) == (4, 0.9, 32, None)
    assert (found.solved, found.random_return, found.steps) == (-13, known.random, 500)
    assert facts(env, known, {}, -20.0).solved == -20
