"""Whole tabular trainings: exact optima where steps are certain, the cat's decision, seeds side by side, truncation."""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.envs.finite import FiniteEnvironment, Outcomes
from chainrule.agents.mdp import RewardProcess, cat_world, enumerated, solve
from chainrule.agents.tabular import (
    DoubleQLearning,
    EpsilonGreedyBehaviour,
    ExpectedSarsa,
    NStepSarsa,
    QLearning,
    Sarsa,
    SoftmaxBehaviour,
    TabularHyper,
    TabularLearner,
    td_values,
)
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array

STEPS = 30_000
SEEDS = 8


@eqx.filter_jit
def trained(learner: TabularLearner, keys: Any) -> Any:
    return jax.vmap(lambda key: learner.run(learner.start(key), STEPS))(keys)


@pytest.fixture(scope="module")
def cat() -> FiniteEnvironment:
    return envs.make("cat-world")


RULES = [
    QLearning(),
    Sarsa(),
    *(
        pytest.param(rule, marks=pytest.mark.slow)
        for rule in (ExpectedSarsa(), DoubleQLearning(), NStepSarsa(2), QLearning(0.3))
    ),
]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_learns_to_talk_to_the_cat(rule, cat) -> None:
    exact = solve(cat_world.decisions(), cat_world.rewards(), 0.9)
    behaviour = EpsilonGreedyBehaviour(1.0, 0.02, STEPS)
    learner = TabularLearner(cat, rule, TabularHyper(1.0, 0.6, 0.9, 0.0, behaviour))
    state, _ = trained(learner, jax.random.split(jax.random.key(0), SEEDS))
    q = np.asarray(state.q).mean(1)
    relaxed = q[:, cat_world.STATES.index("relaxed")]
    assert (relaxed[:, 0] > relaxed[:, 1]).all()
    np.testing.assert_allclose(relaxed[:, 1], 2.0, atol=0.05)
    assert relaxed[:, 0].mean() == pytest.approx(exact.q[3, 0], abs=1.0)
    off = q.max(-1).mean(0)[:5] - exact.values[:5]
    assert np.abs(off).max() < 2


class RoomsParams(NamedTuple):
    ends: bool = False


@final
class TwoRooms(FiniteEnvironment):
    """Both actions earn 1 and lead to the other room; whether that is the end is a parameter."""

    params: RoomsParams = RoomsParams()

    @property
    def states(self) -> int:
        return 2

    @property
    def actions(self) -> int:
        return 2

    def limit(self, params: Any) -> Array:
        del params
        return jnp.asarray(1)

    def start(self, params: Any) -> Array:
        del params
        return jnp.full(2, 0.5)

    def outcomes(self, number: Array, action: Array, params: Any) -> Outcomes:
        del action
        return Outcomes(jnp.ones(1), 1 - number[None], jnp.ones(1), jnp.asarray([params.ends]))


@pytest.mark.parametrize("rule", [QLearning(), DoubleQLearning(), NStepSarsa(3), Sarsa(0.5)])
def test_what_is_cut_off_goes_on_in_value_and_what_ends_does_not(rule) -> None:
    @jax.jit
    def values(ends: Array) -> Array:
        learner = TabularLearner(TwoRooms(RoomsParams(ends)), rule, TabularHyper(0.5, 0.0, 0.9, 0.0))
        return learner.run(learner.start(jax.random.key(0)), 1000)[0].q.max(-1)

    for ends, value in ((False, 10.0), (True, 1.0)):
        np.testing.assert_allclose(np.asarray(values(np.asarray(ends))), value, atol=0.05)


@eqx.filter_jit
def on_the_cliff(learner: TabularLearner, keys: Any) -> Any:
    return jax.vmap(lambda key: learner.run(learner.start(key), 20_000))(keys)


def test_q_learning_finds_the_edge_of_the_cliff_and_sarsa_keeps_away_from_it() -> None:
    env = envs.make("cliff-walking")
    exact = enumerated(env).solve(1.0).values
    hyper = TabularHyper(0.5, 0.0, 1.0, 0.0, EpsilonGreedyBehaviour(0.1, 0.1))
    keys = jax.random.split(jax.random.key(0), 4)
    values, late = {}, {}
    for rule in (QLearning(), Sarsa()):
        state, trace = on_the_cliff(TabularLearner(env, rule, hyper), keys)
        values[type(rule)] = np.asarray(state.q)[:, 0].max(-1)
        over, earned = np.asarray(trace.over)[:, 10_000:], np.asarray(trace.episode_return)[:, 10_000:]
        late[type(rule)] = earned[over].mean()
    # Along the edge, where steps are certain, Q-learning knows the exact values; SARSA counts its falls in.
    edge = slice(25, 33)
    np.testing.assert_allclose(values[QLearning][:, edge], np.tile(exact[edge], (4, 1)), atol=1e-2)
    assert (values[Sarsa][:, edge].mean(0) < exact[edge] - 3).all()
    assert late[Sarsa] > late[QLearning] + 5


