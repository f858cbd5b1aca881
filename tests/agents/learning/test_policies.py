"""Distributions over actions against SciPy, sampling and quadrature; policies as the rest of the project calls them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from chainrule.agents.envs.spaces import Box, Discrete, MultiDiscrete
from chainrule.agents.learning.networks import RecurrentNetwork, SeparateNetworks
from chainrule.agents.learning.policies import (
    CategoricalActions,
    GaussianActions,
    NetworkPolicy,
    distribution_over,
)
from chainrule.core.errors import ArgumentError
from chainrule.nn import GRU, LSTM

BOUNDED = GaussianActions(np.full(1, -1.0), np.full(1, 3.0))
LOGITS = jnp.float32([0.3, -1.0, 2.0])


def test_every_space_has_its_distribution() -> None:
    assert distribution_over(Discrete(3)).outputs == 3
    assert distribution_over(MultiDiscrete((2, 3))).outputs == 5
    box = distribution_over(Box(-1, 1, (2, 2)))
    assert (box.outputs, box.free) == (4, 4)
    assert box.action(jnp.zeros((7, 4))).shape == (7, 2, 2)


def test_one_choice_of_several() -> None:
    actions, probs = CategoricalActions(3), np.asarray(jax.nn.softmax(LOGITS))
    found = [float(actions.log_prob(LOGITS, jnp.int32(i))) for i in range(3)]
    np.testing.assert_allclose(np.exp(found), probs, rtol=1e-5)
    assert float(actions.entropy(LOGITS)) == pytest.approx(scipy.stats.entropy(probs), rel=1e-5)
    other = jnp.float32([1.0, 0.0, 0.0])
    expected = scipy.stats.entropy(probs, np.asarray(jax.nn.softmax(other)))
    assert float(actions.divergence(LOGITS, other)) == pytest.approx(expected, rel=1e-5)
    noise = actions.noise(jax.random.key(0), (20_000,))
    drawn = np.asarray(actions.draw(jnp.broadcast_to(LOGITS, (20_000, 3)), noise))
    np.testing.assert_allclose(np.bincount(drawn) / 20_000, probs, atol=0.015)


def test_what_is_not_legal_is_never_drawn() -> None:
    actions, legal = CategoricalActions(3), jnp.array([True, True, False])
    numbers = actions.masked(LOGITS, legal)
    noise = actions.noise(jax.random.key(0), (1000,))
    assert set(np.unique(actions.draw(jnp.broadcast_to(numbers, (1000, 3)), noise))) == {0, 1}
    assert float(actions.preferences(numbers)[2]) == 0
    two = np.asarray(jax.nn.softmax(LOGITS[:2]))
    assert float(actions.entropy(numbers)) == pytest.approx(scipy.stats.entropy(two), rel=1e-5)
    slope = jax.grad(lambda x: actions.entropy(actions.masked(x, legal)))(LOGITS)
    assert np.isfinite(slope).all()
    assert slope[2] == 0
    with pytest.raises(ArgumentError, match="legal actions"):
        BOUNDED.masked(jnp.zeros(2), legal)


def test_several_choices_are_independent() -> None:
    actions = distribution_over(MultiDiscrete((2, 3)))
    numbers = jnp.concatenate([jnp.float32([0.5, -0.5]), LOGITS])
    total = sum(
        float(jnp.exp(actions.log_prob(numbers, jnp.int32([i, j])))) for i in range(2) for j in range(3)
    )
    assert total == pytest.approx(1, rel=1e-5)
    parts = CategoricalActions(2).entropy(numbers[:2]) + CategoricalActions(3).entropy(LOGITS)
    assert float(actions.entropy(numbers)) == pytest.approx(float(parts), rel=1e-5)
    noise = actions.noise(jax.random.key(1), (50,))
    drawn = np.asarray(actions.draw(jnp.broadcast_to(numbers, (50, 5)), noise))
    assert drawn.shape == (50, 2)
    assert drawn.max(axis=0).tolist() == [1, 2]
    assert actions.mode(numbers).tolist() == [0, 2]


def test_normal_actions_have_the_density_entropy_and_divergence_of_scipy() -> None:
    actions = GaussianActions(np.full(2, -np.inf), np.full(2, np.inf))
    numbers, drawn = jnp.float32([0.2, -1, 0.1, -0.3]), jnp.float32([0.5, 0.5])
    normal = scipy.stats.norm(numbers[:2], np.exp(numbers[2:]))
    assert float(actions.log_prob(numbers, drawn)) == pytest.approx(normal.logpdf(drawn).sum(), rel=1e-5)
    assert float(actions.entropy(numbers)) == pytest.approx(normal.entropy().sum(), rel=1e-5)
    noise = actions.noise(jax.random.key(0), (40_000,))
    other = jnp.float32([0, -0.5, 0.3, 0])
    many = actions.draw(jnp.broadcast_to(numbers, (40_000, 4)), noise)
    ratio = actions.log_prob(numbers[None], many) - actions.log_prob(other[None], many)
    assert float(actions.divergence(numbers, other)) == pytest.approx(float(ratio.mean()), abs=0.02)


@pytest.mark.parametrize(("mean", "log_scale"), [(0.3, -0.5), (-1.0, 0.3)])
def test_the_density_of_bounded_actions_integrates_to_one_and_gives_the_entropy(
    mean: float, log_scale: float
) -> None:
    numbers = jnp.float32([mean, log_scale])
    u = jnp.linspace(-9, 9, 4001)[:, None]
    density = np.exp(np.float64(BOUNDED.log_prob(jnp.broadcast_to(numbers, (4001, 2)), u)))
    action = np.float64(1 + 2 * np.tanh(np.float64(u[:, 0])))
    assert scipy.integrate.trapezoid(density, action) == pytest.approx(1, abs=1e-3)
    expected = -scipy.integrate.trapezoid(density * np.log(np.maximum(density, 1e-300)), action)
    assert float(BOUNDED.entropy(numbers)) == pytest.approx(expected, abs=5e-3)


def test_densities_stay_finite_next_to_a_bound() -> None:
    drawn = jnp.float32([12.0])
    assert float(BOUNDED.action(drawn)[0]) == pytest.approx(3, abs=1e-5)
    slope = jax.grad(lambda n: BOUNDED.log_prob(n, drawn))(jnp.float32([11.0, 0.0]))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("layer", [GRU, LSTM])
def test_a_memory_is_the_same_step_by_step_and_over_time(layer: Any) -> None:
    network = RecurrentNetwork(3, 2, 0, 5, layer, 4, "tanh", key=jax.random.key(0))
    rng = np.random.default_rng(0)
    observations, first = jnp.float32(rng.normal(size=(6, 2, 3))), jnp.asarray(rng.random((6, 2)) < 0.3)
    start = jax.tree.map(lambda a: jnp.broadcast_to(a, (2, 4)), network.start())
    numbers, values, memories = network.unroll(observations, first, start)
    memory = start
    for t in range(6):
        memory = jax.tree.map(lambda a, t=t: jnp.where(first[t][:, None], 0, a), memory)
        value = network.values_after(observations[None, t], jax.tree.map(lambda a: a[None], memory))[0]
        own, memory = network.act(observations[t], memory)
        np.testing.assert_allclose(own, numbers[t], atol=1e-6)
        np.testing.assert_allclose(value, values[t], atol=1e-6)
        np.testing.assert_allclose(memory[0], memories[0][t], atol=1e-6)


def test_a_policy_decides_for_one_observation() -> None:
    network = SeparateNetworks(4, 3, 0, (8,), "tanh", key=jax.random.key(0))
    policy = NetworkPolicy(network, CategoricalActions(3))
    seen = jnp.float32([0.1, 0.2, 0.3, 0.4])
    legal = jnp.array([False, True, False])
    decision = policy.act(jax.random.key(0), seen, policy.start(), greedy=False, legal=legal)
    assert int(decision.action) == 1
    assert decision.preferences.tolist() == [0, 1, 0]
    assert decision.value.shape == ()
    assert decision.memory == ()
    np.testing.assert_allclose(decision.value, network.critic(seen[None])[0, 0], atol=1e-6)
