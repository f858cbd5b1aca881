"""Cells: exact Jacobians of a step, PyTorch's cells, gates, initial weights."""

from collections.abc import Callable
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from chainrule.core.errors import ArgumentError
from tests.nn.recurrent.plain import KEY, LAYERS, by_formula, unrolled

DRAW = np.random.default_rng(0)
X, H, C = (DRAW.normal(size=(2, n)) for n in (3, 4, 4))


def states_of(layer: nn.Recurrent) -> tuple[jax.Array, ...]:
    return tuple(map(jnp.asarray, (H, C)[: len(layer.cell.states)]))


@pytest.mark.parametrize("name", LAYERS)
def test_the_jacobian_of_a_step_is_exact(name: str) -> None:
    layer, x = LAYERS[name](), jnp.asarray(X)
    states = states_of(layer)
    blocks = eqx.filter_jit(layer.step_jacobian)(x, states)
    jacobian = jax.jit(jax.jacfwd(lambda s, x: by_formula(layer, x, s)))
    for row in range(2):
        expected = jacobian(tuple(s[row : row + 1] for s in states), x[row : row + 1])
        for after, line in enumerate(expected):
            for before, block in enumerate(line):
                np.testing.assert_allclose(blocks[after][before][row], block[0, :, 0], rtol=0, atol=1e-12)


def test_the_jacobian_of_a_memory_cell_has_the_published_blocks() -> None:
    layer = LAYERS["LSTM"]()
    h, c = states_of(layer)
    (h_h, h_c), (c_h, c_c) = eqx.filter_jit(layer.step_jacobian)(jnp.asarray(X), (h, c))
    gates = eqx.filter_jit(layer.gates)(jnp.asarray(X)[:, None], (h, c))
    i, f, g, o = (np.asarray(gates[name])[0, 0] for name in ("input", "forget", "candidate", "output"))
    u_i, u_f, u_g, u_o = (block.T for block in np.split(np.asarray(layer.recurrent.weight), 4, axis=1))
    after = np.tanh(f * C[0] + i * g)
    show = o * (1 - after**2)
    expected = (
        np.diag(C[0] * f * (1 - f)) @ u_f + np.diag(g * i * (1 - i)) @ u_i + np.diag(i * (1 - g**2)) @ u_g
    )
    np.testing.assert_allclose(c_c[0], np.diag(f), atol=1e-12)
    np.testing.assert_allclose(c_h[0], expected, atol=1e-12)
    np.testing.assert_allclose(h_c[0], np.diag(show * f), atol=1e-12)
    np.testing.assert_allclose(
        h_h[0], np.diag(after * o * (1 - o)) @ u_o + np.diag(show) @ expected, atol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "cell"), [("LSTM", "LSTMCell"), ("GRU, reset after", "GRUCell"), ("RNN", "RNNCell")]
)
def test_a_step_is_that_of_pytorch_s_cell(name: str, cell: str, oracle: Callable[[str], ModuleType]) -> None:
    torch = oracle("torch")
    layer = LAYERS[name]()
    theirs = getattr(torch.nn, cell)(3, 4, dtype=torch.float64)
    weights = (layer.inward.weight.T, layer.recurrent.weight.T, layer.inward.bias, layer.recurrent.bias)
    with torch.no_grad():
        for parameter, value in zip(theirs.parameters(), weights, strict=True):
            parameter.copy_(torch.tensor(np.asarray(value)))
        states = states_of(layer)
        given = tuple(torch.tensor(np.asarray(s)) for s in states)
        expected = theirs(torch.tensor(X), given if len(given) > 1 else given[0])
    expected = expected if len(given) > 1 else (expected,)
    for one, other in zip(eqx.filter_jit(layer.step)(jnp.asarray(X), states), expected, strict=True):
        np.testing.assert_allclose(one, other.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_a_sequence_may_be_read_in_pieces(name: str) -> None:
    layer = LAYERS[name]()
    x = jnp.asarray(DRAW.normal(size=(2, 6, 3)))
    call = eqx.filter_jit(layer)
    whole, last = call(x)
    first, states = call(x[:, :4])
    second, after = call(x[:, 4:], states)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole, atol=1e-14)
    for one, other in zip(after, last, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)


def test_gates_are_those_of_the_steps() -> None:
    layer = LAYERS["GRU, reset after"]()
    x = jnp.asarray(DRAW.normal(size=(2, 4, 3)))
    gates = {name: np.asarray(gate) for name, gate in layer.gates(x).items()}
    out = np.asarray(jax.jit(unrolled)(layer, x)[0])
    before = np.concatenate([np.zeros((2, 1, 4)), out[:, :-1]], axis=1)
    made = (1 - gates["update"]) * gates["candidate"] + gates["update"] * before
    np.testing.assert_allclose(made, out, atol=1e-14)
    assert list(gates) == ["reset", "update", "candidate"]


def test_orthogonal_recurrent_weights_have_unit_singular_values_gate_by_gate() -> None:
    layer = nn.LSTM(3, 8, recurrent_initializer="orthogonal", key=KEY)
    for block in jnp.split(layer.recurrent.weight, 4, axis=1):
        np.testing.assert_allclose(np.linalg.svd(block, compute_uv=False), 1, atol=1e-12)


def test_the_forget_gate_starts_open_but_in_pytorch_s_scheme() -> None:
    np.testing.assert_array_equal(nn.LSTM(3, 4, key=KEY).inward.bias, np.repeat([0.0, 1.0, 0.0, 0.0], 4))
    limit = 1 / np.sqrt(4)
    for leaf in jax.tree.leaves(LAYERS["LSTM"]()):
        assert 0.5 * limit < float(jnp.abs(leaf).max()) <= limit


def test_an_unknown_form_of_reset_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r'reset must be "after" or "before"'):
        nn.GRU(3, 4, reset="afterwards", key=KEY)


def test_a_negative_segment_is_refused() -> None:
    with pytest.raises(ArgumentError, match="segment=-1"):
        LAYERS["RNN"]()(jnp.zeros((2, 4, 3)), segment=-1)
