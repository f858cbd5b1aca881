"""The perceptron beyond the promises every model keeps: its layers, its variants, what it learns."""

import itertools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema
from chainrule.models.supervised.mlp import MLP
from tests.contracts import checks

CLASSES = Schema("image", (3, 2, 1), target="class", classes=("a", "b", "c"))
LABELS = Schema("table", (6,), target="labels", target_shape=(3,), classes=("a", "b", "c"))
VALUE = Schema("table", (6,), target="value")
VALUES = Schema("table", (6,), target="value", target_shape=(2, 2))
SMALL = {"width": 5, "depth": 3, "dropout": 0.0}


def build(schema: Schema, **settings: Any) -> MLP:
    model = models.build("mlp", schema, **{**SMALL, **settings})
    assert isinstance(model, MLP)
    return model


def batch(schema: Schema, n: int = 8) -> Batch:
    noise = np.random.default_rng(0)
    x = jnp.asarray(noise.normal(size=(n, *schema.shape)), jnp.float32)
    if schema.target == "class":
        return Batch(x, jnp.asarray(np.arange(n) % len(schema.classes), jnp.int32))
    if schema.target == "labels":
        return Batch(x, jnp.asarray(noise.integers(0, 2, (n, 3)), jnp.uint8))
    return Batch(x, jnp.asarray(noise.normal(size=(n, *schema.target_shape)), jnp.float32))


def by_hand(model: MLP, x: np.ndarray) -> np.ndarray:
    """Affine maps with rectifiers between them, in double precision."""
    h = x.reshape(len(x), -1).astype(np.float64)
    for block in model.blocks:
        h = np.maximum(h @ np.asarray(block.linear.weight) + np.asarray(block.linear.bias), 0)
    return h @ np.asarray(model.head.weight) + np.asarray(model.head.bias)


def test_class_probabilities_are_the_softmax_of_the_layers_in_turn() -> None:
    model, examples = build(CLASSES), batch(CLASSES)
    logits = by_hand(model, np.asarray(examples.x))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(examples.x), p, rtol=1e-4, atol=1e-6)
    loss, metrics = model.loss(examples, jax.random.key(0))
    assert float(loss) == pytest.approx(-np.log(p[np.arange(8), np.asarray(examples.y)]).mean(), rel=1e-5)
    assert float(metrics["accuracy"]) == pytest.approx((p.argmax(axis=1) == np.asarray(examples.y)).mean())


def test_labels_have_a_probability_each_and_the_mean_of_their_cross_entropies() -> None:
    model, examples = build(LABELS), batch(LABELS)
    p = 1 / (1 + np.exp(-by_hand(model, np.asarray(examples.x))))
    y = np.asarray(examples.y).astype(bool)
    np.testing.assert_allclose(model.predict(examples.x), p, rtol=1e-4, atol=1e-6)
    loss, metrics = model.loss(examples, jax.random.key(0))
    assert float(loss) == pytest.approx(-np.log(np.where(y, p, 1 - p)).mean(), rel=1e-5)
    assert float(metrics["exact_match"]) == pytest.approx(((p > 0.5) == y).all(axis=1).mean())


@pytest.mark.parametrize("schema", [VALUE, VALUES])
def test_values_have_the_shape_of_the_target_and_a_mean_squared_error(schema: Schema) -> None:
    model, examples = build(schema), batch(schema)
    out = by_hand(model, np.asarray(examples.x)).reshape(8, *schema.target_shape)
    np.testing.assert_allclose(model.predict(examples.x), out, rtol=1e-4, atol=1e-6)
    loss, metrics = model.loss(examples, jax.random.key(0))
    assert float(loss) == pytest.approx(np.square(out - np.asarray(examples.y)).mean(), rel=1e-5)
    assert not metrics


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_depth_counts_affine_layers(depth: int) -> None:
    model = build(CLASSES, depth=depth)
    assert len(model.blocks) + 1 == depth
    widths = [6, *[5] * (depth - 1), 3]
    shapes = [b.linear.weight.shape for b in model.blocks] + [model.head.weight.shape]
    assert shapes == list(itertools.pairwise(widths))


def test_hidden_weights_have_the_variance_of_their_activation() -> None:
    for name, gain in (("relu", math.sqrt(2)), ("tanh", 5 / 3)):
        weights = np.asarray(build(CLASSES, width=200, activation=name).blocks[1].linear.weight)
        assert weights.std() == pytest.approx(gain / math.sqrt(200), rel=0.02)


@pytest.mark.parametrize(
    "settings",
    [
        {"normalization": "batch"},
        {"normalization": "layer"},
        {"dropout": 0.5},
        {"activation": "gelu", "initializer": "orthogonal"},
        {"activation": "softplus", "initializer": "torch", "depth": 1},
    ],
)
@pytest.mark.parametrize(
    "schema", [CLASSES, *(pytest.param(schema, marks=pytest.mark.slow) for schema in (LABELS, VALUE))]
)
def test_variants_keep_the_promises_of_the_loss(schema: Schema, settings: dict) -> None:
    model, examples = build(schema, **settings), batch(schema)
    checks.check_gradient(model, examples)
    checks.check_order(model, examples)
    checks.check_state(model, examples)
    checks.check_predict(model, examples, schema)


