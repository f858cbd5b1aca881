"""What models of pairs of texts share, on the two there are: one pass or step by step, search, and honest numbers."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Heatmap
from chainrule.data import Batch, Data, Pairs, Scaling, Schema
from chainrule.data.text.pairs import target_text
from chainrule.models.text.encoder_decoder import EncoderDecoder
from chainrule.train.scores.translation import translation
from chainrule.train.translation_quality import chrf, chrf_statistics

TINY = Schema("text", (4,), "text", (4,), tokens=("a", "b"), target_tokens=("c", "d"))
SMALL: dict[str, dict[str, Any]] = {
    "seq2seq": {"width": 8, "embedding": 4},
    "translator": {"layers": 2, "heads": 2, "width": 8},
}


@pytest.fixture(scope="module", params=SMALL)
def model(request: pytest.FixtureRequest) -> EncoderDecoder:
    """A model far enough from its start that its numbers mean something, in inference mode."""
    built = tree.cast(models.build(request.param, TINY, **SMALL[request.param]), jnp.float64)
    noise = np.random.default_rng(0)
    leaves, structure = jax.tree.flatten(eqx.filter(built, eqx.is_inexact_array))
    moved = [jnp.asarray(np.asarray(leaf) + 0.3 * noise.normal(size=leaf.shape)) for leaf in leaves]
    rest = eqx.filter(built, eqx.is_inexact_array, inverse=True)
    found = eqx.nn.inference_mode(eqx.combine(jax.tree.unflatten(structure, moved), rest))
    assert isinstance(found, EncoderDecoder)
    return found


X = jnp.array([[0, 1, 0, 2], [1, 2, 2, 2], [2, 2, 2, 2]])
Y = jnp.array([[1, 0, 1, 2], [0, 2, 2, 2], [0, 1, 2, 2]])
start = eqx.filter_jit(lambda model, x: model.start(x))
advance = eqx.filter_jit(lambda model, state, tokens: model.advance(state, tokens))
logits_of = eqx.filter_jit(lambda model, x, y: model.logits(x, y))
log_prob_given = eqx.filter_jit(lambda model, y, x: model.log_prob_given(y, x))


def test_a_target_has_the_same_logits_at_once_symbol_by_symbol_and_in_pieces(model: EncoderDecoder) -> None:
    whole = logits_of(model, X, Y)
    read = np.concatenate([np.full((3, 1), model.begin), Y[:, :-1]], axis=1)
    for cuts in ((1, 2, 3), (2,)):
        state, parts = start(model, X), []
        for piece in np.split(read, cuts, axis=1):
            logits, state = advance(model, state, jnp.asarray(piece))
            parts.append(logits)
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-10)
        assert int(state.position) == 4
    assert whole.shape == (3, 4, 3)


def test_a_forked_state_goes_on_like_the_rows_it_was_made_of(model: EncoderDecoder) -> None:
    begin = jnp.full((3, 1), model.begin)
    _, state = advance(model, start(model, X), begin)
    rows, tokens = jnp.array([2, 0, 0]), jnp.array([[0], [1], [0]])
    forked, _ = advance(model, eqx.filter_jit(type(state).fork)(state, rows), tokens)
    _, direct = advance(model, start(model, X[rows]), begin)
    np.testing.assert_allclose(forked, advance(model, direct, tokens)[0], rtol=0, atol=1e-12)


def without_numbers(part: Any) -> Any:
    return jax.tree.map(
        lambda leaf: jnp.asarray(np.full(leaf.shape, np.nan)) if eqx.is_inexact_array(leaf) else leaf, part
    )


def test_the_source_is_read_once_before_anything_is_written(model: EncoderDecoder) -> None:
    state = start(model, X)
    begin = jnp.full((3, 1), model.begin)
    expected, _ = advance(model, state, begin)
    broken = eqx.tree_at(lambda m: (m.source, m.encoder), model, replace_fn=without_numbers)
    found, _ = advance(broken, state, begin)
    np.testing.assert_array_equal(found, expected)


def test_padding_changes_nothing(model: EncoderDecoder) -> None:
    longer = jnp.asarray(np.pad(X, ((0, 0), (0, 3)), constant_values=2))
    np.testing.assert_allclose(logits_of(model, longer, Y), logits_of(model, X, Y), rtol=0, atol=1e-12)
    padded = jnp.asarray(np.pad(Y, ((0, 0), (0, 2)), constant_values=2))
    np.testing.assert_allclose(
        log_prob_given(model, padded, X), log_prob_given(model, Y, X), rtol=0, atol=1e-12
    )
    weights = np.asarray(eqx.filter_jit(model.alignment)(longer, Y))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)
    np.testing.assert_array_equal(weights[1, :, :, 2:], 0)
    assert weights.shape == (3, len(model.alignment_names()), 4, 7)


def test_a_symbol_sees_no_later_one_and_all_of_the_source(model: EncoderDecoder) -> None:
    def after(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(logits_of(model, jnp.asarray(x), jnp.asarray(y)))

    def changed_at(rows: np.ndarray, position: int) -> np.ndarray:
        changed = rows.copy()
        changed[0, position] = (rows[0, position] + 1) % 2
        return changed

    x, y = np.asarray(X), np.asarray(Y)
    before = after(x, y)
    for position in range(4):
        changed = after(x, changed_at(y, position))
        np.testing.assert_array_equal(changed[0, : position + 1], before[0, : position + 1])
        assert position == 3 or not np.allclose(changed[0, position + 1 :], before[0, position + 1 :])
    for position in range(3):
        other = after(changed_at(x, position), y)
        assert (np.abs(other[0] - before[0]).max(axis=-1) > 0).all()


def every_target() -> np.ndarray:
    """All rows with an end within four positions, and all without."""
    rows = [
        [*start, *[2] * (4 - length)]
        for length in range(5)
        for start in itertools.product((0, 1), repeat=length)
    ]
    return np.array(rows)


def log_probs(model: EncoderDecoder, rows: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Of each row as the target of one source."""
    sources = jnp.asarray(np.tile(source[None], (len(rows), 1)))
    return np.asarray(log_prob_given(model, jnp.asarray(rows), sources))


