"""The perceptron over a window of tokens."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree

from chainrule.core import tree
from chainrule.data.schema import Schema
from chainrule.models.text.window_mlp import WindowMLP, WindowMLPConfig

SCHEMA = Schema("text", (10,), tokens=("a", "b", "c", "d", "e"))
X = jnp.asarray(np.random.default_rng(0).integers(0, 5, size=(3, 10)), jnp.int32)


def build(**config: int | bool | float) -> WindowMLP:
    return WindowMLP(WindowMLPConfig(**config), SCHEMA, jax.random.key(0))


logits_of = eqx.filter_jit(WindowMLP.logits)


def test_the_first_matrix_has_as_many_rows_as_hidden_units() -> None:
    model = build(context=3, embedding=4, width=7, depth=2)
    assert [layer.weight.shape for layer in model.hidden] == [(12, 7), (7, 7)]
    assert model.out.weight.shape == (7, 4)
    assert eqx.filter_eval_shape(model.logits, X).shape == (3, 10, 5)


def test_the_gradient_of_a_tied_table_is_the_sum_over_both_uses() -> None:
    with jax.enable_x64(True):
        tied = tree.cast(build(context=2, embedding=4, width=6, depth=1), jnp.float64)
        apart = tree.cast(build(context=2, embedding=4, width=6, depth=1, tie=False), jnp.float64)
        apart = eqx.tree_at(
            lambda m: (m.embedding, m.decoder, m.hidden, m.out),
            apart,
            (tied.embedding, tied.embedding, tied.hidden, tied.out),
        )
        slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.surprisal(X).mean()))
        one, two = slope(tied), slope(apart)
        assert np.allclose(
            one.embedding.weight, two.embedding.weight + two.decoder.weight, rtol=0, atol=1e-13
        )
        assert np.abs(two.decoder.weight).max() > 1e-3
        assert np.abs(two.embedding.weight).max() > 1e-5


def test_a_bigram_of_full_rank_reaches_the_empirical_conditional_entropy() -> None:
    noise = np.random.default_rng(3)
    text = noise.choice(5, size=500, p=[0.4, 0.3, 0.15, 0.1, 0.05])
    text[1:] = np.where(noise.random(499) < 0.5, (text[:-1] * 2 + 1) % 5, text[1:])
    counts = np.zeros((5, 5))
    np.add.at(counts, (text[:-1], text[1:]), 1)
    p = counts / counts.sum(axis=1, keepdims=True)
    entropy = -(counts * np.log(np.where(p > 0, p, 1))).sum() / counts.sum()
    with jax.enable_x64(True):
        model = tree.cast(build(context=1, embedding=5, depth=0), jnp.float64)
        start = eqx.tree_at(lambda m: m.embedding.weight, model, jnp.asarray(noise.normal(size=(5, 5))))
        flat, back = ravel_pytree(eqx.filter(start, eqx.is_array))
        static = eqx.filter(start, eqx.is_array, inverse=True)
        x = jnp.asarray(text)[None, :]

        @jax.jit
        def loss(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
            return jax.value_and_grad(lambda flat: eqx.combine(back(flat), static).surprisal(x).mean())(flat)

        found = scipy.optimize.minimize(
            lambda flat: [np.asarray(part) for part in loss(flat)],
            np.asarray(flat),
            jac=True,
            method="L-BFGS-B",
        )
    assert abs(found.fun - entropy) < 1e-3


def test_a_prediction_depends_on_the_window_and_on_nothing_else() -> None:
    model = build(context=3, embedding=4, width=8, depth=1)
    x = np.asarray(X)
    logits = np.asarray(logits_of(model, X))
    for position in range(10):
        other = np.where(np.arange(10) == position, (x + 1) % 5, x)
        moved = np.asarray(logits_of(model, jnp.asarray(other)))
        changed = np.abs(moved - logits).max(axis=(0, 2)) > 0
        assert changed.tolist() == [position <= t < position + 3 for t in range(10)]


def test_reading_on_gives_the_logits_of_reading_at_once() -> None:
    model = build(context=4, embedding=4, width=8, depth=1)
    state, parts, advance = model.start(3, 10), [], eqx.filter_jit(model.advance)
    for piece in np.split(np.asarray(X), [1, 2, 3], axis=1):
        logits, state = advance(state, jnp.asarray(piece))
        parts.append(logits)
    assert np.allclose(np.concatenate(parts, axis=1), logits_of(model, X), atol=1e-6)


def test_dropout_is_on_with_a_key_and_off_in_inference_mode() -> None:
    model = build(context=2, embedding=4, width=32, depth=1, dropout=0.5)
    key = jax.random.key(1)
    assert not np.allclose(logits_of(model, X, key), logits_of(model, X))
    assert np.allclose(logits_of(eqx.nn.inference_mode(model), X, key), logits_of(model, X))
