"""The transformer of pairs: shapes, ties, and dropout."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models, nn
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.models.text.translator import Translator

TINY = Schema("text", (5,), "text", (4,), tokens=("a", "b", "c"), target_tokens=("c", "d"))
X = jnp.array([[0, 1, 2, 0, 3], [1, 3, 3, 3, 3]], jnp.int32)
Y = jnp.array([[1, 0, 1, 2], [0, 2, 2, 2]], jnp.int32)


def build(**settings: Any) -> Translator:
    model = models.build("translator", TINY, **{"layers": 2, "heads": 2, "width": 8, **settings})
    assert isinstance(model, Translator)
    return model


start = eqx.filter_jit(Translator.start)
advance = eqx.filter_jit(Translator.advance)
loss = eqx.filter_jit(Translator.loss)


def test_queries_set_the_length_of_the_output_and_values_its_width() -> None:
    source, target = np.ones((2, 3)), np.ones((3, 4))
    keys, values, queries = np.ones((3, 4)), np.ones((3, 5)), np.ones((4, 4))
    pair = jnp.asarray(target @ queries), jnp.asarray(source @ keys)
    assert nn.attention.attention_weights(*pair).shape == (3, 2)
    assert nn.attention.attend(*pair, jnp.asarray(source @ values)).shape == (3, 5)


def test_the_begin_mark_is_read_but_never_written() -> None:
    model = build()
    assert model.target.weight.shape == (4, 8)  # two tokens, the end and the beginning
    for one in (model, build(tie=False)):
        assert eqx.filter_eval_shape(one.logits, X, Y).shape == (2, 4, 3)


def test_a_tied_table_gets_the_gradients_of_both_its_uses() -> None:
    model, batch = build(dropout=0.0), Batch(X, Y)
    apart = eqx.tree_at(
        lambda m: m.output,
        model,
        eqx.tree_at(lambda e: e.weight, model.target, model.target.weight[:-1]),
        is_leaf=lambda leaf: leaf is None,
    )

    @eqx.filter_jit
    def gradient(model: Translator) -> Translator:
        return eqx.filter_grad(lambda m: m.loss(batch, jax.random.key(0))[0])(model)

    both, each = gradient(model).target.weight, gradient(apart)
    summed = each.target.weight + jnp.pad(each.output.weight, ((0, 1), (0, 0)))
    np.testing.assert_allclose(both, summed, rtol=1e-4, atol=1e-6)


def test_dropout_is_for_training_only() -> None:
    model, batch = build(dropout=0.5), Batch(X, Y)
    assert len({float(loss(model, batch, jax.random.key(seed))[0]) for seed in range(3)}) == 3
    still = eqx.nn.inference_mode(model)
    assert len({float(loss(still, batch, jax.random.key(seed))[0]) for seed in range(3)}) == 1


def test_maps_are_named_by_layer_and_head_and_rows_sum_to_one() -> None:
    model = eqx.nn.inference_mode(build())
    assert model.alignment_names()[:3] == ("layer 1, head 1", "layer 1, head 2", "layer 2, head 1")
    weights = np.asarray(eqx.filter_jit(model.alignment)(X, Y))
    assert weights.shape == (2, 4, 4, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal(weights[1, :, :, 2:], 0)


def test_what_was_written_can_be_taken_back() -> None:
    model = eqx.nn.inference_mode(build())
    begin = jnp.full((2, 1), model.begin, jnp.int32)
    _, state = advance(model, start(model, X), begin)
    expected, _ = advance(model, state, Y[:, :1])
    _, further = advance(model, state, Y[:, 1:2])
    _, further = advance(model, further, Y[:, 2:3])
    found, _ = advance(model, further.rewind(1), Y[:, :1])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ArgumentError, match="a width of 8 cannot be split evenly"):
        build(heads=3)
