"""Deep Q-learning: the gradient by hand, values of known worlds, ends that are none, settings that do not fit."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.dqn import DQN, DQNConfig
from chainrule.agents.algorithms.dqn.learner import ReplayBatch, q_loss
from chainrule.agents.envs import make
from chainrule.agents.envs.spaces import MultiDiscrete
from chainrule.agents.learning import loop
from chainrule.agents.learning.returns import ExpectedReturns
from chainrule.agents.learning.value_networks import DenseBody, ValueNetwork
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import Corridor, OneStep

SMALL: dict[str, Any] = {
    "widths": (16,),
    "buffer": 400,
    "batch": 32,
    "learning_start": 100,
    "update_every": 2,
    "target_every": 20,
    "learning_rate": 0.01,
    "gamma": 0.9,
    "exploration": 1.0,
    "epsilon_end": 0.5,
}


def network(seed: int) -> ValueNetwork:
    one, two = jax.random.split(jax.random.key(seed))
    return ValueNetwork(DenseBody(3, (5,), key=one), 4, ExpectedReturns(), key=two)


@pytest.fixture(scope="module")
def batch() -> ReplayBatch:
    noise = np.random.default_rng(0)
    draws = [noise.normal(size=size).astype(np.float32) for size in ((6, 3), 6, (6, 3), 6)]
    terminated = np.array([0, 1, 0, 0, 1, 0])
    return ReplayBatch(
        observation=jnp.asarray(draws[0]),
        action=jnp.asarray(noise.integers(0, 4, 6), jnp.int32),
        reward=jnp.asarray(draws[1]),
        discount=jnp.asarray(0.9 * (1 - terminated), jnp.float32),
        following=jnp.asarray(draws[2]),
        legal=None,
        weight=jnp.abs(jnp.asarray(draws[3])),
    )


@pytest.mark.parametrize("double", [True, False])
def test_the_gradient_is_minus_the_mean_of_error_times_gradient_of_q(
    batch: ReplayBatch, double: bool
) -> None:
    online, old = network(0), network(1)
    # With the network itself as its target, a gradient through the target would show.
    for target in (old, online):
        (_, (errors, _)), got = eqx.filter_jit(jax.value_and_grad(q_loss, has_aux=True))(
            online, target, batch, double
        )
        values = jax.jit(lambda n: jnp.take_along_axis(n.values(batch.observation), batch.action[:, None], 1))
        slopes = jax.jit(jax.jacobian(values))(online)
        now, then = (np.asarray(n.values(batch.following)) for n in (online, target))
        best = (now if double else then).argmax(1)
        y = np.asarray(batch.reward) + np.asarray(batch.discount) * then[np.arange(6), best]
        error = y - np.asarray(values(online))[:, 0]
        np.testing.assert_allclose(errors, error, rtol=1e-4, atol=1e-6)
        scaled = np.asarray(batch.weight) * error / 6
        for mine, slope in zip(jax.tree.leaves(got), jax.tree.leaves(slopes), strict=True):
            wanted = -np.tensordot(scaled, np.asarray(slope)[:, 0], axes=1)
            np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-6)


def test_targets_never_take_an_action_that_is_not_legal(batch: ReplayBatch) -> None:
    online = network(0)
    worst = online.values(batch.following).argmin(1)
    legal = jax.nn.one_hot(worst, 4).astype(bool)
    _, (errors, values) = eqx.filter_jit(q_loss)(online, online, batch._replace(legal=legal), True)
    lowest = np.asarray(online.values(batch.following)).min(1)
    taken = np.take_along_axis(np.asarray(values), np.asarray(batch.action)[:, None], 1)[:, 0]
    wanted = np.asarray(batch.reward) + np.asarray(batch.discount) * lowest - taken
    np.testing.assert_allclose(errors, wanted, rtol=1e-4, atol=1e-6)


def trained(env: Any, steps: int, **settings: Any) -> tuple[DQN, loop.TrainedRuns]:
    learner = DQN(DQNConfig(**{**SMALL, **settings}), env, steps)
    whole = loop.whole_iterations(learner, steps)
    return learner, loop.train(learner, jax.random.key(0), steps, chunk=whole)


@pytest.mark.parametrize(("truncates", "value"), [(True, 10.0), (False, 1.0)])
def test_what_is_cut_off_is_worth_what_would_have_followed(truncates: bool, value: float) -> None:
    learner, done = trained(OneStep(truncates), 3000, polyak=0.1)
    policy = learner.policy(loop.run_of(done.states, 0))
    np.testing.assert_allclose(policy.network.values(jnp.ones((1, 2))), value, rtol=0.02)
    assert done.metrics["episode_length"][0, -1] == 1


VARIANTS: dict[str, dict[str, Any]] = {
    "double": {},
    "prioritised": {"replay": "prioritised", "dueling": True, "environments": 2, "polyak": 0.05},
    "several": {"n_step": 3, "epsilon_end": 0.02, "loss": "huber"},
    "categorical": {"returns": "categorical", "lowest": -1.0, "highest": 1.5},
    "quantile": {"returns": "quantile", "atoms": 11},
}
QUICK = ("double", "prioritised")


@pytest.mark.parametrize(
    "variant", [v if v in QUICK else pytest.param(v, marks=pytest.mark.slow) for v in VARIANTS]
)
def test_values_of_a_corridor_are_learnt(variant: str) -> None:
    learner, done = trained(Corridor(), 6000, **VARIANTS[variant])
    policy = learner.policy(loop.run_of(done.states, 0))
    values = np.asarray(policy.network.values(jnp.eye(3)))
    assert (values.argmax(1) == 1).all()
    # Returns over several steps are those of what the agent did, not of the best: only the best action's are exact.
    wanted = np.array(Corridor.values(0.9))
    columns = [1] if variant == "several" else [0, 1]
    np.testing.assert_allclose(values[:, columns], wanted[:, columns], atol=0.1)
    assert done.metrics["buffer_fill"][0, -1] == 1
    assert 0.8 < done.metrics["q_max"][0, -1] < 1.1


@pytest.mark.parametrize("replay", ["uniform", "prioritised"])
def test_nothing_is_learnt_before_there_are_as_many_steps_as_a_target_sums(replay: str) -> None:
    settings = {"n_step": 23, "learning_start": 0, "replay": replay, "target_every": 2}
    learner = DQN(DQNConfig(**{**SMALL, **settings}), Corridor(), 1000)
    state = learner.start(jax.random.key(0))
    before = np.asarray(jax.tree.leaves(state.network)[0])
    for steps in range(2, 27, 2):
        state, _ = eqx.filter_jit(learner.iterate)(state)
        after = np.asarray(jax.tree.leaves(state.network)[0])
        assert np.isfinite(after).all()
        assert np.array_equal(after, before) == (steps < 23)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch": 500}, "batch=500: the buffer holds 400 steps"),
        ({"learning_start": 5000}, "steps=1000: nothing is learnt before step 5000"),
        (
            {"update_every": 3, "buffer": 402},
            "target_every=20: must be a multiple of update_every=3\n.*use 18 or 21",
        ),
        ({"buffer": 401}, "buffer=401: must be a multiple of update_every=2"),
        ({"environments": 4}, "update_every=2: must be a multiple of environments=4\n.*use 4"),
        ({"n_step": 401}, "n_step=401: so many steps .* exceed the buffer"),
        ({"returns": "categorical", "lowest": 2.0, "highest": 1.0}, "the largest return must lie above"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        DQN(DQNConfig(**{**SMALL, **settings}), Corridor(), 1000)


def test_actions_that_cannot_be_counted_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"are continuous, of shape \(1,\)\n.*use sac or ppo"):
        DQN(DQNConfig(), make("pendulum"), 500_000)
    with pytest.raises(ArgumentError, match=r"are MultiDiscrete\n.*use ppo"):
        DQN(DQNConfig(), OneStep(True, MultiDiscrete((2, 3))), 500_000)
