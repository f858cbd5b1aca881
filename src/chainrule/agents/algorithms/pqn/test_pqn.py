"""Parallel Q-learning: its returns step by step, values of known worlds, settings that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.pqn import PQN, PQNConfig
from chainrule.agents.algorithms.pqn.learner import lambda_returns
from chainrule.agents.envs import make
from chainrule.agents.learning import loop
from chainrule.agents.learning.gathering import GatheredSteps
from chainrule.agents.learning.returns import ExpectedReturns
from chainrule.agents.learning.value_networks import DenseBody, ValueNetwork
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import Corridor, OneStep

TIME, WORLDS = 7, 3


@pytest.mark.parametrize("masked", [False, True])
def test_returns_follow_their_recursion_and_stop_at_ends(masked: bool) -> None:
    noise = np.random.default_rng(0)
    terminated = noise.random((TIME, WORLDS)) < 0.2
    truncated = (noise.random((TIME, WORLDS)) < 0.2) & ~terminated
    legal = noise.random((TIME, WORLDS, 4)) < 0.5
    legal[..., 0] = True
    rewards = noise.normal(size=(TIME, WORLDS)).astype(np.float32)
    seen = noise.normal(size=(2, TIME, WORLDS, 3)).astype(np.float32)
    one, two = jax.random.split(jax.random.key(0))
    network = ValueNetwork(DenseBody(3, (5,), normalised=True, key=one), 4, ExpectedReturns(), key=two)
    steps = GatheredSteps(
        observation=jnp.asarray(seen[0]),
        action=jnp.zeros((TIME, WORLDS), jnp.int32),
        reward=jnp.asarray(rewards),
        terminated=jnp.asarray(terminated),
        truncated=jnp.asarray(truncated),
        following=jnp.asarray(seen[1]),
        legal=jnp.asarray(legal) if masked else None,
    )
    got = jax.jit(lambda_returns)(network, steps, 0.9, 0.8)

    values = np.asarray(network.values(jnp.asarray(seen[1].reshape(-1, 3)))).reshape(TIME, WORLDS, 4)
    best = (np.where(legal, values, -np.inf) if masked else values).max(-1).astype(np.float64)
    wanted = np.zeros((TIME, WORLDS))
    for w in range(WORLDS):
        for t in reversed(range(TIME)):
            then = best[t, w]
            if t + 1 < TIME and not truncated[t, w]:
                then = 0.2 * then + 0.8 * wanted[t + 1, w]
            wanted[t, w] = rewards[t, w] + (0 if terminated[t, w] else 0.9 * then)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def values(env: Corridor | OneStep, seen: jax.Array) -> np.ndarray:
    config = PQNConfig(
        widths=(16,),
        environments=8,
        length=16,
        minibatches=4,
        learning_rate=0.01,
        gamma=0.9,
        decay=0.5,
        epsilon_end=0.3,
    )
    learner = PQN(config, env, 10_000)
    done = loop.train(learner, jax.random.key(0), 10_000, chunk=loop.whole_iterations(learner, 10_000))
    return np.asarray(learner.policy(loop.run_of(done.states, 0)).network.values(seen))


@pytest.mark.parametrize(("truncates", "value"), [(True, 10.0), (False, 1.0)])
def test_what_is_cut_off_is_worth_what_would_have_followed(truncates: bool, value: float) -> None:
    np.testing.assert_allclose(values(OneStep(truncates), jnp.ones((1, 2))), value, rtol=0.02)


def test_the_best_values_of_a_corridor_are_learnt() -> None:
    got = values(Corridor(), jnp.eye(3))
    assert (got.argmax(1) == 1).all()
    # Returns are those of what was done, with a share of random actions: a little below the best.
    np.testing.assert_allclose(got[:, 1], np.array(Corridor.values(0.9))[:, 1], atol=0.15)


def test_settings_and_environments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"32 x 64 = 2048 steps cannot .*\n.*nearest that fit: 8 and 16"):
        PQN(PQNConfig(minibatches=12), make("cartpole"), 10_000)
    with pytest.raises(ArgumentError, match="use sac or ppo"):
        PQN(PQNConfig(), make("pendulum"), 10_000)
