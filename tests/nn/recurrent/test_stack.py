"""Stacks, both directions, dropout between layers, sequences of different lengths."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from chainrule.core.errors import ArgumentError, CapabilityError
from tests.nn.recurrent.plain import KEY, LAYERS

X = np.random.default_rng(0).normal(size=(3, 6, 3))
LENGTHS = np.array([6, 2, 4])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_stack_is_pytorch_s(bidirectional: bool, oracle: Callable[[str], ModuleType]) -> None:
    torch = oracle("torch")
    stack = nn.Stack(3, 4, depth=2, bidirectional=bidirectional, initializer="torch", key=KEY)
    theirs = torch.nn.LSTM(3, 4, 2, batch_first=True, bidirectional=bidirectional, dtype=torch.float64)
    layers = [
        one
        for layer in stack.layers
        for one in ((layer.forward, layer.backward) if isinstance(layer, nn.Bidirectional) else (layer,))
    ]
    weights = [
        w
        for one in layers
        for w in (one.inward.weight.T, one.recurrent.weight.T, one.inward.bias, one.recurrent.bias)
    ]
    with torch.no_grad():
        for parameter, value in zip(theirs.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(np.asarray(value)))
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.tensor(X), LENGTHS, batch_first=True, enforce_sorted=False
        )
        out, (h, c) = theirs(packed)
        out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    mine, states = eqx.filter_jit(stack)(jnp.asarray(X), lengths=jnp.asarray(LENGTHS))
    np.testing.assert_allclose(mine, out.numpy(), rtol=0, atol=1e-12)
    ends = [s for state in states for s in (state if bidirectional else (state,))]
    np.testing.assert_allclose(np.stack([s[0] for s in ends]), h.numpy(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.stack([s[1] for s in ends]), c.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_padding_changes_neither_the_last_state_nor_any_gradient(name: str) -> None:
    layer, other = LAYERS[name](), np.where(np.arange(6)[None, :, None] < LENGTHS[:, None, None], X, 1e3)

    @functools.partial(jax.value_and_grad, has_aux=True)
    def ending(layer: Any, x: Any) -> Any:
        out, states = layer(jnp.asarray(x), lengths=jnp.asarray(LENGTHS))
        return sum(jnp.sin(s).sum() for s in states) + jnp.cos(out).sum(), states

    judged = jax.jit(ending)
    (value, states), slope = judged(layer, X)
    (padded, _), padded_slope = judged(layer, other)
    assert float(value) == float(padded)
    for one, two in zip(jax.tree.leaves(slope), jax.tree.leaves(padded_slope), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-12)
    for row, length in enumerate(LENGTHS):
        alone = eqx.filter_jit(layer)(jnp.asarray(X[row : row + 1, :length]))[1]
        for one, two in zip(states, alone, strict=True):
            np.testing.assert_allclose(one[row], two[0], rtol=0, atol=1e-14)


def test_dropout_acts_between_layers_and_only_with_a_key() -> None:
    stack = nn.Stack(3, 4, depth=2, cell="gru", dropout=0.5, key=KEY)
    x = jnp.asarray(X)
    call = eqx.filter_jit(stack)
    (still, states), (moved, shaken) = call(x), call(x, key=jax.random.key(1))
    assert not np.allclose(still, moved)
    np.testing.assert_array_equal(states[0][0], shaken[0][0])  # nothing is dropped before the first layer
    single = nn.Stack(3, 4, depth=1, dropout=0.5, key=KEY)
    call = eqx.filter_jit(single)
    np.testing.assert_array_equal(call(x)[0], call(x, key=jax.random.key(1))[0])


def test_a_stack_reads_on_from_its_states() -> None:
    stack = nn.Stack(3, 4, depth=2, key=KEY)
    x = jnp.asarray(X)
    call = eqx.filter_jit(stack)
    _, states = call(x[:, :4])
    np.testing.assert_allclose(call(x[:, 4:], states)[0], call(x)[0][:, 4:], atol=1e-14)


def test_both_directions_cannot_write_on() -> None:
    stack = nn.Stack(3, 4, bidirectional=True, key=KEY)
    x = jnp.asarray(X)
    with pytest.raises(CapabilityError, match="cannot read on"):
        stack(x, stack.initial((3,)))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r'cell must be "rnn", "gru" or "lstm"'):
        nn.Stack(3, 4, cell="lstn", key=KEY)
    with pytest.raises(ArgumentError, match="depth=0"):
        nn.Stack(3, 4, depth=0, key=KEY)
