"""What each kind of tokenizer promises: bytes bring back every text, characters and words say what they do not know."""

import random
import sys

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import load
from chainrule.data.schema import Schema
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import BPE, ByteBPE, Character, Word, split, train
from chainrule.data.text.tokenizers.byte_bpe import BYTES

PROSE = "It's the King's; we'll see.\n\nWho's there? 1,606 years, naïve friend 🙂\n" * 3


def random_text(source: random.Random) -> str:
    """Characters of all planes, with white space and letters often enough to be next to each other."""
    plain = " \n\t'abcXYZ0189.,ßé\u0301漢字\u00a0\u2028"
    codes = (source.randrange(sys.maxunicode + 1) for _ in range(8))
    drawn = [chr(c) for c in codes if not 0xD800 <= c < 0xE000] + source.choices(
        plain, k=source.randrange(12)
    )
    source.shuffle(drawn)
    return "".join(drawn)


@pytest.mark.parametrize("texts", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_texts_come_back_from_bytes(texts: int) -> None:
    source = random.Random(0)
    tokenizer = ByteBPE.train(PROSE, vocab=400)
    for _ in range(texts):
        text = random_text(source)
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bytes_without_merges_are_the_bytes_of_the_text() -> None:
    tokenizer = ByteBPE.train("", vocab=256)
    assert len(tokenizer.encode("naïve 🙂")) == 11
    assert tokenizer.raw(tokenizer.encode("naïve 🙂")) == "naïve 🙂".encode()
    assert sorted(BYTES) == list(tokenizer.tokens)
    assert len(set(BYTES)) == 256
    assert BYTES[ord(" ")] == "Ġ"
    assert tokenizer.decode(tokenizer.encode("🙂")[:2]) == "\ufffd"


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"surrogate pair .0xd83d."):
        ByteBPE.train("", vocab=256).encode("ab\ud83d")


def test_text_is_split_as_gpt2_splits_it() -> None:
    assert split("I'll  pay 12$ now\n", "words") == ["I", "'ll", " ", " pay", " 12", "$", " now", "\n"]
    assert "".join(split(PROSE, "words")) == PROSE
    assert split("", "words") == split("", "none") == []
    assert split("a\x1cb", "words") == ["a", "\x1c", "b"]  # a separator, but not white space


@pytest.mark.parametrize("kind", tokenizers.KINDS)
def test_the_text_a_tokenizer_was_learnt_from_comes_back(kind: str) -> None:
    text = PROSE * 2
    tokenizer = train(kind, text, None if kind == "character" else 300)
    ids = tokenizer.encode(text)
    assert ids.dtype == np.int32
    assert tokenizer.decode(ids) == text
    assert "".join(tokenizer.pieces(ids[:40])) == text[: len(tokenizer.decode(ids[:40]))]
    assert tokenizer.vocab[tokenizer.tokens[3]] == 3
    assert tokenizer == train(kind, text, None if kind == "character" else 300)
    assert len(tokenizer.encode("")) == 0


def test_unknown_characters_are_listed_with_the_way_out() -> None:
    remedy = "'ß', '🙂'\n.*tokenizer=byte-bpe"
    with pytest.raises(ArgumentError, match=f"(?s){remedy}"):
        Character.train("abc ").encode("aß🙂ß")
    with pytest.raises(ArgumentError, match=f"(?s){remedy}"):
        BPE.train("abc ", vocab=9).encode("aß🙂ß")
    with pytest.raises(ArgumentError, match="and 2 more"):
        Character.train("x").encode("abcdefghijkl")
    unknown = BPE(("<unk>", "a", "b", "ab"), (("a", "b"),), "none", unknown="<unk>")
    assert unknown.encode("abßab").tolist() == [3, 0, 3]


def test_rare_words_are_unknown() -> None:
    tokenizer = Word.train("the cat and the dog and the cow", vocab=10)
    assert tokenizer.tokens == ("<unk>", " and", " the")
    assert tokenizer.encode("the cow and the dog").tolist() == [0, 0, 1, 2, 0]
    assert Word.train("b a b a c c", vocab=3, min_frequency=1).tokens == ("<unk>", " a", " c")


def test_numbers_outside_the_vocabulary_are_named() -> None:
    for tokenizer in (Character.train("ab"), ByteBPE.train("", vocab=256)):
        with pytest.raises(ArgumentError, match=rf"ids\[1\]={len(tokenizer)}: .* 0 to {len(tokenizer) - 1}"):
            tokenizer.decode([0, len(tokenizer)])
    with pytest.raises(ArgumentError, match=r"ids\[0\]=-1"):
        Character.train("ab").decode([-1])


def test_a_tokenizer_of_characters_takes_no_size() -> None:
    with pytest.raises(ArgumentError, match="vocab=9: a character tokenizer has as many tokens"):
        train("character", "abc", 9)
    with pytest.raises(ArgumentError, match=r'kind="bpf".*did you mean'):
        train("bpf", "abc")


def test_the_tokenizer_of_data_follows_from_their_schema() -> None:
    data = load("shakespeare", tokenizer="byte-bpe", vocab=300)
    tokenizer = tokenizers.of(data.schema)
    assert isinstance(tokenizer, ByteBPE)
    assert data.schema.tokens == tokenizer.tokens
    again = Schema.from_json(data.schema.to_json())
    assert again == data.schema
    assert hash(again) == hash(data.schema)
    with pytest.raises(ArgumentError, match="image data have no tokenizer"):
        tokenizers.of(Schema("image", (8, 8, 1)))
