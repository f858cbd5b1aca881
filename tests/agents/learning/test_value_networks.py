"""Networks that value actions: layers of the bodies, two heads, the policy made of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.agents.envs.spaces import Box, Discrete
from chainrule.agents.learning.returns import ExpectedReturns, QuantileReturns
from chainrule.agents.learning.value_networks import (
    DenseBody,
    PictureBody,
    ValueNetwork,
    ValuePolicy,
    body,
    count_actions,
    input_format,
)
from chainrule.core.errors import ArgumentError

KEY = jax.random.key(0)


def test_screens_are_read_by_three_convolutions_and_boards_by_one() -> None:
    screen = eqx.filter_eval_shape(body, input_format(Box(0, 255, (84, 84, 4))), (9,), key=KEY)
    shapes = [layer.weight.shape for layer in screen.convolutions]
    assert shapes == [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64)]
    assert screen.dense.layers[0].weight.shape == (7 * 7 * 64, 512)
    assert eqx.filter_eval_shape(screen, jnp.zeros((2, 84, 84, 4))).shape == (2, 512)
    board = body(input_format(Box(0, 1, (10, 10, 4))), (9,), normalised=True, key=KEY)
    assert isinstance(board, PictureBody)
    assert [layer.weight.shape for layer in board.convolutions] == [(3, 3, 4, 16)]
    assert eqx.filter_jit(board)(jnp.zeros((2, 10, 10, 4))).shape == (2, 128)


def test_entries_of_screens_are_scaled_to_one() -> None:
    bytes_, ones = (body(input_format(Box(0, high, (10, 10, 1))), (9,), key=KEY) for high in (255, 1))
    picture = np.random.default_rng(0).integers(0, 256, (1, 10, 10, 1)).astype(np.float32)
    np.testing.assert_allclose(
        eqx.filter_jit(bytes_)(jnp.asarray(picture)),
        eqx.filter_jit(ones)(jnp.asarray(picture / 255)),
        rtol=1e-4,
        atol=1e-6,
    )


def test_what_a_network_cannot_read_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"Discrete: a network reads arrays .*\n.*vector_observations"):
        input_format(Discrete(4))
    with pytest.raises(ArgumentError, match="too small for a convolution"):
        input_format(Box(0, 1, (2, 10, 1)))
    assert count_actions("dqn", Discrete(3)) == 3


def test_two_heads_add_the_state_to_what_actions_add_less_their_mean() -> None:
    one, two = jax.random.split(KEY)
    network = ValueNetwork(DenseBody(3, (5,), key=one), 4, QuantileReturns(2), dueling=True, key=two)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(6, 3)), jnp.float32)
    got = np.asarray(eqx.filter_jit(network)(x))
    h = np.asarray(network.body(x))
    assert network.state_head is not None
    state = h @ np.asarray(network.state_head.weight) + np.asarray(network.state_head.bias)
    each = h @ np.asarray(network.actions_head.weight) + np.asarray(network.actions_head.bias)
    each = each.reshape(6, 4, 2)
    np.testing.assert_allclose(got, state[:, None] + each - each.mean(1, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got.mean(1), state, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(network.values(x), got.mean(2), rtol=1e-5, atol=1e-6)


def test_a_policy_takes_the_best_legal_action_or_any() -> None:
    one, two = jax.random.split(KEY)
    network = ValueNetwork(DenseBody(3, (5,), key=one), 3, ExpectedReturns(), key=two)
    policy = ValuePolicy(network, jnp.array(1.0))
    act = eqx.filter_jit(policy.act)
    seen = jnp.ones(3)
    values = np.asarray(network.values(seen[None])[0])
    best = act(KEY, seen, (), greedy=True)
    assert best.action == values.argmax()
    np.testing.assert_allclose(best.value, values.max(), rtol=1e-5)
    np.testing.assert_allclose(best.preferences, values, rtol=1e-5)
    legal = jnp.arange(3) != values.argmax()
    assert act(KEY, seen, (), greedy=True, legal=legal).action == np.where(legal, values, -np.inf).argmax()
    explored = jax.jit(jax.vmap(lambda key: policy.act(key, seen, (), greedy=False).action))
    share = np.bincount(explored(jax.random.split(KEY, 3000)), minlength=3) / 3000
    np.testing.assert_allclose(share, 1 / 3, atol=4 * np.sqrt(2 / 9 / 3000))
