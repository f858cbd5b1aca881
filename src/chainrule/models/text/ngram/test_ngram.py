"""The n-gram model against counting."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

from chainrule.data.schema import Schema
from chainrule.models.text.ngram import Ngram, NgramConfig

SCHEMA = Schema("text", (400,), tokens=("a", "b", "c", "d"))
TEXT = np.random.default_rng(0).choice(4, size=400, p=[0.5, 0.25, 0.15, 0.1])
TEXT[1:] = np.where(np.random.default_rng(1).random(399) < 0.5, (TEXT[:-1] * 3 + 1) % 4, TEXT[1:])


def build(**config: int) -> Ngram:
    return Ngram(NgramConfig(**config), SCHEMA, jax.random.key(0))


def conditional_entropy(order: int) -> float:
    """Empirical entropy of a token given the `order - 1` before it, in nats, over the positions that have them."""
    grams = np.stack([TEXT[i : len(TEXT) - order + 1 + i] for i in range(order)], axis=1)
    total = 0.0
    for context in itertools.product(range(4), repeat=order - 1):
        after = grams[(grams[:, :-1] == context).all(axis=1), -1]
        counts = np.bincount(after, minlength=4)
        total -= (counts * np.log(np.maximum(counts, 1) / max(counts.sum(), 1))).sum()
    return total / len(grams)


@pytest.mark.parametrize("order", [2, 3])
def test_trained_to_the_end_it_is_the_empirical_conditional_distribution(order: int) -> None:
    with jax.enable_x64(True):
        model = build(order=order)
        arrays, static = eqx.partition(model, eqx.is_array)
        start, back = ravel_pytree(jax.tree.map(lambda a: a.astype(jnp.float64), arrays))
        x = jnp.asarray(TEXT)[None, :]

        @jax.jit
        def loss(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
            def nats(flat: jax.Array) -> jax.Array:
                return eqx.combine(back(flat), static).surprisal(x)[0, order - 2 :].mean()

            return jax.value_and_grad(nats)(flat)

        found = scipy.optimize.minimize(
            lambda flat: [np.asarray(part) for part in loss(flat)],
            np.asarray(start),
            jac=True,
            method="L-BFGS-B",
        )
        assert abs(found.fun - conditional_entropy(order)) < 1e-3


def test_a_context_that_was_never_met_leaves_the_word_to_shorter_ones() -> None:
    model = build(order=3)
    shorter = eqx.tree_at(
        lambda m: m.tables[:2], model, (jnp.array([[1.0, 0, 0, 0]]), jnp.arange(20.0).reshape(5, 4))
    )
    logits = eqx.filter_jit(shorter.logits)(jnp.array([[2, 3]]))
    assert np.allclose(logits[0, 1], np.array([1.0, 0, 0, 0]) + np.arange(12.0, 16.0))


def test_tables_are_no_larger_than_there_are_contexts() -> None:
    assert [len(table) for table in build(order=4, contexts=100).tables] == [1, 5, 25, 100]


def test_different_contexts_have_rows_of_their_own_where_there_are_enough() -> None:
    model = build(order=4, contexts=125)
    every = jnp.array(list(itertools.product(range(5), repeat=3)))
    rows_of = eqx.filter_jit(lambda model: model._rows(every, 3)[:, -1])
    assert len(np.unique(rows_of(model))) == 125
    rows = np.asarray(rows_of(build(order=4, contexts=124)))
    assert rows.max() < 124
    assert len(np.unique(rows)) > 60, "a hash that spreads"


@pytest.mark.parametrize("contexts", [1000, 7])
def test_reading_on_gives_the_logits_of_reading_at_once(contexts: int) -> None:
    noise = np.random.default_rng(2)
    model = build(order=4, contexts=contexts)
    tables = tuple(jnp.asarray(noise.normal(size=table.shape)) for table in model.tables)
    model = eqx.tree_at(lambda m: m.tables, model, tables)
    x = jnp.asarray(noise.integers(0, 4, size=(3, 9)), jnp.int32)
    whole, advance = eqx.filter_jit(model.logits)(x), eqx.filter_jit(model.advance)
    state, parts = model.start(3, 9), []
    for piece in np.split(np.asarray(x), [1, 2, 6], axis=1):
        logits, state = advance(state, jnp.asarray(piece))
        parts.append(logits)
    assert np.allclose(np.concatenate(parts, axis=1), whole, atol=1e-6)
    assert int(state.position) == 9
