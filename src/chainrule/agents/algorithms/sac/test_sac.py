"""Soft actor-critic: each loss by hand, values of what is cut off, actions and settings that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.sac import SAC, SACConfig
from chainrule.agents.algorithms.sac.learner import Parts, soft_losses
from chainrule.agents.algorithms.sac.networks import Actor
from chainrule.agents.envs import make
from chainrule.agents.envs.spaces import Box
from chainrule.agents.learning import loop
from chainrule.agents.learning.continuous import ActionCritic, ContinuousBatch
from chainrule.agents.learning.policies import GaussianActions
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import OneStep

ACTIONS = GaussianActions(np.full(2, -3.0), np.full(2, 3.0))
BATCH = 6


def critics(seed: int) -> tuple[ActionCritic, ActionCritic]:
    one, two = jax.random.split(jax.random.key(seed))
    return ActionCritic(3, 2, (5,), key=one), ActionCritic(3, 2, (5,), key=two)


@pytest.fixture(scope="module")
def problem() -> tuple[Parts, tuple[ActionCritic, ActionCritic], ContinuousBatch, jax.Array]:
    noise = np.random.default_rng(0)
    seen = noise.normal(size=(2, BATCH, 3)).astype(np.float32)
    batch = ContinuousBatch(
        jnp.asarray(seen[0]),
        jnp.asarray(noise.uniform(-1, 1, (BATCH, 2)), jnp.float32),
        jnp.asarray(noise.normal(size=BATCH), jnp.float32),
        jnp.asarray(0.9 * (noise.random(BATCH) < 0.7), jnp.float32),
        jnp.asarray(seen[1]),
    )
    parts = Parts(Actor(3, 2, (5,), key=jax.random.key(9)), critics(0), jnp.log(jnp.float32(0.3)))
    return parts, critics(1), batch, jnp.asarray(noise.normal(size=(2, BATCH, 2)), jnp.float32)


def log_density(numbers: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Of the action 3 tanh(u), u normal, in double precision."""
    mean, log_scale = np.split(numbers.astype(np.float64), 2, axis=1)
    normal = -0.5 * ((drawn - mean) / np.exp(log_scale)) ** 2 - log_scale - 0.5 * np.log(2 * np.pi)
    return (normal - np.log(3 * (1 - np.tanh(drawn) ** 2))).sum(1)


def draw(numbers: np.ndarray, noise: jax.Array) -> np.ndarray:
    mean, log_scale = np.split(np.asarray(numbers, np.float64), 2, axis=1)
    return mean + np.exp(log_scale) * np.asarray(noise)


def test_losses_are_those_of_the_formulas(problem: tuple) -> None:
    parts, targets, batch, noise = problem
    total, seen = jax.jit(lambda p: soft_losses(p, targets, batch, noise, ACTIONS, -2.0))(parts)
    numbers = np.asarray(parts.actor(batch.following))
    drawn = draw(numbers, noise[0])
    squashed = jnp.asarray(np.tanh(drawn), jnp.float32)
    then = np.minimum(*(np.asarray(c(batch.following, squashed)) for c in targets))
    y = np.asarray(batch.reward) + np.asarray(batch.discount) * (then - 0.3 * log_density(numbers, drawn))
    values = [np.asarray(c(batch.observation, batch.action)) for c in parts.critics]
    critic_loss = sum(0.5 * ((y - v) ** 2).mean() for v in values)
    numbers = np.asarray(parts.actor(batch.observation))
    drawn = draw(numbers, noise[1])
    squashed = jnp.asarray(np.tanh(drawn), jnp.float32)
    worth = np.minimum(*(np.asarray(c(batch.observation, squashed)) for c in parts.critics))
    log_prob = log_density(numbers, drawn)
    actor_loss = (0.3 * log_prob - worth).mean()
    np.testing.assert_allclose(seen["loss"], critic_loss, rtol=1e-4)
    np.testing.assert_allclose(seen["actor_loss"], actor_loss, rtol=1e-4)
    np.testing.assert_allclose(seen["entropy"], -log_prob.mean(), rtol=1e-4)
    price = np.log(0.3) * (-log_prob + 2.0).mean()
    np.testing.assert_allclose(total, critic_loss + actor_loss + price, rtol=1e-3)


def test_each_loss_moves_its_own_part_only(problem: tuple) -> None:
    parts, targets, batch, noise = problem

    def alone(name: str) -> Parts:
        """The gradient of one loss as reported, through everything it holds fixed too."""
        return jax.jit(jax.grad(lambda p: soft_losses(p, targets, batch, noise, ACTIONS, -2.0)[1][name]))(
            parts
        )

    whole = jax.jit(jax.grad(lambda p: soft_losses(p, targets, batch, noise, ACTIONS, -2.0)[0]))(parts)
    for mine, wanted in ((whole.critics, alone("loss").critics), (whole.actor, alone("actor_loss").actor)):
        assert max(np.abs(leaf).max() for leaf in jax.tree.leaves(mine)) > 1e-3
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), mine, wanted)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(alone("loss").actor))
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(alone("actor_loss").critics))
    # The price of entropy falls by how far the entropy lies above what is wanted.
    seen = soft_losses(parts, targets, batch, noise, ACTIONS, -2.0)[1]
    np.testing.assert_allclose(whole.log_temperature, seen["entropy"] + 2.0, rtol=1e-5)


@pytest.mark.parametrize(("truncates", "value"), [(True, 10.0), (False, 1.0)])
def test_what_is_cut_off_is_worth_what_would_have_followed(truncates: bool, value: float) -> None:
    config = SACConfig(
        widths=(16,),
        buffer=400,
        batch=32,
        learning_start=100,
        report_every=500,
        gamma=0.9,
        polyak=0.1,
        critic_rate=0.01,
        temperature=1e-6,  # entropy is worth nothing here, so that values are those of rewards
        entropy=-1000.0,
    )
    learner = SAC(config, OneStep(truncates, Box(-1, 1, (1,))), 2000)
    done = loop.train(learner, jax.random.key(0), 2000, chunk=4)
    policy = learner.policy(loop.run_of(done.states, 0))
    decision = policy.act(jax.random.key(1), jnp.ones(2), (), greedy=True)
    np.testing.assert_allclose(decision.value, value, rtol=0.03)
    assert decision.action.shape == (1,)


@pytest.mark.slow
def test_a_pendulum_is_swung_up() -> None:
    config = SACConfig(widths=(64, 64), buffer=10_000, batch=64, learning_start=500, critic_rate=3e-3)
    learner = SAC(config, make("pendulum"), 6000)
    done = loop.train(learner, jax.random.key(0), 6000, chunk=12)
    assert done.metrics["return_mean"][0, -1] > -500  # random torques get about -1,200


def test_actions_and_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"are Discrete\n.*use dqn, pqn or ppo"):
        SAC(SACConfig(), make("cartpole"), 10_000)
    with pytest.raises(ArgumentError, match="between finite bounds"):
        SAC(SACConfig(), OneStep(True, Box(-np.inf, np.inf, (1,))), 10_000)
    with pytest.raises(ArgumentError, match="steps=1000: nothing is learnt before step 2560"):
        SAC(SACConfig(), make("pendulum"), 1000)
    with pytest.raises(ArgumentError, match="batch=256: the buffer holds 100 steps"):
        SAC(SACConfig(buffer=100), make("pendulum"), 10_000)
    with pytest.raises(ArgumentError, match="report_every=500: must be a multiple of update_every=3"):
        SAC(SACConfig(update_every=3, buffer=99_999), make("pendulum"), 10_000)
