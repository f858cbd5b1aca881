"""REINFORCE and actor-critic gradients against the exact one, variances by hand, masks, baselines."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.algorithms.reinforce import Reinforce, ReinforceConfig
from chainrule.agents.algorithms.reinforce.learner import Episodes, first_episodes
from chainrule.agents.envs.base import Environment, TimeStep
from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.agents.learning import loop
from chainrule.agents.learning.networks import SeparateNetworks
from chainrule.agents.learning.on_policy import judged
from chainrule.agents.learning.policies import CategoricalActions
from chainrule.agents.learning.rollouts import Rollout, begin_worlds, gather
from chainrule.agents.mdp.gradient import policy_gradient
from chainrule.core.errors import ArgumentError
from tests.agents.worlds import Corridor

STATES, ACTIONS, GAMMA, HORIZON, WORLDS = 5, 2, 0.8, 60, 3000


@final
class Process(Environment[Any]):
    """A decision process by its arrays, seen as a vector with a one where the state is; it never ends."""

    params: tuple[Any, ...] = ()
    """Transitions, rewards and the distribution of starts."""

    @property
    def observation_space(self) -> Box:
        return Box(0, 1, (STATES,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(ACTIONS)

    def begin(self, key: Any, params: Any) -> Any:
        state = jax.random.categorical(key, jnp.log(params[2]))
        return state, jax.nn.one_hot(state, STATES)

    def advance(self, key: Any, state: Any, action: Any, params: Any) -> TimeStep:
        after = jax.random.categorical(key, jnp.log(params[0][state, action]))
        never = jnp.zeros((), bool)
        return TimeStep(after, jax.nn.one_hot(after, STATES), params[1][state, action], never, never, {})


@pytest.fixture(scope="module")
def process() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(STATES), (STATES, ACTIONS))
    r = rng.normal(size=(STATES, ACTIONS))
    start = rng.dirichlet(np.ones(STATES))
    logits = rng.normal(size=(STATES, ACTIONS))
    policy = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    moves = np.einsum("sa,sat->st", policy, P)
    values = np.linalg.solve(np.eye(STATES) - GAMMA * moves, (policy * r).sum(1))
    exact = policy_gradient(logits, P, r, GAMMA, start)[1]
    network = eqx.tree_at(
        lambda n: (n.actor.layers[0].weight, n.critic.layers[0].weight),
        SeparateNetworks(STATES, ACTIONS, 0, (), "tanh", key=jax.random.key(0)),
        (jnp.float32(logits), jnp.float32(values)[:, None]),
    )
    env = Process((jnp.float32(P), jnp.float32(r), jnp.float32(start)))

    @jax.jit
    def rolled(key: Any) -> Any:
        worlds = begin_worlds(env, network, WORLDS, key)
        return gather(env, network, CategoricalActions(ACTIONS), worlds, HORIZON, key)[1]

    return {"env": env, "network": network, "exact": exact, "rollout": rolled(jax.random.key(1))}


def assert_within_errors(samples: Any, exact: np.ndarray) -> None:
    flat = np.asarray(samples, np.float64).reshape(len(samples), -1)
    errors = flat.std(axis=0) / np.sqrt(len(flat))
    assert (np.abs(flat.mean(axis=0) - exact.ravel()) <= 3 * errors + 1e-5).all()
    assert (3 * errors).max() < np.abs(exact).max(), "too few episodes to tell anything"


@pytest.mark.parametrize("baseline", ["none", "learned", "leave-one-out"])
def test_the_mean_gradient_is_the_exact_one(process: dict[str, Any], baseline: Any) -> None:
    config = ReinforceConfig(episodes=WORLDS, horizon=HORIZON, baseline=baseline, gamma=GAMMA)
    learner = Reinforce(config, process["env"], 1)

    @jax.jit
    def gradients(rollout: Rollout) -> Any:
        values = process["network"].critic(rollout.observations)[..., 0]
        episodes = first_episodes(rollout, jnp.zeros_like(values), GAMMA)
        weights = learner.weights(episodes, values, jnp.zeros(()), GAMMA)
        return -learner.gradients(process["network"], episodes, weights)[0].actor.layers[0].weight

    assert_within_errors(gradients(process["rollout"]), process["exact"])


def test_a_lone_episode_has_no_others_to_compare_with(process: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="episodes=1 leaves none"):
        Reinforce(ReinforceConfig(episodes=1, baseline="leave-one-out"), process["env"], 1)


def test_temporal_differences_give_the_exact_gradient_too(process: dict[str, Any]) -> None:
    network, actions = process["network"], CategoricalActions(ACTIONS)

    @jax.jit
    def gradients(rollout: Rollout) -> Any:
        batch = judged(network, actions, rollout, GAMMA, 0.0)
        discounts = GAMMA ** jnp.arange(HORIZON, dtype=jnp.float32)

        def climbed(weight: Any, world: Any) -> Any:
            seen, drawn, differences = world
            return (discounts * differences * actions.log_prob(seen @ weight, drawn)).sum()

        worlds = (batch.observations, batch.drawn, batch.advantages)
        return jax.vmap(jax.grad(climbed), (None, 1))(network.actor.layers[0].weight, worlds)

    assert_within_errors(gradients(process["rollout"]), process["exact"])


def test_a_baseline_takes_all_variance_from_two_arms() -> None:
    network = SeparateNetworks(1, 2, 0, (), "tanh", key=jax.random.key(0))
    network = eqx.tree_at(lambda n: n.actor.layers[0].weight, network, jnp.zeros((1, 2)))
    drawn = jnp.arange(400)[None] % 2
    shape = (1, 400)
    ends = jnp.ones(shape, bool)
    seen, rewards = jnp.ones((*shape, 1)), 1.0 - drawn
    rollout = Rollout(seen, ends, drawn, None, rewards, ends, ~ends, seen, (), rewards, drawn)
    learner = Reinforce(ReinforceConfig(baseline="constant"), Corridor(), 1)

    @jax.jit
    def gradients(constant: Any) -> Any:
        episodes: Episodes = first_episodes(rollout, jnp.zeros(shape), 0.9)
        weights = learner.weights(episodes, jnp.zeros(shape), constant, 0.9)
        return -learner.gradients(network, episodes, weights)[0].actor.layers[0].bias

    plain, judged_by_half = np.asarray(gradients(jnp.float32(0))), np.asarray(gradients(jnp.float32(0.5)))
    for found, variance in ((plain, 0.0625), (judged_by_half, 0)):
        np.testing.assert_allclose(found.mean(axis=0), [0.25, -0.25], atol=1e-6)
        np.testing.assert_allclose(found.var(axis=0), variance, atol=1e-7)


@pytest.mark.parametrize("drop", [False, True])
def test_steps_after_the_end_count_for_nothing_and_late_ones_less(drop: bool) -> None:
    over = jnp.array([[False, False], [True, False], [False, False]])
    rewards = jnp.ones((3, 2))
    zeros = jnp.zeros((3, 2))
    seen, never = jnp.ones((3, 2, 3)), jnp.zeros_like(over)
    rollout = Rollout(seen, over, over, None, rewards, over, never, seen, (), rewards, over)
    episodes = first_episodes(rollout, jnp.full((3, 2), 8.0), 0.5)
    assert episodes.alive.T.tolist() == [[True, True, False], [True, True, True]]
    # The second world is cut off by the horizon, and its rest valued: 1 + 0.5 * 8.
    np.testing.assert_allclose(episodes.returns.T[:, :2], [[1.5, 1.0], [2.75, 3.5]])
    learner = Reinforce(ReinforceConfig(baseline="none", drop_discount=drop), Corridor(), 1)
    factor = 1.0 if drop else 0.5
    found = learner.weights(episodes, zeros, jnp.zeros(()), 0.5)
    np.testing.assert_allclose(found.T, [[1.5, factor, 0], [2.75, 3.5 * factor, 5 * factor**2]])


def test_the_way_out_of_a_corridor_is_learnt() -> None:
    config = ReinforceConfig(
        episodes=16, horizon=10, widths=(16,), gamma=0.9, learning_rate=0.03, baseline="leave-one-out"
    )
    learner = Reinforce(config, Corridor(), 160 * 60)
    _, metrics = loop.run_iterations(learner, loop.start(learner, jax.random.key(0)), 60)
    assert metrics["return_mean"][0, -5:].mean() == pytest.approx(0.8, abs=0.06)
    assert np.isfinite(metrics["gradient_variance"]).all()
