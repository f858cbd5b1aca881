"""Episodes of an environment whose returns are known before they begin."""

import equinox as eqx
import jax
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.evaluation.baselines import RandomPolicy
from chainrule.agents.evaluation.evaluate import AgentEvaluation, evaluate
from chainrule.core.errors import ArgumentError
from tests.agents.evaluation.countdown import Countdown, Remembering

KEYS = jax.random.split(jax.random.key(3), 24)
GAMMA = 0.9


@pytest.fixture(scope="module")
def found() -> AgentEvaluation:
    return evaluate(Remembering(), Countdown(), KEYS, gamma=GAMMA)


def test_returns_are_sums_of_all_rewards_plain_and_discounted(found: AgentEvaluation) -> None:
    lengths = np.asarray(found.lengths)
    assert set(lengths) >= {1, 2, 8, 9}
    np.testing.assert_allclose(found.returns, lengths * (lengths + 1) / 2)
    rewards, t = np.arange(1, 10), np.arange(9)
    expected = [float((rewards * GAMMA**t)[:n].sum()) for n in lengths]
    np.testing.assert_allclose(found.discounted, expected, rtol=1e-6)
    np.testing.assert_array_equal(found.lowest, 1)
    np.testing.assert_array_equal(found.highest, lengths)


def test_ends_and_cuts_stay_apart(found: AgentEvaluation) -> None:
    np.testing.assert_array_equal(found.terminated, np.asarray(found.lengths) % 2 == 0)
    np.testing.assert_array_equal(found.truncated, np.asarray(found.lengths) % 2 == 1)


def test_actions_are_counted_until_the_end_only(found: AgentEvaluation) -> None:
    assert found.chosen is not None
    for length, chosen in zip(np.asarray(found.lengths), np.asarray(found.chosen), strict=True):
        np.testing.assert_array_equal(chosen, np.bincount(np.arange(length) % 3, minlength=3))


def test_numbers_say_it_in_one_number_each(found: AgentEvaluation) -> None:
    numbers = found.numbers()
    returns, lengths = np.asarray(found.returns, float), np.asarray(found.lengths)
    assert numbers["return_mean"] == pytest.approx(returns.mean())
    assert numbers["return_median"] == pytest.approx(np.median(returns))
    assert (numbers["return_min"], numbers["return_max"]) == (returns.min(), returns.max())
    assert numbers["truncated_share"] == pytest.approx((lengths % 2).mean())
    assert numbers["episode_length"] == pytest.approx(lengths.mean())
    assert 1 / 3 < numbers["action_share"] < 1


def test_a_limit_cuts_off_what_has_not_ended() -> None:
    cut = evaluate(Remembering(), Countdown(), KEYS, limit=4)
    whole = np.asarray(evaluate(Remembering(), Countdown(), KEYS, gamma=GAMMA).lengths)
    np.testing.assert_array_equal(cut.lengths, np.minimum(whole, 4))
    np.testing.assert_array_equal(cut.terminated, (whole <= 4) & (whole % 2 == 0))


def test_an_episode_depends_on_its_own_key_alone(found: AgentEvaluation) -> None:
    order = np.random.default_rng(0).permutation(len(KEYS))
    again = evaluate(Remembering(), Countdown(), KEYS[order], gamma=GAMMA)
    np.testing.assert_array_equal(again.returns, np.asarray(found.returns)[order])


def test_random_actions_are_legal_ones() -> None:
    env = Countdown()
    found = evaluate(RandomPolicy(env.action_space), env, KEYS, greedy=False)
    assert float(np.asarray(found.lowest).min()) == 1  # an illegal action costs 1000


def test_random_actions_are_spread_evenly_and_differ_from_key_to_key() -> None:
    env = envs.make("cartpole")
    found = evaluate(
        RandomPolicy(env.action_space), env, jax.random.split(jax.random.key(0), 200), greedy=False
    )
    assert found.numbers()["action_share"] == pytest.approx(0.5, abs=0.03)
    assert len(set(np.asarray(found.returns).tolist())) > 20


def test_many_agents_are_evaluated_at_once(found: AgentEvaluation) -> None:
    policies = Remembering(np.arange(3.0))
    many = eqx.filter_vmap(lambda policy: evaluate(policy, Countdown(), KEYS, gamma=GAMMA))(policies)
    assert many.returns.shape == (3, 24)
    np.testing.assert_array_equal(many.returns, np.broadcast_to(found.returns, (3, 24)))
    assert many.numbers()["return_mean"] == pytest.approx(found.numbers()["return_mean"])


@pytest.mark.parametrize("keys", [jax.random.key(0), np.zeros((2, 2), np.uint32)], ids=["one", "plain"])
def test_anything_but_one_key_for_each_episode_is_refused(keys: jax.Array) -> None:
    with pytest.raises(ArgumentError, match=r"one random key for each episode.*\n.*jax.random.split"):
        evaluate(Remembering(), Countdown(), jax.numpy.asarray(keys))


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ArgumentError, match="limit"):
        evaluate(Remembering(), Countdown(), KEYS, limit=0)
