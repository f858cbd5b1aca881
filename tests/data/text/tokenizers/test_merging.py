"""Learning and applying merges, against worked examples and against counting everything anew at every step."""

import collections
import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError
from chainrule.data.text.tokenizers import BPE, ByteBPE, trace
from chainrule.data.text.tokenizers.merging import apply, learn, start


def merged(tokenizer: BPE) -> list[str]:
    return [left + right for left, right in tokenizer.merges]


def shown(tokenizer: BPE, text: str) -> list[str]:
    return [tokenizer.tokens[i] for i in tokenizer.encode(text)]


def recount(chunks: dict[str, int], first: list[str], vocab: int, low: int) -> tuple[list[str], list[tuple]]:
    """The definition: count all pairs, merge one, start again."""
    tokens, steps = list(first), []
    words = {chunk: [first.index(c) for c in chunk] for chunk in chunks}
    while len(tokens) < vocab:
        counts = collections.Counter()
        for chunk, word in words.items():
            for pair in itertools.pairwise(word):
                counts[pair] += chunks[chunk]
        if not counts:
            break
        pair = min(counts, key=lambda p: (-counts[p], p))
        if counts[pair] < max(low, 1):
            break
        token = tokens[pair[0]] + tokens[pair[1]]
        if token not in tokens:
            tokens.append(token)
        before = sum(len(word) * chunks[chunk] for chunk, word in words.items())
        words = {chunk: replaced(word, pair, tokens.index(token)) for chunk, word in words.items()}
        after = sum(len(word) * chunks[chunk] for chunk, word in words.items())
        steps.append((tokens[pair[0]], tokens[pair[1]], counts[pair], before - after))
    return tokens, steps


def replaced(word: list[int], pair: tuple[int, int], new: int) -> list[int]:
    out: list[int] = []
    i = 0
    while i < len(word):
        found = tuple(word[i : i + 2]) == pair
        out.append(new if found else word[i])
        i += 1 + found
    return out


def test_abracadabra_merges_as_worked_out_by_hand() -> None:
    tokenizer = BPE.train("abracadabra", vocab=100, rule="none", min_frequency=0)
    assert merged(tokenizer) == ["ab", "ra", "abra", "ad", "cad", "abracad", "abracadabra"]
    early = BPE.train("abracadabra", vocab=8, rule="none", min_frequency=0)
    assert shown(early, "abracadabra") == ["abra", "c", "a", "d", "abra"]
    assert early.encode("abracadabra").tolist() == [7, 2, 0, 3, 7]


def test_forms_of_one_word_share_their_stem() -> None:
    words = "optimize optimizing optimization"
    tokenizer = BPE.train(words, vocab=100, rule="whitespace", min_frequency=2)
    assert merged(tokenizer) == ["ti", "iz", "miz", "op", "timiz", "optimiz"]
    assert shown(tokenizer, words) == [
        *("optimiz", "e"),
        *("optimiz", "i", "n", "g"),
        *("optimiz", "a", "ti", "o", "n"),
    ]


def test_a_run_of_one_letter_is_merged_from_the_left() -> None:
    tokenizer = BPE.train("aaaa", vocab=3, rule="none", min_frequency=0)
    assert tokenizer.tokens == ("a", "aa", "aaaa")
    assert shown(tokenizer, "aaaaa") == ["aaaa", "a"]


def test_the_lowest_rank_wins_over_the_longest_match() -> None:
    tokenizer = BPE(("a", "b", "c", "bc", "ab", "abc"), (("b", "c"), ("a", "b"), ("ab", "c")), "none")
    assert shown(tokenizer, "abc") == ["a", "bc"]  # the longest match would be "abc"


@settings(max_examples=60)
@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=9), st.integers(1, 5), min_size=1, max_size=8),
    st.integers(0, 3),
)
def test_learning_with_an_index_gives_what_counting_anew_gives(chunks: dict[str, int], low: int) -> None:
    tokens, steps = learn(chunks, "abc", vocab=40, min_frequency=low)
    expected, wanted = recount(chunks, list("abc"), 40, low)
    assert list(tokens) == expected
    assert [(s.left, s.right, s.count, s.replaced) for s in steps] == wanted


