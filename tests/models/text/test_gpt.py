"""The transformer: its size, what it may see, its cache, and the ways to compute one loss."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.data.text.packing import pack
from chainrule.models.text import decoding
from chainrule.models.text.gpt import GPT
from chainrule.models.text.likelihoods import log_probs
from chainrule.nn.attention import Window
from chainrule.train import surprisal

LETTERS = Schema("text", (13,), tokens=tuple("\nabcdefghij"))
STYLES: dict[str, dict[str, Any]] = {
    "gpt2": {"preset": "gpt2"},
    "modern": {"key_heads": 1},
    "distance": {"positions": "distance"},
    "sinusoids": {"preset": "gpt2", "positions": "sinusoids"},
    "random-features": {"attention": "random-features"},
}
KEY = jax.random.key(3)


def built(**settings: Any) -> GPT:
    model = models.build("gpt", LETTERS, **{"layers": 2, "heads": 2, "width": 8, **settings})
    assert isinstance(model, GPT)
    return jax.tree.map(lambda a: a * 6 if eqx.is_array(a) and a.ndim > 1 else a, model)  # far from linear


@eqx.filter_jit
def slopes(model: GPT, h: jax.Array) -> jax.Array:
    """Derivatives of the logits of one text by the vectors of its tokens."""
    return jax.jacobian(lambda h: model.read_out(model.norm(model.through(h[None])))[0])(h)


@pytest.mark.parametrize("style", STYLES)
def test_no_logit_depends_on_what_comes_later(style: str) -> None:
    h = jnp.asarray(np.random.default_rng(3).normal(size=(6, 8)))
    found = slopes(built(**STYLES[style]), h)
    seen = np.abs(np.asarray(found)).max(axis=(1, 3))  # by output and input position
    assert (seen[np.triu_indices(6, 1)] == 0).all()
    assert (seen[np.tril_indices(6)] > 0).all()


@pytest.mark.parametrize("style", STYLES)
def test_reading_piece_by_piece_gives_the_logits_of_the_whole_text(style: str) -> None:
    model = built(**STYLES[style])
    x = jax.random.randint(KEY, (2, 12), 0, 11)
    whole, advance = eqx.filter_jit(model.logits)(x), eqx.filter_jit(model.advance)
    first, memory = advance(model.start(2, 12), x[:, :5])
    parts = [first]
    for t in range(5, 12):
        logits, memory = advance(memory, x[:, t : t + 1])
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-10)
    assert int(memory.position) == 12
    if style == "random-features":  # sums cannot forget
        return
    again, _ = advance(memory.rewind(7).fork(jnp.array([1, 1])), x[jnp.array([1, 1]), 7:])
    np.testing.assert_allclose(again, np.asarray(whole)[[1, 1], 7:], atol=1e-10)


DOCUMENTS = ["abc", "jihgfedcb", "aaa", "cab"]


@pytest.mark.parametrize("style", ["gpt2", "modern"])
def test_packed_padded_and_single_documents_have_the_same_likelihoods(style: str) -> None:
    model = built(**STYLES[style])
    single = [model.tokenizer.encode(text) for text in DOCUMENTS]
    log_prob = eqx.filter_jit(model.log_prob)
    alone = np.array([float(log_prob(jnp.asarray(one)[None])[0]) for one in single])
    np.testing.assert_allclose(log_probs(model, DOCUMENTS), alone, atol=1e-10)
    rows = pack(single, length=12)
    assert len(rows) == 2
    judged = surprisal.documents(model, rows, 11)
    np.testing.assert_allclose(judged.nats, -alone, atol=1e-10)
    batch = jax.tree.map(jnp.asarray, rows.batch(np.arange(2)))
    judge = eqx.filter_jit(model.loss)
    loss, _ = judge(batch, KEY)
    np.testing.assert_allclose(loss, -alone.sum() / sum(len(one) - 1 for one in single), atol=1e-10)
    other = batch._replace(x=jnp.where(batch.documents < 0, 7, batch.x))
    assert float(judge(other, KEY)[0]) == float(loss), "padding has no weight"


def test_a_document_longer_than_the_context_is_read_in_windows_that_overlap() -> None:
    model = built(**STYLES["modern"])
    texts = [np.arange(30) * 7 % 11, np.array([1, 2, 3]), np.arange(17) * 5 % 11]
    rows = pack([text.astype(np.int32) for text in texts], length=12)
    found = surprisal.documents(model, rows, 11, stride=5)
    logits = eqx.filter_jit(lambda x: jax.nn.log_softmax(model.logits(x), axis=-1))
    for text, nats in zip(texts, found.nats, strict=True):
        starts, counts = surprisal.window_spans(len(text), min(12, len(text) - 1), 5)
        expected = 0.0
        for start, count in zip(starts, counts, strict=True):
            passage = text[start : start + 13]
            log_p = np.asarray(logits(jnp.asarray(passage[None, :-1])))[0]
            expected -= log_p[np.arange(len(passage) - 1), passage[1:]][-count:].sum()
        assert nats == pytest.approx(expected, abs=1e-9)
    assert found.tokens.tolist() == [29, 2, 16]
    assert (surprisal.documents(model, rows, 11, stride=12).nats != found.nats).tolist() == [
        True,
        False,
        True,
    ]
    with pytest.raises(ArgumentError, match="stride=13"):
        surprisal.documents(model, rows, 11, stride=13)


def test_prompts_of_different_length_are_continued_together_as_each_alone() -> None:
    model = built(**STYLES["gpt2"])
    prompts = ["abcdef", "ba"]
    for options in ({"length": 6, "temperature": 0, "repetition": 1.3}, {"length": 6}, {"length": 9}):
        together = np.asarray(model.sample(KEY, 2, prompt=prompts, **options))
        for prompt, row in zip(prompts, together, strict=True):
            alone = np.asarray(model.sample(KEY, 1, prompt=prompt, **options))[0]
            assert row[: len(alone)].tolist() == alone.tolist()
            assert (row[len(alone) :] == -1).all()
    with pytest.raises(ArgumentError, match="2 prompts for n=3 texts"):
        model.sample(KEY, 3, prompt=prompts)
    with pytest.raises(ArgumentError, match="do not fit into a context of 12"):
        model.sample(KEY, 2, prompt=prompts, length=9, overflow="error")


def test_texts_that_cannot_be_judged_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"texts\[1\] has 14 tokens; it must have at least one and 13 at"):
        log_probs(built(), ["ab", "a" * 14])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_512_symbols_with_and_without_a_cache_are_the_same(temperature: float) -> None:
    room = 513
    schema = Schema("text", (room + 1,), tokens=LETTERS.tokens)
    model = models.build("gpt", schema, layers=2, heads=2, width=8)
    model = jax.tree.map(lambda a: a * 6 if eqx.is_array(a) and a.ndim > 1 else a, model)
    assert isinstance(model, GPT)
    rules = decoding.rules(11, temperature=temperature)
    cached = model.sample(KEY, 1, prompt="\n", length=room - 1, temperature=temperature, top_p=1.0)
    # No logit depends on what comes later: reading all of the text at once is reading each of its beginnings afresh.
    afresh = jnp.moveaxis(eqx.filter_jit(model.logits)(cached)[:, :-1], 1, 0)

    def drawn(logits: jax.Array, position: jax.Array) -> jax.Array:
        return decoding.draw(logits, None, KEY, position, rules)[0]

    expected = jax.jit(jax.vmap(drawn))(afresh, jnp.arange(1, room))
    assert cached[0, 1:].tolist() == expected[:, 0].tolist()


def test_past_the_context_crop_reads_afresh_and_a_window_slides() -> None:
    model = built()
    logits_of, advance = eqx.filter_jit(model.logits), eqx.filter_jit(model.advance)
    long = np.asarray(model.sample(KEY, 1, prompt="abc", length=20, temperature=0))
    for t in range(12, 22):
        logits = np.asarray(logits_of(jnp.asarray(long[:, t - 11 : t + 1])))[0, -1]
        assert logits.argmax() == long[0, t + 1]

    x = jax.random.randint(KEY, (1, 23), 0, 11)
    slid, _ = advance(model.start(1, x.shape[1]), x)

    @eqx.filter_jit
    def windowed(model: GPT, x: jax.Array) -> jax.Array:
        h = model.with_positions(model.vectors(x))
        for block in model.blocks:
            h = block(h, mask=Window(12))
        return model.read_out(model.norm(h))

    np.testing.assert_allclose(slid, windowed(model, x), atol=1e-10)
    cropped = np.asarray(logits_of(x[:, -12:]))[0, -1]
    assert np.abs(np.asarray(slid)[0, -1] - cropped).max() > 1e-4


@pytest.mark.parametrize("positions", ["learned", "sinusoids"])
def test_absolute_positions_do_not_slide(positions: str) -> None:
    with pytest.raises(CapabilityError, match=f"positions={positions}: tokens that stay"):
        built(positions=positions).sample(KEY, 1, prompt="abc", length=20, overflow="window")


def test_sines_and_cosines_are_added_to_embeddings_that_are_scaled_up() -> None:
    model = built(positions="sinusoids")
    x = jax.random.randint(KEY, (2, 4), 0, 11)
    tokens = np.sqrt(8) * np.asarray(model.embedding.weight)[np.asarray(x)]
    at = np.arange(3, 7)[:, None] / 10_000 ** (np.arange(4) / 4)[None, :]
    waves = np.stack([np.sin(at), np.cos(at)], axis=-1).reshape(4, 8)
    positions = np.array([[6, 3, 4, 5], [3, 3, 3, 3]])
    together, each = eqx.filter_jit(
        lambda model: (
            model.with_positions(model.vectors(x), 3),
            model.with_positions(model.vectors(x), positions=jnp.asarray(positions)),
        )
    )(model)
    np.testing.assert_allclose(together, tokens + waves[None], atol=1e-6)
    np.testing.assert_allclose(each, tokens + waves[positions - 3], atol=1e-6)
    with pytest.raises(ArgumentError, match="width must be even"):
        models.build("gpt", LETTERS, width=7, heads=1, positions="sinusoids")


def test_one_loss_whether_scanned_recomputed_or_in_chunks() -> None:
    batch = Batch(jax.random.randint(KEY, (3, 13), 0, 11))

    def loss(model: GPT) -> jax.Array:
        return model.loss(batch, KEY)[0]

    results = [
        eqx.filter_jit(eqx.filter_value_and_grad(loss))(built(dropout=0.2, **settings))
        for settings in ({}, {"scan": True}, {"recompute": True}, {"chunk": 7})
    ]
    for value, slope in results[1:]:
        np.testing.assert_allclose(value, results[0][0], rtol=1e-12)
        for ours, first in zip(jax.tree.leaves(slope), jax.tree.leaves(results[0][1]), strict=True):
            np.testing.assert_allclose(ours, first, atol=1e-10)


def test_blocks_computed_again_need_less_memory_once_compiled() -> None:
    batch = Batch(jnp.zeros((8, 13), jnp.int32))

    def scratch(**settings: Any) -> int:
        moving, fixed = eqx.partition(built(layers=4, **settings), eqx.is_inexact_array)
        loss = lambda moving: eqx.combine(moving, fixed).loss(batch, KEY)[0]  # noqa: E731
        found: Any = jax.jit(jax.grad(loss)).lower(moving).compile().memory_analysis()
        return int(found.temp_size_in_bytes)

    assert scratch(recompute=True) < 0.6 * scratch()


def test_dropout_acts_while_training_only() -> None:
    model, batch = built(dropout=0.5), Batch(jax.random.randint(KEY, (3, 13), 0, 11))
    trained, judged = eqx.filter_jit(model.loss), eqx.filter_jit(eqx.nn.inference_mode(model).loss)
    assert trained(batch, KEY)[0] != trained(batch, jax.random.key(4))[0]
    assert judged(batch, KEY)[0] == judged(batch, jax.random.key(4))[0]
    log_prob = np.asarray(eqx.filter_jit(model.log_prob)(batch.x))
    np.testing.assert_allclose(judged(batch, KEY)[0], -log_prob.mean() / 12, rtol=1e-12)


def test_texts_that_do_not_fit_are_refused() -> None:
    model = built()
    with pytest.raises(ArgumentError, match="13 tokens do not fit into a context of 12"):
        model.logits(jnp.zeros((1, 13), jnp.int32))
    with pytest.raises(ArgumentError, match=r"token number 11 at position .: the vocabulary has 0 to 10"):
        model.logits(jnp.array([[11]]))
    with pytest.raises(ArgumentError, match="passages of the data have 12 tokens"):
        built(context=8)


def test_what_is_shown_is_what_happens() -> None:
    model, x = built(), jax.random.randint(KEY, (2, 9), 0, 11)
    weights = np.asarray(eqx.filter_jit(model.attention)(x))
    assert weights.shape == (2, 2, 2, 9, 9)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-12)
    lens = np.asarray(eqx.filter_jit(model.lens)(x))
    np.testing.assert_allclose(lens[-1], eqx.filter_jit(model.logits)(x), atol=1e-12)
    silent = model
    for head in range(2):
        silent = silent.without_head(0, head)

    @eqx.filter_jit
    def parts(model: GPT, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        begun = model.with_positions(model.vectors(x))
        widened = model.blocks[0]._finished(begun, jnp.zeros_like(begun), None, [None] * 4)
        unread = model.read_out(model.norm(model.embedding(x)))
        return unread, model.read_out(model.norm(model.blocks[1](widened)))

    np.testing.assert_allclose(lens[0], parts(model, x)[0], atol=1e-12)
    np.testing.assert_allclose(eqx.filter_jit(silent.logits)(x), parts(silent, x)[1], atol=1e-12)
