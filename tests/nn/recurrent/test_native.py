"""Recurrent layers in native code against the formulas of their cells in double precision."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import nn
from chainrule.nn.recurrent import native as recurrence
from chainrule.nn.recurrent.cells import GRUCell, LSTMCell, PlainCell, UnitCell
from chainrule.nn.recurrent.units import Functions
from tests.nn.recurrent.plain import direction, score

pytestmark = pytest.mark.usefixtures("lanes")

NUMPY = Functions(lambda x: 1 / (1 + np.exp(-x)), np.tanh)
CELLS: dict[str, UnitCell] = {"RNN": PlainCell(), "LSTM": LSTMCell(), "GRU": GRUCell()}
SIZES = {"some rows left over": (4, 29, 32), "one sequence": (3, 1, 48), "one step": (1, 5, 16)}
"""Steps, sequences, units."""
LENGTHS = np.array([4, 0, 2, 3, 1])


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    """Native code is for single precision, unlike what is tested beside it."""
    with jax.enable_x64(False):
        yield


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def operands(cell: UnitCell, time: int, batch: int, hidden: int) -> tuple[Any, ...]:
    """Weights, bias, the input's part of all gates, states."""
    gates = len(cell.gates) * hidden
    states = tuple(drawn(batch, hidden, seed=number) for number in range(len(cell.states)))
    return drawn(hidden, gates) / np.float32(np.sqrt(hidden)), drawn(gates), drawn(time, batch, gates), states


def each(cell: UnitCell, together: Any) -> tuple[Any, ...]:
    return tuple(np.split(together, len(cell.gates), axis=-1))


def forward_by_formula(cell: UnitCell, weight: Any, bias: Any, inward: Any, states: Any) -> list[Any]:
    """Outputs, other last states, slopes; in double precision."""
    weight, bias, inward = (np.asarray(a, np.float64) for a in (weight, bias, inward))
    states, outputs, slopes = tuple(np.asarray(s, np.float64) for s in states), [], []
    for now in inward:
        feedback = each(cell, states[0] @ weight + bias[None])
        states, slope = cell.units(NUMPY, each(cell, now), feedback, states)
        outputs.append(states[0])
        slopes.append(slope)
    return [np.stack(outputs), *states[1:], *(np.stack(s) for s in zip(*slopes, strict=True))]


def backward_by_formula(cell: UnitCell, weight: Any, slopes: Any, outputs: Any, last: Any) -> list[Any]:
    """Cotangents of the input's part of all gates and of the first states; in double precision."""
    weight, outputs = np.asarray(weight, np.float64), np.asarray(outputs, np.float64)
    slopes, states, found = [np.asarray(s, np.float64) for s in slopes], list(last), []
    for t in reversed(range(len(outputs))):
        states[0] = states[0] + outputs[t]
        inward, feedback, states = map(list, cell.adjoint(tuple(s[t] for s in slopes), tuple(states)))
        states[0] = states[0] + np.concatenate(feedback, axis=-1) @ weight.T
        found.append(np.concatenate(inward, axis=-1))
    return [np.stack(found[::-1]), *states]


def close(found: Any, expected: Any, tolerance: float) -> None:
    """Within a tolerance of the largest entry of each array."""
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        limit = tolerance * max(1.0, float(np.abs(other).max()))
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=0, atol=limit)


def both_directions(cell: UnitCell, sizes: tuple[int, int, int]) -> None:
    time, batch, hidden = sizes
    weight, *rest = operands(cell, *sizes)
    found = jax.jit(lambda *a: recurrence.forward(cell, *a, keep=True))(weight, *rest)
    close(found, forward_by_formula(cell, weight, *rest), 2e-6)
    values = jax.jit(lambda *a: recurrence.forward(cell, *a, keep=False))(weight, *rest)
    for one, other in zip(values, found, strict=False):
        np.testing.assert_array_equal(one, other)
    slopes = found[len(cell.states) :]
    outputs, last = drawn(time, batch, hidden, seed=7), rest[-1]
    turned = jax.jit(lambda *a: recurrence.backward(cell, *a))(weight, slopes, outputs, last)
    close(turned, backward_by_formula(cell, weight, slopes, outputs, last), 2e-6)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", CELLS)
def test_programs_compute_the_formulas_of_the_cell(name: str, sizes: str) -> None:
    both_directions(CELLS[name], SIZES[sizes])


def test_units_that_fill_narrow_registers_only_have_programs_for_those(lanes: int) -> None:
    assert recurrence.runs(24, (3, 17, 96)) == (lanes == 8)
    if lanes == 8:
        both_directions(CELLS["LSTM"], (3, 17, 24))