@given(st.text("ab", max_size=30), st.integers(0, 9))
def test_applying_merges_gives_what_repeated_search_gives(text: str, seed: int) -> None:
    source = "".join(random.Random(seed).choices("ab", k=60))
    tokenizer = BPE.train(source, vocab=12, rule="none", min_frequency=0)
    word = [tokenizer.vocab[c] for c in text]
    ranks = {tuple(tokenizer.vocab[p] for p in pair): r for r, pair in enumerate(tokenizer.merges)}
    while present := [ranks[p] for p in itertools.pairwise(word) if p in ranks]:
        left, right = tokenizer.merges[min(present)]
        pair = tokenizer.vocab[left], tokenizer.vocab[right]
        index = next(i for i in range(len(word)) if tuple(word[i : i + 2]) == pair)
        word[index : index + 2] = [tokenizer.vocab[left + right]]
    if set(text) <= set(tokenizer.tokens):
        assert tokenizer.encode(text).tolist() == word


def test_what_training_had_in_hand_is_what_encoding_gives() -> None:
    text = "the cat sat on the mat, that cat; " * 5 + "catamaran"
    found = trace(text, vocab=40)
    for steps in (0, 1, 7, len(found.steps)):
        assert len(found.tokenizer(steps).encode(text)) == found.tokens[steps]
    assert found.tokenizer(len(found.steps)) == BPE.train(text, 40, min_frequency=0)
    assert found.bytes_per_token[0] == 1.0
    assert found.vocab[-1] == len(found.first) + len(found.steps) <= 40
    assert found.tokens_per_word[-1] < found.tokens_per_word[0]


def test_the_pictures_of_a_trace_hold_its_numbers() -> None:
    found = trace("low lower lowest " * 3, vocab=300, kind="byte-bpe")
    table, growth, text, context = found.pictures()
    assert list(table.rows[0])[1:5] == ["l", "o", "lo", 9]
    assert growth.rows[0] == [0, 32, "|".join(("low lower lowest " * 3)[:32]).replace(" ", "␣")]
    assert growth.rows[-1][1] < 32
    assert text.series["bytes per token"][1][-1] == found.bytes_per_token[-1]
    share = context.series["context (tokens)"][1]
    assert share[0] == 1.0
    assert (context.series["attention (pairs of tokens)"][1] == share**2).all()


def test_no_pair_below_the_lowest_frequency_is_merged() -> None:
    assert BPE.train("ab ac ad", vocab=50, rule="spaces", min_frequency=2).merges == ()
    assert BPE.train("ab ac ad", vocab=50, rule="spaces", min_frequency=1).merges[0] == ("a", "b")


def test_special_tokens_come_first_and_are_made_only_on_request() -> None:
    tokenizer = ByteBPE.train("one two", vocab=300, special=["<end>"])
    assert tokenizer.tokens[0] == "<end>"
    assert 0 not in tokenizer.encode("one<end>")
    assert tokenizer.decode(tokenizer.encode("one<end>")) == "one<end>"
    ids = tokenizer.encode("one<end>two", allow_special=True)
    assert ids.tolist().count(0) == 1
    assert tokenizer.decode(ids) == "one<end>two"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: start(["<a>", "<a>"], "ab", 9), "must not be empty, come twice or be in the alphabet"),
        (lambda: start(["a"], "ab", 9), "must not be empty, come twice or be in the alphabet"),
        (lambda: ByteBPE.train("x", vocab=100), "vocab=100: .* alone are 256 tokens"),
        (lambda: BPE.train("x", rule="lines"), 'rule="lines"'),
        (lambda: trace("", vocab=9), "nothing to learn"),
        (lambda: trace("x", vocab=300, kind="byte-bpe", rule="none"), "byte-bpe splits with"),
        (lambda: trace("x", kind="word"), 'kind="word"'),
        (lambda: trace("abab").tokenizer(9), "merges must be from 0 to"),
    ],
    ids=["twice", "letter", "small", "rule", "empty", "bytes", "kind", "step"],
)
def test_what_cannot_be_learnt_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_merging_nothing_gives_nothing() -> None:
    assert apply([], {}) == []
    assert learn({}, "", vocab=5, min_frequency=0) == ((), ())
