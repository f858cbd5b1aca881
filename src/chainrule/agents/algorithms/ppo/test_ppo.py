"""Proximal policy optimisation: the clipped objective, its first gradient, ends that are none, spaces and memories."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.ppo import PPO, PPOConfig
from chainrule.agents.algorithms.ppo.learner import clipped_objective
from chainrule.agents.envs.base import Environment, HasLegalActions, TimeStep
from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete
from chainrule.agents.learning import loop
from chainrule.agents.learning.on_policy import judged
from chainrule.agents.learning.rollouts import gather
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import Corridor, OneStep

SMALL: dict[str, Any] = {
    "environments": 4,
    "length": 16,
    "epochs": 4,
    "minibatches": 2,
    "widths": (16,),
    "gamma": 0.9,
    "learning_rate": 0.01,
    "anneal": False,
}


@pytest.mark.parametrize(
    ("ratio", "advantage", "value", "slope"),
    [(1.5, 1.0, 1.2, 0.0), (1.5, -1.0, -1.5, -1.0), (0.5, 1.0, 0.5, 1.0), (0.5, -1.0, -0.8, 0.0)],
)
def test_clipping_takes_the_gradient_only_where_it_would_push_further_out(
    ratio: float, advantage: float, value: float, slope: float
) -> None:
    found = jax.value_and_grad(clipped_objective)(jnp.float32(ratio), jnp.float32(advantage), 0.2)
    np.testing.assert_allclose(found, (value, slope), rtol=1e-6)


def test_the_first_gradient_is_the_plain_policy_gradient() -> None:
    learner = PPO(PPOConfig(**SMALL, normalise=False, entropy=0, value_weight=0), Corridor(), 64)

    @eqx.filter_jit
    def both(key: Any) -> Any:
        state = learner.start(key)
        _, rollout = gather(learner.env, state.network, learner.actions, state.worlds, 16, key)
        batch = judged(state.network, learner.actions, rollout, 0.9, 0.95)

        def plain(network: Any) -> Any:
            numbers = network.actor(batch.observations)
            return -(batch.advantages * learner.actions.log_prob(numbers, batch.drawn)).mean()

        own = jax.grad(lambda n: learner.loss(n, batch, (), state.hyper)[0])(state.network)
        return own.actor, jax.grad(plain)(state.network).actor

    own, plain = both(jax.random.key(0))
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
        assert np.abs(a).max() > 0


def test_an_episode_cut_off_is_worth_its_future_and_one_that_ended_is_not() -> None:
    values = {}
    for truncates in (True, False):
        learner = PPO(PPOConfig(**SMALL), OneStep(truncates), 64)
        states, _ = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 120)
        values[truncates] = float(loop.run_of(states, 0).network.critic(jnp.ones((1, 2)))[0, 0])
    assert values[True] == pytest.approx(10, abs=0.5)
    assert values[False] == pytest.approx(1, abs=0.1)


def test_the_way_out_of_a_corridor_is_learnt() -> None:
    learner = PPO(PPOConfig(**SMALL), Corridor(), 64)
    states, metrics = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 40)
    # Two steps on the way on average, the last of which pays.
    assert metrics["return_mean"][0, -5:].mean() == pytest.approx(0.8, abs=0.06)
    policy = learner.policy(loop.run_of(states, 0))
    act = eqx.filter_jit(lambda seen: policy.act(jax.random.key(0), seen, (), greedy=True))
    assert [int(act(seen).action) for seen in jnp.eye(3)] == [1, 1, 1]


class _Guarded(Environment[Any], HasLegalActions):
    """Both actions pay 1, but only the second is ever legal."""

    params: tuple[()] = ()

    @property
    def observation_space(self) -> Box:
        return Box(-1, 1, (2,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    def begin(self, key: Any, params: Any) -> Any:
        del key, params
        return jnp.zeros(()), jnp.ones(2)

    def advance(self, key: Any, state: Any, action: Any, params: Any) -> TimeStep:
        del key, params
        end = jnp.ones((), bool)
        return TimeStep(state, jnp.ones(2), action.astype(jnp.float32), end, ~end, {})

    def legal(self, state: Any) -> Any:
        del state
        return jnp.array([False, True])


TOY: dict[str, Any] = SMALL | {"length": 4, "epochs": 1}
END = True


@pytest.mark.parametrize(
    ("env", "options"),
    [
        (OneStep(END, Box(-1, 1, (2,))), {}),
        (OneStep(END, MultiDiscrete((2, 3))), {"target_kl": 1e-6, "value_clip": True, "epochs": 2}),
        (OneStep(END), {"memory": "gru", "hidden": 4}),
        (_Guarded(), {}),
    ],
    ids=["bounded", "several", "memory", "legal"],
)
def test_every_kind_of_action_and_memory_trains(env: Any, options: dict[str, Any]) -> None:
    learner = PPO(PPOConfig(**TOY | options), env, 64)
    states, metrics = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 2)
    assert metrics["return_mean"].tolist() == [[1, 1]]
    assert all(np.isfinite(metrics[name]).all() for name in ("policy_loss", "value_loss", "entropy", "kl"))
    policy = learner.policy(loop.run_of(states, 0))
    decision = eqx.filter_jit(policy.act)(jax.random.key(1), jnp.ones(2), policy.start(), greedy=False)
    assert bool(learner.env.action_space.contains(decision.action))


def test_passes_stop_where_the_policy_has_moved_far_enough() -> None:
    still = PPO(PPOConfig(**SMALL | {"epochs": 1, "target_kl": 1e-9}), Corridor(), 64)
    going = PPO(PPOConfig(**SMALL | {"epochs": 4, "target_kl": 1e-9}), Corridor(), 64)
    found = [
        loop.run_iterations(one, loop.start(one, jax.random.key(0)), 1)[0].optimizer.count.tolist()
        for one in (still, going)
    ]
    assert found == [[2], [2]]


def test_settings_left_open_depend_on_the_actions() -> None:
    def found(env: Any, **options: Any) -> list[Any]:
        config = PPO(PPOConfig(**options), env, 64).config
        names = ("environments", "length", "epochs", "minibatches", "learning_rate", "entropy")
        return [getattr(config, name) for name in names]

    assert found(Corridor()) == [4, 128, 4, 4, 2.5e-4, 0.01]
    assert found(OneStep(END, Box(-1, 1, (2,)))) == [1, 2048, 10, 32, 3e-4, 0]
    assert found(Corridor(), memory="gru", environments=6)[3] == 2
    assert found(Corridor(), epochs=7)[2] == 7


def test_minibatches_that_do_not_divide_a_rollout_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"4 x 128 = 512 steps cannot be cut into 5") as refused:
        PPO(PPOConfig(minibatches=5), Corridor(), 64)
    assert "4 and 8" in refused.value.remedy
    with pytest.raises(ArgumentError, match="4 worlds, each a sequence"):
        PPO(PPOConfig(minibatches=3, memory="gru"), Corridor(), 64)
