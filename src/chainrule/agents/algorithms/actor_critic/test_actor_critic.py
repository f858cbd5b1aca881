"""One-step actor-critic: its gradient by hand, and the corridor."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.actor_critic import ENTRY
from chainrule.agents.learning import loop
from chainrule.agents.learning.actor_critic import actor_critic_loss
from chainrule.agents.learning.on_policy import judged
from chainrule.agents.learning.rollouts import gather
from tests.agents.worlds import Corridor

SMALL = ENTRY.config(
    environments=8,
    updates=16,
    widths=(8,),
    gamma=0.9,
    learning_rate=0.01,
    entropy=0,
    value_weight=1,
    anneal=False,
)


def test_the_gradient_is_delta_times_the_slopes_of_log_pi_and_of_the_value() -> None:
    learner = ENTRY.build(SMALL, Corridor(), 128)

    @eqx.filter_jit
    def both(key: jax.Array) -> tuple[jax.Array, ...]:
        state = learner.start(key)
        network, actions = state.network, learner.actions
        _, rollout = gather(learner.env, network, actions, state.worlds, 1, key)
        batch = judged(network, actions, rollout, 0.9, 0.0)
        slope = jax.grad(lambda n: actor_critic_loss(n, actions, batch, state.hyper)[0])(network)

        def value(network: object, seen: jax.Array) -> jax.Array:
            return network.critic(seen[None])[0, 0]  # type: ignore[attr-defined]

        seen, after = rollout.observations[0], rollout.final_observations[0]
        v, w = jax.vmap(lambda s: value(network, s))(seen), jax.vmap(lambda s: value(network, s))(after)
        delta = rollout.rewards[0] + 0.9 * jnp.where(rollout.terminated[0], 0, w) - v
        by_value = jax.vmap(lambda s: jax.grad(value)(network, s).critic.layers[0].weight)(seen)
        by_policy = jax.vmap(
            lambda s, a: (
                jax.grad(lambda n: actions.log_prob(n.actor(s[None])[0], a))(network).actor.layers[0].weight
            )
        )(seen, rollout.drawn[0])
        mean = [-(delta[:, None, None] * by).mean(axis=0) for by in (by_policy, by_value)]
        return slope.actor.layers[0].weight, slope.critic.layers[0].weight, *mean

    actor, critic, by_policy, by_value = both(jax.random.key(2))
    np.testing.assert_allclose(actor, by_policy, atol=1e-6)
    np.testing.assert_allclose(critic, by_value, atol=1e-6)
    assert np.abs(critic).max() > 0


def test_the_way_out_of_a_corridor_is_learnt() -> None:
    learner = ENTRY.build(SMALL, Corridor(), 128)
    _, metrics = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 60)
    assert metrics["return_mean"][0, -5:].mean() == pytest.approx(0.8, abs=0.06)