def test_training_moves_the_running_statistics_and_prediction_uses_them() -> None:
    model, examples = build(CLASSES, normalization="batch"), batch(CLASSES)
    _, _, moved = model.loss_and_state(examples, jax.random.key(0))
    assert len(moved.state()) == 4  # mean and variance of two hidden layers
    hidden = np.asarray(examples.x).reshape(8, 6) @ np.asarray(model.blocks[0].linear.weight)
    np.testing.assert_allclose(moved.blocks[0].norm.mean, 0.1 * hidden.mean(axis=0), rtol=1e-4, atol=1e-6)
    still = eqx.nn.inference_mode(moved).loss_and_state(examples, jax.random.key(0))[2]
    for before, after in zip(moved.state(), still.state(), strict=True):
        np.testing.assert_array_equal(before, after)
    assert not np.allclose(model.predict(examples.x), moved.predict(examples.x), atol=1e-4)


def test_dropout_works_in_training_only() -> None:
    model, examples = build(CLASSES, dropout=0.5), batch(CLASSES)
    losses = {float(model.loss(examples, jax.random.key(seed))[0]) for seed in range(3)}
    assert len(losses) == 3
    still = eqx.nn.inference_mode(model)
    assert len({float(still.loss(examples, jax.random.key(seed))[0]) for seed in range(3)}) == 1
    np.testing.assert_array_equal(model.predict(examples.x), still.predict(examples.x))


def test_every_hidden_layer_drops_units_of_its_own() -> None:
    wide = Schema("table", (400,), target="value", target_shape=(400,))
    model = build(wide, width=400, dropout=0.5, activation="identity")
    weights = [*(lambda m, i=i: m.blocks[i].linear.weight for i in range(2)), lambda m: m.head.weight]
    for where in weights:  # each layer passes on what it is given, so that what is left was dropped nowhere
        model = eqx.tree_at(where, model, jnp.eye(400))
    out, _ = model.outputs(jnp.ones((10, 400)), jax.random.key(0))
    assert float((out != 0).mean()) == pytest.approx(0.25, abs=0.03)


def test_a_normaliser_stands_before_or_after_the_nonlinearity() -> None:
    x = batch(VALUE).x
    for when in ("before", "after"):
        model = build(VALUE, depth=2, normalization="batch", normalize=when)
        h = np.asarray(x) @ np.asarray(model.blocks[0].linear.weight)  # biases start at zero
        h = np.maximum(h, 0) if when == "after" else h
        h = (h - h.mean(axis=0)) / np.sqrt(h.var(axis=0) + 1e-5)
        h = h if when == "after" else np.maximum(h, 0)
        out, _ = model.outputs(x, jax.random.key(0))
        np.testing.assert_allclose(out, h @ np.asarray(model.head.weight), rtol=1e-3, atol=1e-4)


def test_an_activation_after_the_last_layer_is_applied_to_the_outputs() -> None:
    examples = batch(VALUE)
    model = build(VALUE, final_activation="relu")
    expected = np.maximum(by_hand(model, np.asarray(examples.x))[:, 0], 0)
    np.testing.assert_allclose(model.predict(examples.x), expected, rtol=1e-4, atol=1e-6)


def test_data_it_cannot_be_trained_on_are_refused() -> None:
    with pytest.raises(CapabilityError, match=r"mlp needs .* these are text data with target none"):
        models.build("mlp", Schema("text", (16,), tokens=("a", "b")))
    mixed = Schema("audio", (64, 1), "sources", (2, 64, 1), ("voice", "rest"), rate=8192)
    with pytest.raises(CapabilityError, match=r"with target sources\n.*fit your data: separator; all models"):
        models.build("mlp", mixed)


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"width": 0}, {"dropout": 1.0}, {"activation": "none"}])
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    (name,) = wrong
    with pytest.raises(ArgumentError, match=f"{name}="):
        build(CLASSES, **wrong)


def test_what_the_error_of_a_flat_activation_recommends_can_be_trained() -> None:
    def gradient(**settings: str) -> jax.Array:
        model, examples = build(VALUE, width=8, dropout=0.0, **settings), batch(VALUE)
        slope = eqx.filter_grad(lambda model: model.loss(examples, jax.random.key(0))[0])
        return eqx.filter_jit(slope)(model).blocks[0].linear.weight

    with pytest.raises(ArgumentError, match="use sign-straight-through"):
        gradient(activation="sign")
    assert np.abs(gradient(activation="sign-straight-through")).max() > 0
