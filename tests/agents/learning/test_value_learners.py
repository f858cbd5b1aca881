"""What all value learners promise: the same bits alone, beside others and after a stop; numbers with known names."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents import algorithms, envs
from chainrule.agents.learning import loop
from chainrule.agents.learning.base import Learner

SHARED = {"return_mean", "episode_length", "loss", "q_mean", "q_max", "td_error", "learning_rate"}
OWN = {
    "dqn": {"epsilon", "buffer_fill", "reward_max"},
    "pqn": {"epsilon"},
    "sac": {"actor_loss", "entropy", "temperature", "buffer_fill"},
}


@pytest.fixture(scope="module", params=OWN)
def trained(request: pytest.FixtureRequest) -> tuple[str, Learner[Any], Any, loop.TrainedRuns]:
    """Two runs of four iterations side by side."""
    entry = algorithms.entry(request.param)
    learner = entry.build(entry.config(**entry.toy), envs.make(entry.toy_env), entry.toy_steps)
    keys = jax.random.split(jax.random.key(3), 2)
    steps = 4 * learner.steps_per_iteration
    return request.param, learner, keys, loop.train(learner, keys, steps, chunk=4)


def plain(leaf: Any) -> np.ndarray:
    """The numbers of an array; random keys have them too."""
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


def same(a: Any, b: Any) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(plain(x), plain(y))


def test_numbers_have_their_names_and_are_finite(trained: tuple) -> None:
    name, learner, _, done = trained
    assert set(done.metrics) == SHARED | OWN[name]
    # No episode may have ended so early.
    always = set(done.metrics) - {"return_mean", "episode_length"}
    assert all(np.isfinite(done.metrics[metric]).all() for metric in always)
    seen = jnp.zeros(learner.env.observation_space.shape)
    act = jax.jit(lambda state: learner.policy(state).act(jax.random.key(0), seen, (), greedy=True))
    assert act(loop.run_of(done.states, 0)).action.shape == learner.env.action_space.shape


def test_a_run_beside_another_is_the_run_alone(trained: tuple) -> None:
    _, learner, keys, done = trained
    alone = loop.train(learner, keys[1:], 4 * learner.steps_per_iteration, chunk=4)
    same(loop.run_of(done.states, 1), loop.run_of(alone.states, 0))
    assert any((done.metrics[name][0] != done.metrics[name][1]).any() for name in done.metrics)


def test_a_run_that_was_stopped_goes_on_as_if_it_was_not(trained: tuple) -> None:
    _, learner, keys, done = trained
    states = loop.start(learner, keys)
    states, _ = loop.run_iterations(learner, states, 1, most=4)
    stored = jax.tree.map(
        lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else np.array(x), states
    )
    states, metrics = loop.run_iterations(learner, jax.tree.map(jnp.asarray, stored), 3, most=4)
    same(done.states, states)
    for name, values in metrics.items():
        np.testing.assert_array_equal(values, done.metrics[name][:, 1:])
