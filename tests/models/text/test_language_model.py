"""What every model of text can do, on toys whose probabilities are known."""

import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.batches import Batch
from chainrule.data.schema import Schema
from chainrule.data.text.tokenization import passages
from chainrule.data.text.tokenizers import Character, extended, from_json
from chainrule.data.text.tokenizers.byte_bpe import ByteBPE
from chainrule.models.text import decoding
from chainrule.models.text.language_model import LanguageModel
from chainrule.models.text.likelihoods import log_probs
from tests.models.text.toys import LETTERS, TRACED, Chain, chain, positional, script

KEY = jax.random.key(3)


def by_hand(model: LanguageModel, begun: list[int], length: int, context: int) -> list[int]:
    """Greedy tokens, each from a fresh look at the last `context` tokens."""
    tokens, logits = list(begun), eqx.filter_jit(model.logits)
    for _ in range(length):
        tokens.append(int(np.asarray(logits(jnp.asarray([tokens[-context:]])))[0, -1].argmax()))
    return tokens


def test_likelihood_loss_and_surprisal_are_one_number() -> None:
    model, x = chain(), jnp.array([[0, 1, 2, 3], [4, 4, 1, 0]])
    table, ids = np.asarray(model.table), np.asarray(x)
    log_p = table - np.logaddexp.reduce(table, axis=-1, keepdims=True)
    expected = -log_p[ids[:, :-1], ids[:, 1:]]
    assert np.allclose(model.surprisal(x), expected, atol=1e-12)
    assert np.allclose(model.log_prob(x), -expected.sum(axis=1), atol=1e-12)
    assert np.isclose(model.loss(Batch(x), KEY)[0], expected.mean(), atol=1e-12)


def test_a_sample_holds_the_prompt_and_as_many_symbols_as_were_asked_for() -> None:
    out = np.asarray(chain().sample(KEY, 3, prompt="ab", length=5))
    assert out.shape == (3, 7)
    assert [text[:2] for text in passages(LETTERS, out)] == ["ab"] * 3
    assert np.asarray(chain().sample(KEY, 2)).shape == (2, *LETTERS.shape)
    assert np.all(np.asarray(chain().sample(KEY, 2))[:, 0] == 0), "without a prompt a text begins a line"


def test_without_a_new_line_in_the_vocabulary_a_text_begins_with_any_symbol() -> None:
    schema = Schema("text", (4,), tokens=("a", "b", "c"))
    first = np.asarray(chain(schema).sample(KEY, 64))[:, 0]
    assert set(first.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("length", [3, 6, 20])
def test_the_compiled_loop_follows_the_receding_horizon(length: int) -> None:
    model = positional(context=6)
    out = np.asarray(model.sample(KEY, 1, prompt="abc", length=length, temperature=0))[0]
    assert out.tolist() == by_hand(model, [1, 2, 3], length, 6)


def test_a_prompt_longer_than_the_context_is_read_from_its_end() -> None:
    model = positional(context=4)
    out = np.asarray(model.sample(KEY, 2, prompt="abcdabcd", length=5, temperature=0))
    assert out[0].tolist() == by_hand(model, [1, 2, 3, 4, 1, 2, 3, 4], 5, 4)


def test_what_does_not_fit_is_refused_where_that_is_asked_for() -> None:
    model = positional(context=4)
    with pytest.raises(ArgumentError, match=r"length=4: 2 tokens and 4 more do not fit into a context of 4"):
        model.sample(KEY, 1, prompt="ab", length=4, overflow="error")
    assert model.sample(KEY, 1, prompt="ab", length=3, overflow="error").shape == (1, 5)
    with pytest.raises(CapabilityError, match="a window cannot slide"):
        model.sample(KEY, 1, prompt="ab", length=9, overflow="window")
    with pytest.raises(ArgumentError, match=r"overflow=corp.*did you mean .crop"):
        model.sample(KEY, 1, overflow="corp")


def test_a_seed_gives_the_same_text_in_any_batch_and_one_by_one() -> None:
    model = positional(context=6)
    many, few = (np.asarray(model.sample(KEY, n, prompt="a", length=12)) for n in (4, 1))
    assert np.array_equal(many[:1], few)
    pieces = list(model.stream(KEY, prompt="a", length=12))
    assert [piece.token for piece in pieces] == few[0, 1:].tolist()
    assert "a" + "".join(piece.text for piece in pieces) == passages(LETTERS, few)[0]
    assert len({tuple(row) for row in many.tolist()}) > 1, "rows differ"


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"unknown option 'temprature' .did you mean 'temperature'"):
        chain().stream(KEY, temprature=1)
    with pytest.raises(ArgumentError, match="length=0: length must be at least 1"):
        chain().sample(KEY, 1, length=0)


def test_other_numbers_and_weights_compile_nothing() -> None:
    chain().sample(KEY, 2, prompt="a", length=7, temperature=0.5)
    before = len(TRACED)
    chain(seed=1).sample(KEY, 2, prompt="b", length=7, temperature=0.7, top_p=0.5)
    assert len(TRACED) == before
    chain().sample(KEY, 2, prompt="a", length=9)
    assert len(TRACED) > before, "another length is another program"