def test_the_probabilities_of_all_targets_add_up_to_one(model: EncoderDecoder) -> None:
    rows = every_target()
    for source in np.asarray(X):
        assert np.exp(log_probs(model, rows, source)).sum() == pytest.approx(1, abs=1e-12)


def outcomes(model: EncoderDecoder, source: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Everything that can be written, the likeliest first, and its probability; longer targets are cut off."""
    rows = every_target()
    log_p = log_probs(model, rows, np.asarray(source))
    rows[:, -1] = 2
    kinds, which = np.unique(rows, axis=0, return_inverse=True)
    p = np.bincount(which.ravel(), np.exp(log_p))
    order = np.argsort(-p)
    return kinds[order], p[order]


def test_a_wide_beam_finds_the_likeliest_targets_in_order(model: EncoderDecoder) -> None:
    for text, source in (("aba", X[0]), ("b", X[1]), ("", X[2])):
        best, _ = outcomes(model, source)
        found = model.sample(jax.random.key(0), 5, prompt=text, beams=15)
        np.testing.assert_array_equal(found, best[:5])
        np.testing.assert_array_equal(model.translate(source[None], beams=15), best[:1])
    few = model.sample(jax.random.key(0), 20, prompt="b")  # there are only 15
    assert len(np.unique(few, axis=0)) == 15


def test_the_greedy_target_takes_the_likeliest_symbol_each_time(model: EncoderDecoder) -> None:
    found = np.asarray(model.translate(X))
    logits = np.asarray(logits_of(model, X, jnp.asarray(found)))
    counted = np.cumsum(found == 2, axis=1) - (found == 2) == 0
    counted[:, -1] = False  # where a target that is too long is cut off
    np.testing.assert_array_equal(found[counted], logits.argmax(axis=-1)[counted])


def test_draws_follow_the_probabilities(model: EncoderDecoder) -> None:
    drawn = np.asarray(model.sample(jax.random.key(1), 4000, prompt="b", temperature=1.0))
    for row, p in zip(*outcomes(model, X[1]), strict=True):
        share = float((drawn == row[None]).all(axis=1).mean())
        assert share == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 4000))


def test_scores_weigh_every_symbol_alike_and_count_exact_matches(model: EncoderDecoder) -> None:
    split = Pairs({"x": np.asarray(X, np.uint8), "y": np.asarray(Y, np.uint8)})
    found = translation(model, split, jax.random.key(0), schema=TINY)
    nats = -np.asarray(log_prob_given(model, Y, X))
    assert found["nats_per_token"].value == pytest.approx(nats.sum() / (4 + 2 + 3))
    assert found["perplexity"].value == pytest.approx(np.exp(nats.sum() / 9))
    exact = (np.asarray(model.translate(X)) == np.asarray(Y)).all(axis=1).mean()
    assert found["exact_match"].value == pytest.approx(exact)
    ours, theirs = ([target_text(TINY, row) for row in rows] for rows in (model.translate(X), Y))
    assert found["chrf"].value == pytest.approx(chrf(chrf_statistics(ours, theirs).sum(axis=0)))
    assert "bleu" not in found, "no target has four words"
    loss, seen = eqx.filter_jit(model.loss)(Batch(X, Y), jax.random.key(0))
    assert float(loss) == pytest.approx(nats.sum() / 9)
    assert 0 <= float(seen["accuracy"]) <= 1


def test_the_alignment_is_pictured_with_the_symbols_of_a_pair(model: EncoderDecoder) -> None:
    split = Pairs({"x": np.asarray(X, np.uint8), "y": np.asarray(Y, np.uint8)})
    data = Data("tiny", TINY, split, split, split, Scaling(), None, "tiny", {})
    (picture,) = model.pictures(data, jax.random.key(0))
    assert isinstance(picture, Heatmap)
    assert list(picture.rows) == ["d", "c", "d", "■"]
    assert list(picture.columns) == ["a", "b", "a", "■"]
    np.testing.assert_allclose(picture.values.sum(axis=1), 1, atol=1e-6)


def test_beams_and_draws_are_not_mixed_and_long_sources_are_refused(model: EncoderDecoder) -> None:
    key = jax.random.key(0)
    with pytest.raises(ArgumentError, match="beams=2: beams search for the likeliest targets"):
        model.sample(key, 1, prompt="a", beams=2, temperature=0.5)
    with pytest.raises(ArgumentError, match="the text has 4 tokens; the model was made for 3 at most"):
        model.sample(key, 1, prompt="abab")
    with pytest.raises(ArgumentError, match="does not know: 'z'"):
        model.sample(key, 1, prompt="z")


def test_a_text_by_itself_is_refused(model: EncoderDecoder) -> None:
    name = next(name for name in SMALL if isinstance(model, type(models.build(name, TINY, **SMALL[name]))))
    with pytest.raises(cr.core.errors.CapabilityError, match="needs text data with target text"):
        models.build(name, Schema("text", (8,), tokens=("a", "b")))


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}, {"bias": {"c": 1.0}, "repetition": 1.4}])
def test_each_of_several_sources_is_turned_as_if_it_were_alone(
    model: EncoderDecoder, options: dict[str, Any]
) -> None:
    prompts = ["ab", "b", "ab", ""]
    together = np.asarray(model.sample(jax.random.key(1), 4, prompt=prompts, **options))
    for prompt in ("ab", "b"):
        rows = [row for row, one in enumerate(prompts) if one == prompt]
        alone = np.asarray(model.sample(jax.random.key(1), len(rows), prompt=prompt, **options))
        np.testing.assert_array_equal(together[rows], alone)
    with pytest.raises(ArgumentError, match="4 prompts for n=2 targets"):
        model.sample(jax.random.key(1), 2, prompt=prompts)


def test_tokens_of_a_target_are_banned_favoured_and_not_repeated(model: EncoderDecoder) -> None:
    key = jax.random.key(1)
    for options in ({}, {"temperature": 1.0}):
        assert not (np.asarray(model.sample(key, 3, prompt="ab", banned="c", **options)) == 0).any()
        endless = np.asarray(
            model.sample(key, 1, prompt="ab", banned=f"#{model.end}", bias={"d": 9}, **options)
        )
        assert endless[0].tolist() == [1, 1, 1, 2]
    once = np.asarray(
        model.sample(key, 1, prompt="ab", banned=f"#{model.end}", repetition=1e9, bias="c=5,d=4")
    )
    assert once[0, :2].tolist() == [0, 1]
