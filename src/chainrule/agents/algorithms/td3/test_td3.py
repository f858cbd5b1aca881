"""Twin delayed policy gradients: losses by hand, delayed steps, values of what is cut off, what does not fit."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.td3 import TD3, TD3Config
from chainrule.agents.algorithms.td3.learner import SureActor, TD3Parts, actor_loss, critic_loss
from chainrule.agents.envs import make
from chainrule.agents.envs.spaces import Box
from chainrule.agents.learning import loop
from chainrule.agents.learning.continuous import ActionCritic, ContinuousBatch
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import OneStep

TINY: dict[str, Any] = {"widths": (8,), "buffer": 64, "batch": 8, "learning_start": 4, "report_every": 1}


def parts(seed: int) -> TD3Parts:
    actor, one, two = jax.random.split(jax.random.key(seed), 3)
    critics = (ActionCritic(3, 2, (5,), key=one), ActionCritic(3, 2, (5,), key=two))
    return TD3Parts(SureActor(3, 2, (5,), key=actor), critics)


def test_losses_are_those_of_the_formulas() -> None:
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    discount = jnp.asarray(0.9 * (rng.random(6) < 0.7), jnp.float32)
    batch = ContinuousBatch(draw(6, 3), jnp.tanh(draw(6, 2)), draw(6), discount, draw(6, 3))
    mine, old, noise = parts(0), parts(1), draw(6, 2)
    total, seen = jax.jit(critic_loss)(mine.critics, old, batch, noise)
    then = jnp.clip(old.actor(batch.following) + noise, -1, 1)
    assert float(jnp.abs(then).max()) == 1  # the noise may lead to a bound, never beyond
    lower = np.minimum(*(np.asarray(critic(batch.following, then)) for critic in old.critics))
    y = np.asarray(batch.reward) + np.asarray(discount) * lower
    values = [np.asarray(critic(batch.observation, batch.action)) for critic in mine.critics]
    np.testing.assert_allclose(total, sum(0.5 * ((y - v) ** 2).mean() for v in values), rtol=1e-5)
    np.testing.assert_allclose(seen["td_error"], np.abs(y - values[0]).mean(), rtol=1e-5)
    through = jax.grad(lambda targets: critic_loss(mine.critics, targets, batch, noise)[0])(old)
    assert all((np.asarray(leaf) == 0).all() for leaf in jax.tree.leaves(through))  # targets are held fixed
    worth = np.asarray(mine.critics[0](batch.observation, mine.actor(batch.observation)))
    np.testing.assert_allclose(
        actor_loss(mine.actor, mine.critics[0], batch.observation), -worth.mean(), rtol=1e-6
    )


def test_policy_and_targets_are_stepped_at_every_second_update_only() -> None:
    learner = TD3(TD3Config(**TINY), make("pendulum"), 100)
    iterate = jax.jit(learner.iterate)
    state = learner.start(jax.random.key(0))
    changed = []
    for _ in range(8):
        after, _ = iterate(state)
        changed.append(
            [
                not np.array_equal(jax.tree.leaves(a)[0], jax.tree.leaves(b)[0])
                for a, b in (
                    (state.parts.critics, after.parts.critics),
                    (state.parts.actor, after.parts.actor),
                    (state.targets, after.targets),
                    (state.optimizer.actor.count, after.optimizer.actor.count),
                )
            ]
        )
        state = after
    assert [row[0] for row in changed] == [False] * 4 + [True] * 4
    for column in (1, 2, 3):
        assert [row[column] for row in changed] == [False] * 5 + [True, False, True]


@pytest.mark.slow
@pytest.mark.parametrize(("truncates", "value"), [(True, 10.0), (False, 1.0)])
def test_what_is_cut_off_is_worth_what_would_have_followed(truncates: bool, value: float) -> None:
    own = {"widths": (16,), "buffer": 400, "batch": 32, "learning_start": 100, "report_every": 500}
    config = TD3Config(**own, gamma=0.9, polyak=0.2, critic_rate=0.01)
    learner = TD3(config, OneStep(truncates, Box(-1, 1, (1,))), 2000)
    done = loop.train(learner, jax.random.key(0), 2000, chunk=4)
    policy = learner.policy(loop.run_of(done.states, 0))
    decision = policy.act(jax.random.key(1), jnp.ones(2), (), greedy=True)
    np.testing.assert_allclose(decision.value, value, rtol=0.03)
    assert decision.action.shape == (1,)


@pytest.mark.slow
def test_a_pendulum_is_swung_up() -> None:
    config = TD3Config(widths=(64, 64), buffer=10_000, batch=64, learning_start=500, critic_rate=3e-3)
    learner = TD3(config, make("pendulum"), 6000)
    done = loop.train(learner, jax.random.key(0), 6000, chunk=12)
    assert done.metrics["return_mean"][0, -1] > -500  # random torques get about -1,200


def test_actions_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"td3 draws .* are Discrete\n.*use dqn, pqn or ppo"):
        TD3(TD3Config(), make("cartpole"), 10_000)
    with pytest.raises(ArgumentError, match="td3 needs actions between finite bounds"):
        TD3(TD3Config(), OneStep(True, Box(-np.inf, np.inf, (1,))), 10_000)