def test_the_functions_of_the_gates_are_right_to_a_few_units_in_the_last_place() -> None:
    magnitudes = np.concatenate([np.geomspace(1e-30, 85, 500), np.linspace(0, 12, 524)]).astype(np.float32)
    x = np.concatenate([-magnitudes, magnitudes]).reshape(1, 128, 16)
    nothing = (
        np.zeros((16, 16), np.float32),
        np.zeros(16, np.float32),
        x,
        (np.zeros((128, 16), np.float32),),
    )
    (tanh,) = jax.jit(lambda *a: recurrence.forward(CELLS["RNN"], *a, keep=False))(*nothing)
    np.testing.assert_allclose(np.asarray(tanh, np.float64), np.tanh(np.float64(x)), rtol=4e-7, atol=0)
    weight, bias, x, states = nothing
    gates = (np.tile(weight, (1, 3)), np.tile(bias, 3), np.concatenate([x] * 3, axis=-1), states)
    *_, sigmoid, _ = jax.jit(lambda *a: recurrence.forward(CELLS["GRU"], *a, keep=True))(*gates)
    np.testing.assert_allclose(
        np.asarray(sigmoid, np.float64), NUMPY.sigmoid(np.float64(x)), rtol=4e-7, atol=0
    )


def test_what_is_infinite_is_squashed_and_what_is_not_a_number_stays_so() -> None:
    cell = CELLS["LSTM"]
    x = np.zeros((1, 3, 64), np.float32)
    x[0, 0], x[0, 1], x[0, 2, 5] = np.inf, -np.inf, np.nan
    weight, states = np.zeros((16, 64), np.float32), (np.ones((3, 16), np.float32),) * 2
    bias = np.zeros(64, np.float32)
    out, c = jax.jit(lambda *a: recurrence.forward(cell, *a, keep=False))(weight, bias, x, states)
    np.testing.assert_allclose(c[0], np.full(16, 2), rtol=1e-6)  # all is kept, and one is added
    np.testing.assert_allclose(c[1], np.zeros(16), atol=1e-30)
    np.testing.assert_array_equal(np.isnan(out[0, 2]), np.arange(16) == 5)


def test_a_sequence_is_read_the_same_whatever_is_read_beside_it() -> None:
    cell = CELLS["GRU"]
    weight, bias, inward, states = operands(cell, 4, 29, 32)
    read = jax.jit(lambda *a: recurrence.forward(cell, *a, keep=True))
    together = read(weight, bias, inward, states)
    for _ in range(20):
        for one, again in zip(together, read(weight, bias, inward, states), strict=True):
            np.testing.assert_array_equal(one, again)
    alone = read(weight, bias, inward[:, 28:], tuple(s[28:] for s in states))
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one[:, 28:], other)


def everything(args: Any, v: Any, w: Any, orders: int) -> dict[str, Any]:
    """Derivatives of both modes, and of both orders with segments, single sequences and several layers."""

    def call(layer: Any, x: Any, **options: Any) -> Any:
        return score(lambda one, x: one(x, **options), layer, x)

    def inner(a: Any, b: Any) -> Any:
        return sum(jnp.vdot(p, q) for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))

    slope = jax.grad(lambda args: call(*args))
    first = {
        "reverse": slope(args),
        "forward": jax.jvp(lambda args: args[0](args[1]), (args,), (v,)),
    }
    if orders == 1:
        return first
    layer, x = args
    return first | {
        "forward over reverse": jax.jvp(slope, (args,), (v,))[1],
        "reverse over reverse": jax.grad(lambda args: inner(slope(args), w))(args),
        "segments, lengths": jax.grad(lambda args: call(*args, segment=3, lengths=jnp.asarray(LENGTHS)))(
            args
        ),
        "single sequences": jax.vmap(lambda one: jax.grad(call)(layer, one[None]))(x),
        "several layers": jax.vmap(lambda one: jax.grad(call)(one, x))(
            jax.tree.map(lambda a: jnp.stack([a, 2 * a]), layer)
        ),
    }


def example(kind: Any) -> tuple[Any, ...]:
    """A layer with an input, and two directions to move them in."""
    layer = kind(3, 16, recurrent_bias=kind is not nn.RNN, key=jax.random.key(0))
    args = (layer, jnp.asarray(drawn(5, 4, 3)))
    return args, direction(args, 1), direction(args, 2)


@functools.cache
def by_the_loop(kind: Any, orders: int) -> dict[str, Any]:
    """Every derivative in double precision; the same for every width of registers."""
    single = example(kind)
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), single)
        return jax.tree.map(np.asarray, jax.jit(everything, static_argnums=3)(*doubled, orders))


@pytest.mark.parametrize(("kind", "orders"), [(nn.LSTM, 2), (nn.GRU, 1), (nn.RNN, 1)])
def test_every_derivative_is_that_of_the_loop_in_double_precision(kind: Any, orders: int) -> None:
    given = example(kind)
    lowered = jax.jit(everything, static_argnums=3).lower(*given, orders)
    assert "chainrule_" in lowered.as_text()
    found, expected = lowered.compile()(*given), by_the_loop(kind, orders)
    for what in found:
        close(found[what], expected[what], 3e-6)


def test_other_platforms_and_other_numbers_get_the_loop() -> None:
    layer, x = nn.LSTM(3, 16, key=jax.random.key(0)), jnp.zeros((2, 4, 3))
    gradient = jax.jit(jax.grad(lambda layer, x: layer(x)[0].sum()))
    for_others = gradient.trace(layer, x).lower(lowering_platforms=("cuda",)).as_text()
    half = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (layer, x))
    odd = nn.LSTM(3, 15, key=jax.random.key(0)), x
    for text in (for_others, gradient.lower(*half).as_text(), gradient.lower(*odd).as_text()):
        assert "chainrule_" not in text
        assert "stablehlo.while" in text
