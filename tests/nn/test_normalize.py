"""Normalisation: moments of the output, gradients, running statistics, precision."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.nn import BatchNorm, LayerNorm, NoNorm, Norm, norm
from chainrule.nn.normalize import standardised

FEATURES, EPS = 6, 0.1
SCALE, SHIFT = np.linspace(0.5, 2.0, FEATURES), np.linspace(-1.0, 1.0, FEATURES)


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return 3 + 2 * np.random.default_rng(seed).normal(size=shape)


def with_affine(layer: Norm) -> Norm:
    """The layer with a scale and a shift that are not one and zero."""
    return eqx.tree_at(lambda one: (one.scale, one.shift), layer, (jnp.asarray(SCALE), jnp.asarray(SHIFT)))


advance = eqx.filter_jit(lambda layer, x: layer.advance(x))
apply = eqx.filter_jit(lambda layer, x: layer(x))


@pytest.mark.parametrize("shape", [(8, FEATURES), (4, 5, FEATURES), (2, 3, 4, FEATURES)])
def test_batch_norm_output_has_mean_shift_and_variance_scale_squared_v_over_v_plus_eps(
    shape: tuple[int, ...],
) -> None:
    x, axes = values(*shape), tuple(range(len(shape) - 1))
    with jax.enable_x64(True):
        out = np.asarray(advance(with_affine(BatchNorm(FEATURES, eps=EPS)), x)[0])
    v = x.var(axis=axes)
    np.testing.assert_allclose(out.mean(axis=axes), SHIFT, atol=1e-12)
    np.testing.assert_allclose(out.var(axis=axes), SCALE**2 * v / (v + EPS), rtol=1e-12)


def test_batch_norm_input_gradients_sum_to_zero_over_the_batch() -> None:
    with jax.enable_x64(True):
        layer, seed = with_affine(BatchNorm(FEATURES)), values(8, FEATURES, seed=1)
        grad = jax.jit(jax.grad(lambda x: jnp.vdot(layer.advance(x)[0], seed)))(values(8, FEATURES))
    assert np.abs(np.asarray(grad)).max() > 1e-3
    np.testing.assert_allclose(np.asarray(grad).sum(axis=0), np.zeros(FEATURES), atol=1e-12)


def test_batch_norm_running_statistics_follow_their_recursion() -> None:
    layer, mean, var = BatchNorm(FEATURES, new_weight=0.3), np.zeros(FEATURES), np.ones(FEATURES)
    for seed in range(4):
        x = values(16, FEATURES, seed=seed).astype(np.float32)
        _, layer = advance(layer, x)
        mean = 0.7 * mean + 0.3 * x.mean(axis=0)
        var = 0.7 * var + 0.3 * x.var(axis=0)  # biased, as in the normalisation itself
    np.testing.assert_allclose(layer.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(layer.var, var, rtol=1e-5)


def test_batch_norm_predicts_with_the_running_statistics_even_for_a_single_example() -> None:
    layer = with_affine(BatchNorm(FEATURES))
    mean, var = np.linspace(2, 4, FEATURES), np.linspace(3, 5, FEATURES)
    layer = eqx.tree_at(lambda one: (one.mean, one.var), layer, (jnp.asarray(mean), jnp.asarray(var)))
    x = values(5, FEATURES).astype(np.float32)
    expected = (x - mean) / np.sqrt(var + 1e-5) * SCALE + SHIFT
    np.testing.assert_allclose(apply(layer, x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(apply(layer, x[:1]), expected[:1], rtol=1e-4, atol=1e-5)


def test_batch_norm_agrees_with_torch_up_to_its_unbiased_running_variance(oracle: Callable) -> None:
    torch = oracle("torch")
    theirs, x = torch.nn.BatchNorm1d(FEATURES), values(9, FEATURES).astype(np.float32)
    out, ours = advance(BatchNorm(FEATURES), x)
    np.testing.assert_allclose(out, theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.mean, theirs.running_mean.numpy(), rtol=1e-5)
    np.testing.assert_allclose(ours.var, 0.9 + (theirs.running_var.numpy() - 0.9) * 8 / 9, rtol=1e-5)


def test_no_gradient_flows_into_or_through_running_statistics() -> None:
    x = jnp.asarray(values(5, FEATURES))
    for f in (lambda one: one(x).sum(), lambda one: one.advance(x)[1].mean.sum()):
        grad = eqx.filter_jit(jax.grad(f))(BatchNorm(FEATURES))
        assert not np.asarray(grad.mean).any()
        assert not np.asarray(grad.var).any()


@pytest.mark.parametrize("shape", [(1, FEATURES), (1, 1, FEATURES)])
def test_batch_norm_refuses_one_value_per_feature_while_training(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match="one value per feature") as raised:
        BatchNorm(FEATURES).advance(jnp.asarray(values(*shape)))
    assert "batch of at least 2" in raised.value.remedy


def test_one_image_has_enough_values_per_channel() -> None:
    out, _ = advance(BatchNorm(FEATURES), values(1, 4, 4, FEATURES).astype(np.float32))
    np.testing.assert_allclose(np.asarray(out).mean(axis=(0, 1, 2)), np.zeros(FEATURES), atol=1e-5)


@pytest.mark.parametrize("shape", [(FEATURES,), (4, FEATURES), (2, 3, FEATURES)])
def test_layer_norm_normalises_each_example_by_itself(shape: tuple[int, ...]) -> None:
    x = values(*shape)
    with jax.enable_x64(True):
        out = np.asarray(apply(with_affine(LayerNorm(FEATURES, eps=EPS)), x))
    mean, v = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    np.testing.assert_allclose(out, (x - mean) / np.sqrt(v + EPS) * SCALE + SHIFT, rtol=1e-12, atol=1e-12)


def test_layer_norm_is_the_same_in_training() -> None:
    layer, x = LayerNorm(FEATURES), values(4, FEATURES).astype(np.float32)
    out, _ = advance(layer, x)
    np.testing.assert_array_equal(out, apply(layer, x))
    assert layer.advance(jnp.asarray(x))[1] is layer


def test_layer_norm_agrees_with_torch(oracle: Callable) -> None:
    torch = oracle("torch")
    x = values(4, FEATURES).astype(np.float32)
    theirs = torch.nn.LayerNorm(FEATURES)(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(apply(LayerNorm(FEATURES), x), theirs, rtol=1e-4, atol=1e-5)


def test_no_norm_changes_nothing() -> None:
    layer, x = NoNorm(FEATURES), jnp.ones((4, FEATURES))
    assert layer(x) is x
    out, after = layer.advance(x)
    assert out is x
    assert after is layer


@pytest.mark.parametrize("name", ["batch", "layer"])
def test_a_constant_input_gives_the_shift_and_a_finite_gradient(name: str) -> None:
    layer, x = norm(name, FEATURES), np.full((4, FEATURES), 7.0, np.float32)
    out, grad = jax.jit(lambda x: (layer.advance(x)[0], jax.vjp(lambda x: layer.advance(x)[0], x)[1](x)[0]))(
        x
    )
    np.testing.assert_allclose(out, np.zeros((4, FEATURES)), atol=1e-6)
    assert np.isfinite(grad).all()


@pytest.mark.parametrize("name", ["none", "batch", "layer"])
def test_low_precision_goes_in_and_comes_out_and_state_stays(name: str) -> None:
    layer = norm(name, FEATURES)
    out, after = jax.eval_shape(lambda x: layer.advance(x), jnp.ones((8, FEATURES), jnp.bfloat16))
    assert out.dtype == jnp.bfloat16
    assert jax.tree.map(lambda a: a.dtype, after) == jax.tree.map(lambda a: a.dtype, layer)


def test_statistics_of_a_low_precision_input_are_exact_to_single_precision() -> None:
    # 1000 + noise: bfloat16 sums would be off by whole units; the sums here are those of the rounded inputs.
    x = (1000 + 15 * values(512, FEATURES)).astype(jnp.bfloat16)
    _, after = advance(BatchNorm(FEATURES, new_weight=1.0), x)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(after.mean, exact.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(after.var, exact.var(axis=0), rtol=1e-4)


@pytest.mark.parametrize("name", ["batch", "layer", "rms"])
def test_one_feature_is_not_spread_over_many(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"shape \(2, 1\) has 1 features, the layer takes 5"):
        norm(name, 5)(jnp.ones((2, 1)))


def test_group_norm_needs_the_axes_it_normalises_over() -> None:
    with pytest.raises(ArgumentError, match=r"GroupNorm\(dimensions=2\): shape \(8, 4\).*\n.*dimensions=1"):
        norm("group", 4, dimensions=2)(jnp.ones((8, 4)))


def test_a_misspelt_normalization_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ArgumentError, match=r"unknown normalization 'bacth' \(did you mean 'batch'\?\)"):
        norm("bacth", 3)


def plain(x: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, ...]:
    mean = x.mean(axis=axes, keepdims=True)
    var = jnp.square(x - mean).mean(axis=axes, keepdims=True)
    return (x - mean) / jnp.sqrt(var + EPS), mean, var


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_the_written_derivative_is_the_derivative_in_both_modes_and_again(axes: tuple[int, ...]) -> None:
    def everything(f: Callable, x: jax.Array, v: jax.Array) -> Any:
        weighted = lambda x: sum((jnp.sin(part) * (i + 1)).sum() for i, part in enumerate(f(x, axes)))  # noqa: E731
        first, product = jax.jvp(jax.grad(weighted), (x,), (v,))
        return f(x, axes), jax.jvp(lambda x: f(x, axes), (x,), (v,)), first, product

    with jax.enable_x64(True):
        x, v = jnp.asarray(values(4, 3)), jnp.asarray(values(4, 3)[::-1].copy())
        ours = jax.jit(lambda x, v: everything(lambda x, axes: standardised(x, axes, EPS), x, v))(x, v)
        expected = jax.jit(lambda x, v: everything(plain, x, v))(x, v)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
