"""The recurrent model of pairs: its ways of looking back, its cells, and training on its own draws."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema
from chainrule.models.text.seq2seq.aligning import Aligner
from chainrule.models.text.seq2seq.model import Seq2Seq

TINY = Schema("text", (4,), "text", (4,), tokens=("a", "b"), target_tokens=("c", "d"))
X = jnp.array([[0, 1, 0, 2], [1, 2, 2, 2]], jnp.int32)
Y = jnp.array([[1, 0, 1, 2], [0, 2, 2, 2]], jnp.int32)
KEY = jax.random.key(3)


start = eqx.filter_jit(Seq2Seq.start)
advance = eqx.filter_jit(Seq2Seq.advance)
logits_of = eqx.filter_jit(Seq2Seq.logits)
loss = eqx.filter_jit(Seq2Seq.loss)


def build(**settings: Any) -> Seq2Seq:
    model = models.build("seq2seq", TINY, **{"width": 6, "embedding": 4, **settings})
    assert isinstance(model, Seq2Seq)
    return model


@pytest.mark.parametrize("kind", ["dot", "bilinear", "additive"])
def test_weights_are_the_softmax_of_the_scores_over_what_is_no_padding(kind: str) -> None:
    noise = np.random.default_rng(0)
    keys = 3 if kind == "dot" else 5
    aligner = Aligner(kind, queries=3, keys=keys, key=KEY)
    q, s = (noise.normal(size=shape).astype(np.float32) for shape in ((2, 3), (2, 4, keys)))
    valid = np.array([[True, True, True, False], [True, True, False, False]])
    looked = eqx.filter_jit(
        lambda aligner: aligner(jnp.asarray(q), aligner.prepare(jnp.asarray(s)), jnp.asarray(valid))
    )
    mean, weights = (np.asarray(part) for part in looked(aligner))
    for row in range(2):
        if kind == "dot":
            scores = s[row] @ q[row]
        elif kind == "bilinear":
            scores = s[row] @ (q[row] @ np.asarray(aligner.query.weight))
        else:
            stacked = np.concatenate([aligner.query.weight, aligner.key.weight])  # [q; s] W + b
            joined = np.concatenate([np.tile(q[row], (4, 1)), s[row]], axis=1)
            scores = (np.tanh(joined @ stacked + np.asarray(aligner.key.bias)) @ aligner.score.weight)[:, 0]
        p = np.where(valid[row], np.exp(scores), 0)
        np.testing.assert_allclose(weights[row], p / p.sum(), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(mean[row], p / p.sum() @ s[row], rtol=1e-4, atol=1e-5)


def test_inner_products_need_equal_widths() -> None:
    with pytest.raises(ArgumentError, match="decoder states have 3 entries and encoder states 5"):
        Aligner("dot", queries=3, keys=5, key=KEY)
    with pytest.raises(ArgumentError, match="width=7: it cannot be divided between two directions"):
        build(width=7)


@pytest.mark.parametrize(
    "settings",
    [
        {"cell": "lstm", "attention": "none"},
        {"cell": "rnn", "attention": "dot", "bidirectional": False},
        {"cell": "lstm", "attention": "additive"},
    ],
)
def test_every_cell_writes_the_same_step_by_step(settings: dict[str, Any]) -> None:
    model = build(**settings)
    state, parts = start(model, X), []
    for token in (np.full(2, model.begin, np.int32), *np.asarray(Y).T[:-1]):
        logits, state = advance(model, state, jnp.asarray(token[:, None]))
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), logits_of(model, X, Y), rtol=1e-4, atol=1e-5)
    assert bool(model.alignment_names()) == (settings["attention"] != "none")


def test_without_attention_there_is_no_alignment_and_no_way_back() -> None:
    model = build(attention="none")
    with pytest.raises(CapabilityError, match="from the last state of its encoder alone"):
        model.alignment(X, Y)
    with pytest.raises(CapabilityError, match=r"rewind\(1\)"):
        start(model, X).rewind(1)


def test_the_decoder_starts_from_the_last_state_of_both_directions() -> None:
    model = build(cell="lstm")
    h, c = start(model, X).hidden

    @eqx.filter_jit
    def last(model: Seq2Seq, x: jax.Array) -> tuple[Any, Any]:
        return model.encoder.forward(model.source(x))[1], model.encoder.backward(model.source(x)[:, ::-1])[1]

    ahead, back = last(model, X[1:, :2])  # the second source is one token and its end
    np.testing.assert_allclose(h[1], np.concatenate([ahead[0][0], back[0][0]]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c[1], np.concatenate([ahead[1][0], back[1][0]]), rtol=1e-5, atol=1e-6)


def test_a_decoder_fed_by_its_own_draws_does_not_see_the_target() -> None:
    model, other = build(feedback=1.0), Y.at[:, :-1].set(1 - Y[:, :-1])
    logits = np.asarray(logits_of(model, X, Y, KEY))
    np.testing.assert_array_equal(logits, logits_of(model, X, other, KEY))
    np.testing.assert_allclose(logits[:, 0], logits_of(model, X, Y)[:, 0], rtol=1e-5, atol=1e-6)
    assert not np.array_equal(logits, logits_of(model, X, Y, jax.random.key(4)))


def test_own_draws_and_dropout_are_for_training_only() -> None:
    model = build(feedback=0.5, dropout=0.5)
    batch = Batch(X, Y)
    training = {float(loss(model, batch, jax.random.key(seed))[0]) for seed in range(3)}
    assert len(training) == 3
    still = eqx.nn.inference_mode(model)
    judged = {float(loss(still, batch, jax.random.key(seed))[0]) for seed in range(3)}
    assert judged == {float(loss(build(), batch, KEY)[0])}
