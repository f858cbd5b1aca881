"""The dense layer: an affine map of the last axis, whatever comes before it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import Linear
from chainrule.nn.linear import plus

LEADING = [(), (7,), (2, 3), (2, 1, 3), (0,), (4, 0, 2)]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def layer() -> Linear:
    made = eqx.filter_jit(lambda key: Linear(5, 4, key=key))(jax.random.key(0))
    return eqx.tree_at(lambda one: one.bias, made, jnp.arange(4.0))


@pytest.mark.parametrize("leading", LEADING)
def test_any_leading_axes_agree_with_the_sum_over_the_last_one(
    leading: tuple[int, ...], layer: Linear
) -> None:
    """Values and all three gradients, against the contractions they stand for."""
    x, seed = normal(*leading, 5, seed=1), normal(*leading, 4, seed=2)
    out, grads = jax.jit(lambda layer, x: (layer(x), jax.vjp(Linear.__call__, layer, x)[1](seed)))(layer, x)
    weight, flat_x, flat_seed = np.asarray(layer.weight), x.reshape(-1, 5), seed.reshape(-1, 4)
    assert out.shape == (*leading, 4)
    for ours, expected in (
        (out, np.einsum("...i,io->...o", x, weight) + np.arange(4.0)),
        (grads[0].weight, flat_x.T @ flat_seed),
        (grads[0].bias, flat_seed.sum(axis=0)),
        (grads[1], np.einsum("...o,io->...i", seed, weight)),
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)


def test_forward_mode_second_order_and_vmap_work(layer: Linear) -> None:
    x, v = (jnp.asarray(normal(3, 5, seed=seed)) for seed in (1, 2))

    def squares(weight: jax.Array) -> jax.Array:
        return jnp.square(eqx.tree_at(lambda one: one.weight, layer, weight)(x)).sum()

    @jax.jit
    def everything(x: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        _, tangent = jax.jvp(layer, (x,), (v,))
        return tangent, jax.vmap(layer)(x), layer(x), jax.hessian(squares)(layer.weight)

    tangent, mapped, plain, hessian = everything(x, v)
    np.testing.assert_allclose(tangent, v @ np.asarray(layer.weight), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(mapped, plain, rtol=1e-5, atol=1e-6)
    expected = np.einsum("ij,ok->iojk", 2 * np.asarray(x.T @ x), np.eye(4))
    np.testing.assert_allclose(hessian, expected, rtol=1e-4, atol=1e-5)


def test_without_bias_the_map_is_linear() -> None:
    layer = eqx.filter_jit(lambda key: Linear(5, 4, key=key, bias=False))(jax.random.key(0))
    assert layer.bias is None
    assert not layer(jnp.zeros((2, 5))).any()


def test_biases_start_at_zero_except_in_the_torch_scheme() -> None:
    make = eqx.filter_jit(lambda key, scheme: Linear(25, 400, key=key, initializer=scheme))
    assert not np.asarray(make(jax.random.key(0), "he").bias).any()
    largest = np.abs(np.asarray(make(jax.random.key(0), "torch").bias)).max()
    assert 0.19 < largest <= 0.2  # 1 / sqrt(25)


def test_gain_multiplies_the_standard_deviation() -> None:
    make = eqx.filter_jit(lambda key, gain: Linear(5, 4, key=key, gain=gain))
    one, three = (make(jax.random.key(0), gain) for gain in (1.0, 3.0))
    np.testing.assert_allclose(three.weight, 3 * np.asarray(one.weight), rtol=1e-6)


def test_low_precision_weights_and_inputs_give_low_precision_outputs(layer: Linear) -> None:
    # The policy of training in bfloat16: matrices and inputs are lowered, the bias vector stays as it is.
    lowered = eqx.tree_at(lambda one: one.weight, layer, layer.weight.astype(jnp.bfloat16))
    x = normal(7, 5)
    out = eqx.filter_jit(lowered)(jnp.asarray(x, jnp.bfloat16))
    assert out.dtype == jnp.bfloat16
    assert lowered.bias.dtype == jnp.float32
    exact = x @ np.asarray(layer.weight) + np.arange(4.0)
    np.testing.assert_allclose(np.asarray(out, np.float32), exact, rtol=0.05, atol=0.05)


def test_double_precision_stays_double() -> None:
    with jax.enable_x64(True):
        layer = jax.eval_shape(lambda: Linear(5, 4, key=jax.random.key(0)))
        out = jax.eval_shape(lambda layer, x: layer(x), layer, np.ones((2, 5)))
        assert layer.weight.dtype == out.dtype == jnp.float64


def test_the_wrong_number_of_inputs_is_an_error(layer: Linear) -> None:
    with pytest.raises(
        ArgumentError, match=r"Linear: the input of shape \(2, 6\) has 6 features, the layer takes 5"
    ):
        layer(jnp.ones((2, 6)))


def test_in_half_the_digits_the_gradient_of_a_bias_is_still_summed_in_single_precision() -> None:
    x = jnp.zeros((40, 3), jnp.bfloat16)
    slope = jax.grad(lambda bias: plus(x, bias).sum().astype(jnp.float32))
    sums = [e for e in jax.make_jaxpr(slope)(jnp.zeros((1, 3))).eqns if e.primitive.name == "reduce_sum"]
    assert {e.invars[0].aval.dtype.name for e in sums} == {"float32"}
    np.testing.assert_array_equal(slope(jnp.zeros((1, 3))), np.full((1, 3), 40.0))
    moved = jax.jvp(plus, (x, jnp.zeros((1, 3))), (x + 1, jnp.ones((1, 3))))[1]
    assert moved.dtype == jnp.bfloat16
    np.testing.assert_array_equal(moved, 2.0)
