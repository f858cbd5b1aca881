"""The recurrent network over tokens: its size, its memory, where its gradients end."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.data.batches import Batch, Beginnings
from chainrule.data.schema import Schema
from chainrule.models.text.char_rnn import CharRNN

LETTERS = Schema("text", (13,), tokens=tuple("\nabcdefghij"))
X = np.random.default_rng(0).integers(0, 11, (2, 12)).astype(np.int32)


def built(**settings: Any) -> CharRNN:
    model = models.build("char-rnn", LETTERS, **{"embedding": 6, "width": 8, **settings})
    assert isinstance(model, CharRNN)
    return model


logits_of = eqx.filter_jit(CharRNN.logits)


def test_the_classical_recipe_has_36284_parameters_for_60_symbols() -> None:
    schema = Schema("text", (101,), tokens=tuple(map(chr, range(60))))
    shapes = eqx.filter_eval_shape(models.build, "char-rnn", schema)
    leaves = [leaf for leaf in jax.tree.leaves(shapes) if isinstance(leaf, jax.ShapeDtypeStruct)]
    assert sum(leaf.size for leaf in leaves) == 36_284


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_reading_piece_by_piece_gives_the_logits_of_the_whole_text(cell: str) -> None:
    model = built(cell=cell, depth=2)
    whole, advance = np.asarray(logits_of(model, jnp.asarray(X))), eqx.filter_jit(model.advance)
    first, state = advance(model.start(2, 3), jnp.asarray(X[:, :5]))
    second, state = advance(state, jnp.asarray(X[:, 5:7]))
    third, state = advance(state.fork(jnp.array([1, 1])), jnp.asarray(X[[1, 1], 7:]))
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), whole[:, :7], atol=1e-5)
    np.testing.assert_allclose(third, whole[[1, 1], 7:], atol=1e-5)
    assert int(state.position) == 12


def test_its_memory_does_not_grow_and_cannot_be_rewound() -> None:
    model = built(cell="lstm")
    short, long = (model.start(2, room) for room in (3, 100_000))
    assert sum(a.size for a in jax.tree.leaves(short)) == sum(a.size for a in jax.tree.leaves(long))
    with pytest.raises(CapabilityError, match=r"rewind\(1\)"):
        short.rewind(1)


def test_a_prompt_may_be_longer_than_the_windows_it_was_trained_on() -> None:
    model = built()
    drawn = model.sample(jax.random.key(0), 2, prompt="abcdefghij" * 4, length=5)
    assert drawn.shape == (2, 45)


def test_gradients_end_where_they_are_truncated_but_values_do_not_change() -> None:
    whole, cut = built(), built(truncate=4)
    x = jnp.asarray(X[:1])
    np.testing.assert_allclose(logits_of(whole, x), logits_of(cut, x), atol=1e-6)

    @eqx.filter_jit
    def slope(model: CharRNN) -> jax.Array:
        return jax.grad(lambda h: model._outputs(h, None)[0][0, -1].sum())(model.embedding(x))

    def reach(model: CharRNN) -> np.ndarray:
        return np.abs(np.asarray(slope(model))[0]).max(axis=1)

    assert (reach(whole) > 0).all()
    np.testing.assert_array_equal(reach(cut) > 0, np.arange(12) >= 8)


def test_states_are_carried_to_the_passages_that_go_on_and_to_no_others() -> None:
    schema = Schema("text", (7,), tokens=LETTERS.tokens, streams=2)
    model = models.build("char-rnn", schema, embedding=6, width=8, cell="lstm")
    assert isinstance(model, CharRNN)
    read = eqx.filter_jit(lambda model, batch: model.loss_and_state(batch, key))
    text, key = jnp.asarray(np.concatenate([X, X[:, :1]], axis=1)), jax.random.key(0)
    first, second = (Batch(text[:, i : i + 7], Beginnings(jnp.array([i, 50 + i]))) for i in (0, 6))
    losses = []
    for batch in (first, second, first):
        loss, _, model = read(model, batch)
        losses.append(float(loss))
    whole = np.asarray(eqx.filter_jit(model.surprisal)(text))
    np.testing.assert_allclose(losses[:2], [whole[:, :6].mean(), whole[:, 6:].mean()], rtol=1e-5)
    assert losses[2] == losses[0], "a passage from elsewhere begins with nothing"
    assert float(eqx.filter_jit(model.loss)(second, key)[0]) != losses[1], "judging carries nothing"
    assert len(model.state()) == 3, "two states, and where they ended"


def test_segments_change_memory_only() -> None:
    x = jnp.asarray(X)

    @eqx.filter_jit
    def slope(model: CharRNN) -> Any:
        return eqx.filter_grad(lambda m: m.surprisal(x).mean())(model)

    plain, segmented = slope(built()), slope(built(segment=0))
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(segmented), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_dropout_needs_a_key() -> None:
    model = built(dropout=0.5)
    x = jnp.asarray(X)
    np.testing.assert_array_equal(logits_of(model, x), logits_of(model, x))
    assert not np.allclose(logits_of(model, x), logits_of(model, x, jax.random.key(1)))


def test_what_its_layers_read_is_what_they_pass_on() -> None:
    model = built(depth=2, cell="gru")

    @eqx.filter_jit
    def parts(model: CharRNN, x: jax.Array) -> tuple[jax.Array, ...]:
        (first, inputs), (second, between) = model.recurrence(x)
        return first(inputs)[0], between, model.head(second(between)[0])

    passed, between, out = parts(model, jnp.asarray(X))
    np.testing.assert_allclose(passed, between, atol=1e-6)
    np.testing.assert_allclose(out, logits_of(model, jnp.asarray(X)), atol=1e-5)


def test_each_of_several_prompts_goes_on_as_if_it_were_alone() -> None:
    model, key = built(), jax.random.key(2)
    together = np.asarray(model.sample(key, 3, prompt=["ab", "cdef", "ab"], length=5))
    for rows, prompt in (([0, 2], "ab"), ([1], "cdef")):
        alone = np.asarray(model.sample(key, len(rows), prompt=prompt, length=5))
        np.testing.assert_array_equal(together[rows, : alone.shape[1]], alone)
