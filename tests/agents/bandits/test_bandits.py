"""Bandits: strategies against numbers computed by hand, and regret against what is known about it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.bandits import (
    UCB1,
    BernoulliArms,
    EpsilonGreedyArms,
    GradientBandit,
    NormalArms,
    ThompsonBernoulli,
    ThompsonNormal,
    play,
    regret,
)
from chainrule.agents.bandits.strategies import ArmRecords, Preferences
from chainrule.agents.mdp import policy_gradient
from chainrule.core.errors import ArgumentError

KEY = jax.random.key(0)


def test_ucb1_pulls_what_could_be_best() -> None:
    # Certain rewards: the picks follow from the formula, computed here in plain Python.
    means = np.array([0.2, 0.5, 0.4])
    pulls, expected = np.zeros(3), []
    for time in range(40):
        bounds = means + np.sqrt(2 * np.log(max(time, 1)) / np.maximum(pulls, 1))
        arm = time if time < 3 else int(np.argmax(bounds))
        pulls[arm] += 1
        expected.append(arm)
    certain = NormalArms(jnp.asarray(means, jnp.float32), 0.0)
    assert np.asarray(play(UCB1(), certain, KEY, 40).arm).tolist() == expected


def test_thompson_knows_its_posterior() -> None:
    strategy = ThompsonNormal(scale=2.0, prior=3.0)
    mean, deviation = strategy.posterior(ArmRecords(jnp.array([0.0, 4.0]), jnp.array([0.0, 1.5])))
    np.testing.assert_allclose(mean, [0, 1.5 / (1 + 4 / (4 * 9))], rtol=1e-6)
    np.testing.assert_allclose(deviation, [3, (1 / 9 + 1) ** -0.5], rtol=1e-6)
    coins = ThompsonBernoulli()
    known = coins.start(2)
    for arm, reward in ((0, 1.0), (0, 0.0), (0, 1.0), (1, 0.0)):
        known = coins.learn(known, jnp.asarray(arm), jnp.asarray(reward))
    assert known.wins.tolist() == [3, 1]
    assert known.losses.tolist() == [2, 2]
    certain = known._replace(wins=jnp.array([1.0, 900.0]), losses=jnp.array([900.0, 1.0]))
    assert int(coins.choose(KEY, certain)) == 1


def test_the_average_step_of_the_gradient_bandit_is_the_exact_gradient() -> None:
    _, exact = policy_gradient([[0.0, 0.0]], np.zeros((1, 2, 1)), [[1.0, 0.0]], 1.0, [1.0])
    rewards = np.array([1.0, 0.0])
    settled = Preferences(jnp.zeros(2), jnp.asarray(0.5), jnp.asarray(1e9))
    for baseline, variance in ((False, 0.0625), (True, 0.0)):
        strategy = GradientBandit(1.0, baseline)
        steps = np.stack(
            [strategy.learn(settled, jnp.asarray(arm), jnp.asarray(rewards[arm])).logits for arm in (0, 1)]
        )
        np.testing.assert_allclose(steps.mean(0), exact[0], atol=1e-6)
        np.testing.assert_allclose(steps.var(0), variance, atol=1e-6)


def test_averages_and_high_hopes() -> None:
    strategy = EpsilonGreedyArms(0.0, initial=5.0)
    known = strategy.start(2)
    assert int(strategy.choose(KEY, known._replace(means=jnp.array([4.0, 5.0])))) == 1
    for reward in (1.0, 2.0, 6.0):
        known = strategy.learn(known, jnp.asarray(0), jnp.asarray(reward))
    assert known.means.tolist() == pytest.approx([3, 5])
    assert EpsilonGreedyArms(rate=0.5).learn(known, jnp.asarray(1), jnp.asarray(1.0)).means[1] == 3


def test_least_regret_is_that_of_lai_and_robbins() -> None:
    p = np.array([0.4, 0.7, 0.5])
    kl = p * np.log(p / 0.7) + (1 - p) * np.log((1 - p) / 0.3)
    expected = sum(gap / one for gap, one in zip(0.7 - p, kl, strict=True) if gap > 0)
    assert float(BernoulliArms(jnp.asarray(p, jnp.float32)).least_regret()) == pytest.approx(
        expected, rel=1e-5
    )


@pytest.fixture(scope="module")
def curves() -> dict[str, object]:
    arms = BernoulliArms(jnp.tile(jnp.array([0.3, 0.7]), (200, 1)))
    strategies = {
        "random": EpsilonGreedyArms(1.0),
        "ucb1": UCB1(),
        "thompson": ThompsonNormal(scale=0.5),
        "gradient": GradientBandit(0.4),
    }
    return {name: regret(one, arms, KEY, 300, points=30) for name, one in strategies.items()}


def test_pulling_at_random_misses_half_the_gap_each_time(curves) -> None:
    found = curves["random"]
    assert found.steps[-1] == 300
    expected = 0.2 * found.steps
    error = (found.high - found.low) / 2 / 1.96
    assert (np.abs(found.mean - expected) < 4 * error).all()
    assert found.best_share.mean() == pytest.approx(0.5, abs=0.05)
    np.testing.assert_allclose(found.final.mean(), found.mean[-1])


def test_strategies_miss_less_than_chance_and_ucb_less_than_its_bound(curves) -> None:
    for name in ("ucb1", "thompson", "gradient"):
        assert curves[name].mean[-1] < 0.6 * curves["random"].mean[-1]
        assert (np.diff(curves[name].mean) >= 0).all()
        assert curves[name].best_share[-1] > 0.8
    # Auer et al., theorem 1.
    bound = 8 * np.log(300) / 0.4 + (1 + np.pi**2 / 3) * 0.4
    assert curves["ucb1"].mean[-1] < bound
    assert curves["thompson"].mean[-1] < curves["ucb1"].mean[-1]


def test_problems_side_by_side_need_an_axis() -> None:
    with pytest.raises(ArgumentError, match=r"\(problems, arms\)"):
        regret(UCB1(), NormalArms(jnp.zeros(3)), KEY, 10)