def test_beams_give_the_texts_that_a_search_finds() -> None:
    model = positional(context=6)
    found = model.search(KEY, "ab", length=3, beams=4)
    texts = passages(LETTERS, np.asarray(model.sample(KEY, 3, prompt="ab", length=3, beams=4)))
    assert texts == ["ab" + one.text for one in found[:3]]
    whole = jnp.asarray([model.tokenizer.encode("ab" + one.text) for one in found])
    each = -model.surprisal(whole)[:, 1:].sum(axis=1)
    assert np.allclose(each, [one.log_prob for one in found]), "the probability of what follows the prompt"
    assert [one.rank for one in found] == sorted((one.rank for one in found), reverse=True)
    draws = model.search(KEY, "ab", length=3, beams=4, search="gumbel")
    assert len({one.text for one in draws}) == 4


def test_beams_go_on_past_the_context() -> None:
    model = positional(context=4)
    (best, *_) = model.search(KEY, "ab", length=9, beams=1)
    assert model.tokenizer.encode("ab" + best.text).tolist() == by_hand(model, [1, 2], 9, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 3, "beams": 2}, "n=3: 2 beams give at most 2 texts"),
        ({"branch": 2}, "are about beams, and there are none"),
        ({"beams": 0}, "beams=0: beams must be at least 1"),
        ({"beams": 2, "search": "gumble"}, "did you mean .gumbel"),
        ({"beams": 2, "search": "survivors", "temperature": 0}, "it must be above 0"),
        ({"banned": "ab"}, "banned='ab': this is 2 tokens"),
        ({"banned": "#7"}, "bias or banned=7: bias or banned must be a token from 0 to 4"),
        ({"bias": {"ab": 1}}, "bias='ab': this is 2 tokens"),
        ({"bias": "a"}, r'bias=a: bias must be tokens with a number each\s+for example bias="the=2'),
        ({"bias": "a=inf"}, "bias=a=inf: bias must be tokens with a number each"),
        ({"bias": {"a": 1, 1: 2}}, "bias: token 1 is given twice"),
        ({"temperature": -1}, "temperature=-1: temperature must be at least 0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        chain().sample(KEY, options.pop("n", 1), **options)


def test_beams_are_not_streamed() -> None:
    with pytest.raises(ArgumentError, match="they cannot be streamed"):
        chain().stream(KEY, beams=2)


def test_banned_symbols_never_come_and_repetition_drives_symbols_out() -> None:
    out = np.asarray(chain().sample(KEY, 8, prompt="a", length=20, temperature=1.0, banned=("b", "c")))
    assert not {2, 3} & set(out[:, 1:].ravel().tolist())
    below = Chain(LETTERS, chain().table - 10)  # the rule lowers what is negative without bound
    five = np.asarray(below.sample(KEY, 8, prompt="a", length=4, repetition=1e9))
    assert all(len(set(row.tolist())) == 5 for row in five), "each token once before any comes twice"


def test_a_stop_string_ends_a_row_and_is_not_kept() -> None:
    model = script(ByteBPE.train("", vocab=256), "one END two")
    row = np.asarray(model.sample(KEY, 2, prompt="x", stop="END"))
    assert passages(model.schema, row) == ["xone "] * 2
    assert row.shape[1] == model.schema.shape[0]
    assert passages(model.schema, np.asarray(model.sample(KEY, 1, prompt="x", stop=("t", "E")))) == ["xone "]


def test_text_before_a_stop_string_inside_a_symbol_is_kept() -> None:
    tokenizer = ByteBPE.train("abc. " * 50, vocab=259)  # "abc" is one token
    model = script(tokenizer, "babc. abc")
    assert len(model.schema.tokens[-1]) > 1
    out = np.asarray(model.sample(KEY, 1, prompt=".", stop="c"))
    assert passages(model.schema, out) == [".bab"]
    assert "".join(piece.text for piece in model.stream(KEY, ".", stop="c")) == "bab"


def test_a_stream_is_the_text_in_whole_characters() -> None:
    text = "naïve 🙂 — ok"
    model = script(ByteBPE.train("", vocab=256), text)
    pieces = list(model.stream(KEY, "x"))
    assert "".join(piece.text for piece in pieces) == text
    assert all("\ufffd" not in piece.text for piece in pieces)
    assert len(pieces) == len(text.encode())
    first = pieces[0]
    assert first.log_prob == pytest.approx(0, abs=1e-9)
    assert first.alternatives[0] == ("n", pytest.approx(1))
    assert len(first.alternatives) == 5
    assert first.per_second > 0


def test_a_stream_that_ends_inside_a_character_gives_out_what_it_has() -> None:
    model = script(ByteBPE.train("", vocab=256), "é")
    assert [piece.text for piece in model.stream(KEY, "x", length=1)] == ["\ufffd"]


def test_a_stop_string_never_leaks_and_a_false_alarm_is_given_out() -> None:
    model = script(ByteBPE.train("", vocab=256), "a##b###c###")
    pieces = [piece.text for piece in model.stream(KEY, "x", stop="###c")]
    assert "".join(pieces) == "a##b"
    assert pieces[:4] == ["a", "", "", "##b"]
    whole = [piece.text for piece in model.stream(KEY, "x", stop="####")]
    assert "".join(whole) == "a##b###c###"


def test_whoever_stops_reading_a_stream_stops_the_writing() -> None:
    stream = chain().stream(KEY, "a", length=1_000)
    first = next(stream)
    stream.close()
    assert first.token in range(5)
    assert list(stream) == []


def test_a_long_stream_is_the_same_text() -> None:
    text = "Grüße, 世界! " * 12
    model = script(ByteBPE.train("", vocab=256), text)
    assert "".join(piece.text for piece in model.stream(KEY, "x", stop=("zz", "!!"))) == text


def test_a_state_is_forked_and_rewound() -> None:
    model = positional(context=6)
    advance = eqx.filter_jit(model.advance)
    logits, state = advance(model.start(2, 6), jnp.array([[1, 2, 3], [4, 0, 1]]))
    swapped, _ = advance(state.fork(jnp.array([1, 0, 1])), jnp.full((3, 1), 2))
    straight, _ = advance(state, jnp.full((2, 1), 2))
    assert np.allclose(swapped, straight[jnp.array([1, 0, 1])])
    back, _ = advance(state.rewind(1), jnp.array([[2], [0]]))
    assert np.allclose(back[:, 0], logits[:, 1])
    with pytest.raises(CapabilityError, match="cannot be taken back"):
        decoding.RereadContext(model, 6).start(state, jnp.zeros((2, 3), jnp.int32)).rewind(1)


@pytest.mark.parametrize(
    "options", [{}, {"beams": 3, "search": "gumbel"}, {"repetition": 1.5, "bias": "a=1"}]
)
@pytest.mark.parametrize("length", [3, 8])
def test_each_of_several_prompts_goes_on_as_if_it_were_alone(length: int, options: dict[str, Any]) -> None:
    model, prompts = positional(context=6), ["abc", "d", "abc", "", "bc", "d"]
    together = np.asarray(model.sample(KEY, 6, prompt=prompts, length=length, **options))
    texts = passages(LETTERS, together)
    for prompt in set(prompts):
        rows = [row for row, one in enumerate(prompts) if one == prompt]
        alone = passages(
            LETTERS, np.asarray(model.sample(KEY, len(rows), prompt=prompt, length=length, **options))
        )
        assert [texts[row] for row in rows] == alone
    assert texts[0] != texts[2], "the second text of a prompt is another one"


def test_a_bias_is_added_to_logits_by_text_or_number() -> None:
    model, length = chain(), 400
    table = np.asarray(model.table)
    plain: dict[str, Any] = {"prompt": "a", "length": length, "temperature": 1, "top_p": 1}
    for bias in ({"b": 2.0, 3: -1.0}, "b=2,#3=-1", '{"b": 2, "#3": -1}'):
        biased = np.asarray(model.sample(KEY, 1, bias=bias, **plain))
        moved = Chain(LETTERS, jnp.asarray(table + np.array([0, 0, 2, -1, 0])))
        assert np.array_equal(biased, np.asarray(moved.sample(KEY, 1, **plain)))
    assert not np.isin(np.asarray(model.sample(KEY, 1, banned='["b", "#3"]', **plain)), [2, 3]).any()


def test_beams_take_bias_bans_and_a_penalty_for_repetition() -> None:
    model = chain()
    table, penalty = np.asarray(model.table), 2.0
    (best, *_) = model.search(KEY, "a", length=3, beams=200, repetition=penalty, bias={"b": 0.5}, banned="c")
    expected = (-np.inf, "")
    for text in map("".join, itertools.product("abd\n", repeat=3)):
        ids, total = [1, *model.tokenizer.encode(text)], 0.0
        for at in range(3):
            scores = table[ids[at]] + np.array([0, 0, 0.5, -np.inf, 0])
            lowered = np.where(scores > 0, scores / penalty, scores * penalty)
            scores = np.where(np.isin(np.arange(5), ids[: at + 1]), lowered, scores)
            total += scores[ids[at + 1]] - np.logaddexp.reduce(scores)
        expected = max(expected, (total, text))
    assert best.text == expected[1]
    assert np.isclose(best.log_prob, expected[0])
    assert best.text != model.search(KEY, "a", length=3, beams=200)[0].text


def test_names_of_special_tokens_in_a_prompt_are_text_unless_allowed() -> None:
    named = Character(("\n", "<", "a", "b", ">")).to_json()
    tokenizer = extended(from_json(named), ["<a>"])
    model = chain(Schema("text", (9,), tokens=tokenizer.tokens, tokenizer=tokenizer.canonical))
    plain, allowed = (
        np.asarray(model.sample(KEY, 1, prompt="<a>b", length=1, allow_special=allow))[0].tolist()
        for allow in (False, True)
    )
    assert plain[:-1] == [1, 2, 4, 3]
    assert allowed[:-1] == [5, 3]
    assert np.allclose(
        log_probs(model, ["<a>b"], allow_special=True), model.log_prob(jnp.array([[5, 3]])), atol=1e-6
    )