def test_a_seed_among_many_is_the_seed_alone_and_pieces_are_the_whole(cat) -> None:
    learner = TabularLearner(cat, QLearning(), chunk=50)
    keys = jax.random.split(jax.random.key(3), 3)
    start, iterate = jax.jit(learner.start), jax.jit(learner.iterate)
    together = jax.jit(jax.vmap(learner.start))(keys)
    many = jax.jit(jax.vmap(learner.iterate))
    one = start(keys[1])
    for _ in range(2):
        together, _ = many(together)
        one, numbers = iterate(one)
    np.testing.assert_array_equal(together.q[1], one.q)
    whole, _ = jax.jit(lambda state: learner.run(state, 100))(start(keys[1]))
    np.testing.assert_array_equal(whole.q, one.q)
    assert float(one.visits.sum()) == 100
    assert set(numbers) == {"return_mean", "episode_length", "td_error", "q_mean", "q_max", "visited"}


def test_rates_may_differ_side_by_side(cat) -> None:
    hypers = TabularHyper(jnp.array([0.0, 0.5]), *TabularHyper()[1:4], EpsilonGreedyBehaviour())
    axes = TabularHyper(0, None, None, None, None)
    learner = TabularLearner(cat)
    run = jax.vmap(lambda hyper: learner.run(learner.start(jax.random.key(0), hyper), 200)[0].q, (axes,))
    still, moved = np.asarray(jax.jit(run)(hypers))
    assert not still.any()
    assert moved.any()


def test_high_hopes_make_every_action_worth_a_try() -> None:
    env = envs.make("frozen-lake", slippery=False)
    greedy = EpsilonGreedyBehaviour(0.0, 0.0)
    seen = {}
    for initial in (0.0, 1.0):
        learner = TabularLearner(env, QLearning(), TabularHyper(0.5, 0.0, 0.9, initial, greedy))
        state, trace = jax.jit(lambda key, one=learner: one.run(one.start(key), 4000))(jax.random.key(0))
        seen[initial] = float(trace.episode_return[-1000:].sum())
    assert seen[1.0] > 100
    values = np.asarray(state.q)[0].max(-1)
    assert values[0] == pytest.approx(0.9**5, abs=1e-3)


def test_a_policy_is_greedy_or_explores(cat) -> None:
    learner = TabularLearner(cat, QLearning(), TabularHyper(behaviour=SoftmaxBehaviour(1.0, 1.0)))
    state = jax.jit(learner.start)(jax.random.key(0))
    state = state._replace(q=jnp.tile(jnp.log(jnp.array([1.0, 3.0])), (1, 6, 1)))
    policy = learner.policy(state)
    act = lambda greedy: jax.jit(  # noqa: E731  # two programs of one line
        jax.vmap(lambda key: policy.act(key, jnp.array(0), (), greedy=greedy).action)
    )(jax.random.split(jax.random.key(1), 2000))
    assert (np.asarray(act(True)) == 1).all()
    assert float(np.mean(np.asarray(act(False)))) == pytest.approx(0.75, abs=0.04)


@pytest.mark.parametrize("trace", [0.0, 0.5])
def test_values_of_a_policy_are_learnt(cat, trace) -> None:
    exact = RewardProcess(cat_world.decisions()[:, 0], cat_world.rewards(), 0.9).values
    policy = jnp.tile(jnp.array([1.0, 0.0]), (6, 1))
    run = jax.jit(jax.vmap(lambda key: td_values(cat, policy, key, 8000, gamma=0.9, trace=trace)))
    found = np.asarray(run(jax.random.split(jax.random.key(0), SEEDS)))
    error = found.std(0, ddof=1) / np.sqrt(SEEDS)
    assert (np.abs(found.mean(0) - exact) < 4 * error + 0.1).all()


def test_what_is_no_table_is_refused_with_what_to_use() -> None:
    with pytest.raises(CapabilityError, match="dqn or ppo"):
        TabularLearner(envs.make("cartpole"))
    with pytest.raises(ArgumentError, match="chunk=0"):
        TabularLearner(envs.make("cat-world"), chunk=0)
