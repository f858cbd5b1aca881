"""Convolutions in native code against XLA's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.nn.convolution import native, stock
from chainrule.nn.convolution.primitives import convolution
from chainrule.nn.native.availability import Registers
from chainrule.nn.native.weight_gradient import GradientTile
from chainrule.nn.windows import Geometry

pytestmark = pytest.mark.usefixtures("lanes")

# batch, space, kernel, inputs, outputs, geometry
CASES = {
    "same": (3, (9, 7), (3, 3), 3, 16, Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)),
    "many channels": (2, (4, 5), (3, 3), 24, 64, Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)),
    "stride that floors rows away": (
        5,
        (8, 7),
        (3, 2),
        6,
        32,
        Geometry((2, 2), ((1, 1), (0, 1)), (1, 1), (1, 1), 1),
    ),
    "dilation": (2, (9, 9), (3, 3), 4, 16, Geometry((2, 1), ((2, 0), (1, 3)), (1, 1), (2, 2), 1)),
    "pointwise": (2, (5, 5), (1, 1), 5, 16, Geometry((2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1), 1)),
    "padding that cuts": (2, (6, 6), (3, 3), 2, 16, Geometry((1, 1), ((-1, 1), (1, -2)), (1, 1), (1, 1), 1)),
    "more padding than kernel": (
        2,
        (4, 5),
        (2, 1),
        2,
        16,
        Geometry((1, 1), ((3, 2), (2, 0)), (1, 1), (1, 1), 1),
    ),
    "one example": (1, (40, 41), (5, 5), 7, 16, Geometry((1, 1), ((2, 2), (2, 2)), (1, 1), (1, 1), 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_weight_gradients_are_those_of_xla_and_the_same_every_time(name: str) -> None:
    batch, space, kernel, inputs, outputs, geometry = CASES[name]
    draw = np.random.default_rng(0)
    x = jnp.asarray(draw.normal(size=(batch, *space, inputs)), jnp.float32)
    cotangent = jnp.asarray(draw.normal(size=(batch, *geometry.sizes(space, kernel), outputs)), jnp.float32)
    assert native.weighs(x, cotangent, geometry)
    ours = jax.jit(lambda x, c: native.weight_gradient(x, c, geometry, kernel))
    theirs = jax.jit(lambda x, c: stock.weight_gradient(x, c, geometry=geometry, kernel=kernel))
    expected = np.asarray(theirs(x, cotangent))
    np.testing.assert_allclose(ours(x, cotangent), expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    for _ in range(20):
        np.testing.assert_array_equal(ours(x, cotangent), ours(x, cotangent))


@pytest.mark.parametrize("name", [name for name in CASES if name != "pointwise"])
def test_convolutions_are_those_of_xla(name: str) -> None:
    batch, space, kernel, inputs, outputs, geometry = CASES[name]
    draw = np.random.default_rng(0)
    x = jnp.asarray(draw.normal(size=(batch, *space, inputs)), jnp.float32)
    weight = jnp.asarray(draw.normal(size=(*kernel, inputs, outputs)), jnp.float32)
    ours = jax.jit(lambda x, w: native.convolution(x, w, geometry))(x, weight)
    np.testing.assert_allclose(ours, stock.convolution(x, weight, geometry=geometry), rtol=1e-4, atol=1e-4)


def test_derivatives_of_convolutions_in_native_code_are_those_of_xla() -> None:
    geometry = Geometry((2, 2), ((1, 1), (1, 1)), (1, 1), (1, 1), 1)
    draw = np.random.default_rng(0)
    x, v = (jnp.asarray(draw.normal(size=(3, 12, 12, 8)), jnp.float32) for _ in range(2))
    weight, u = (jnp.asarray(draw.normal(size=(3, 3, 8, 32)), jnp.float32) for _ in range(2))
    assert native.convolves(x, weight, geometry)

    def second(convolve: object) -> object:
        def f(x: object, w: object) -> object:
            return jnp.sum(jnp.tanh(convolve(x, w) / 10) ** 2)  # type: ignore[operator]

        return jax.jit(lambda: jax.jvp(jax.grad(f, (0, 1)), (x, weight), (v, u)))()

    ours = second(lambda x, w: convolution(x, w, geometry))
    theirs = second(lambda x, w: stock.convolution(x, w, geometry=geometry))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3), ours, theirs)


def test_many_programs_at_once_do_not_wait_for_each_other() -> None:
    geometry = CASES["same"][-1]
    x = jnp.ones((64, 12, 12, 16))
    weight = jnp.ones((3, 3, 16, 16))

    @jax.jit
    def branches(x: object) -> object:
        return sum(native.convolution(x + i, weight, geometry).sum() for i in range(12))  # type: ignore[operator]

    np.testing.assert_allclose(
        branches(x), sum((1.0 + i) * 64 * 16 * 16 * 34**2 for i in range(12)), rtol=1e-4
    )


def test_what_fills_no_registers_is_left_to_xla() -> None:
    geometry = CASES["same"][-1]
    x = jnp.zeros((2, 5, 5, 4))
    assert not native.weighs(x, jnp.zeros((2, 5, 5, 10)), geometry)
    assert not native.weighs(x, jnp.zeros((2, 5, 5, 16)), geometry._replace(groups=2))
    assert not native.weighs(x.astype(jnp.bfloat16), jnp.zeros((2, 5, 5, 16), jnp.bfloat16), geometry)


def test_many_channels_are_left_to_xla_forward_where_registers_are_narrow(lanes: int) -> None:
    geometry = CASES["same"][-1]
    x, maps = jnp.zeros((2, 12, 12, 64)), jnp.zeros((2, 12, 12, 64))
    assert native.convolves(x, jnp.zeros((3, 3, 64, 64)), geometry) == (lanes == 16)
    assert native.convolves(x[..., :16], jnp.zeros((3, 3, 16, 16)), geometry)
    assert native.weighs(x, maps, geometry)


def test_channels_that_fill_narrow_registers_only_have_programs_for_those(lanes: int) -> None:
    geometry = Geometry((1, 2), ((1, 1), (2, 1)), (1, 1), (1, 2), 1)
    draw = np.random.default_rng(0)
    x = jnp.asarray(draw.normal(size=(3, 10, 17, 12)), jnp.float32)
    weight = jnp.asarray(draw.normal(size=(3, 3, 12, 8)), jnp.float32)
    assert GradientTile.of(12, 8, Registers(8, 16)) == GradientTile(12, 1)
    expected = stock.convolution(x, weight, geometry=geometry)
    assert native.convolves(x, weight, geometry) == native.weighs(x, expected, geometry) == (lanes == 8)
    if lanes == 16:
        return
    ours = jax.jit(lambda x, w: native.convolution(x, w, geometry))(x, weight)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
    gradient = jax.jit(lambda x, c: native.weight_gradient(x, c, geometry, (3, 3)))(x, expected)
    theirs = stock.weight_gradient(x, expected, geometry=geometry, kernel=(3, 3))
    np.testing.assert_allclose(gradient, theirs, rtol=1e-4, atol=1e-4 * float(jnp.abs(theirs).max()))
