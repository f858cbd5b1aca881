"""Tokenizers of Llama's and BERT's families: what they cut, how it comes back, and their files."""

import json
from collections.abc import Callable
from types import ModuleType

import pytest

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.text.tokenizers import SentencePiece, Tokenizer, WordPiece, from_json
from chainrule.data.text.tokenizers.files import _own
from chainrule.data.text.tokenizers.sentence_piece import BYTES

LETTERS = tuple("▁abcdehlnorstuvwy,.!")
PIECES = (
    "▁t",
    "he",
    "▁the",
    "er",
    "▁▁",
    "ab",
    "bab",
    "abab",
    "▁world",
    "▁wo",
    "rl",
    "rld",
    "wo",
    "orld",
    "or",
    "ld",
)
SPEECH = "the world, the babab aab!  Two  spaces,\nnaïve 🙂 words."


@pytest.fixture(scope="module")
def llama() -> SentencePiece:
    tokens = ("<unk>", "<s>", "</s>", *BYTES, *PIECES, *LETTERS)
    scores = [0.0] * (len(tokens) - len(PIECES) - len(LETTERS)) + [-float(i) for i in range(len(PIECES))]
    return SentencePiece.scored(tokens, scores + [-1e9] * len(LETTERS), ("<s>", "</s>"))


@pytest.fixture(scope="module")
def bert() -> WordPiece:
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = (
        "the",
        "world",
        "wor",
        "##ld",
        "##l",
        "##d",
        "play",
        "##ing",
        ",",
        ".",
        "!",
        "'",
        "t",
        "don",
        "cafe",
    )
    return WordPiece((*special, *words, "[", "]", "mask", "東"), special)


def shown(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.tokens[i] for i in tokenizer.encode(text)]


def test_pairs_are_merged_by_the_score_of_what_they_become(llama: SentencePiece) -> None:
    assert shown(llama, "the world") == ["▁the", "▁world"]
    assert shown(llama, "babab") == ["▁", "bab", "ab"]  # ab twice, then bab, which scores higher than abab


def test_what_has_no_token_is_spelt_in_bytes_and_everything_comes_back(llama: SentencePiece) -> None:
    assert shown(llama, "ï") == ["▁", "<0xC3>", "<0xAF>"]
    for text in (SPEECH, "", " ", "  a", "🙂🙂", "\n"):
        assert llama.decode(llama.encode(text)) == text
        assert "".join(llama.pieces(llama.encode(text))).removeprefix(" ") == text


def test_the_start_of_a_text_is_no_part_of_it(llama: SentencePiece) -> None:
    assert llama.start == llama.vocab["<s>"]
    assert llama.decode([llama.start, *llama.encode("the world")]) == "the world"


def test_bytes_that_are_no_text_become_replacement_characters(llama: SentencePiece) -> None:
    assert llama.decode([llama.vocab["<0xC3>"], llama.vocab["a"]]) == "\ufffda"


def test_a_vocabulary_that_would_cross_words_or_lacks_bytes_is_refused() -> None:
    with pytest.raises(ArgumentError, match="reaches from one word into the next"):
        SentencePiece(("<unk>", *BYTES, "a▁b"), ())
    with pytest.raises(ArgumentError, match="'<0x00>' is named as a token"):
        SentencePiece(("<unk>", "a"), ())


def test_words_are_cut_into_the_longest_pieces_that_fit(bert: WordPiece) -> None:
    assert shown(bert, "Playing the wörld, DON'T!") == [
        "play",
        "##ing",
        "the",
        "world",
        ",",
        "don",
        "'",
        "t",
        "!",
    ]
    assert shown(bert, "world worlds worldl") == ["world", "[UNK]", "world", "##l"]
    assert shown(bert, "a" * 101) == ["[UNK]"]


def test_names_of_special_tokens_stay_text_unless_allowed(bert: WordPiece) -> None:
    assert shown(bert, "the [MASK]") == ["the", "[", "mask", "]"]
    assert bert.encode("the [MASK]!", allow_special=True).tolist() == [
        bert.vocab[t] for t in ("the", "[MASK]", "!")
    ]


def test_their_files_are_read_without_the_package(llama: SentencePiece, bert: WordPiece) -> None:
    for tokenizer in (llama, bert):
        again = _own(json.loads(json.dumps(tokenizer.to_json())))
        assert type(again) is type(tokenizer)
        assert again.canonical == tokenizer.canonical


def test_a_file_that_asks_for_more_is_not_taken_for_one_of_them(bert: WordPiece) -> None:
    padded = {**bert.to_json(), "padding": {"strategy": {"Fixed": 8}}}
    assert type(from_json(bert.to_json())) is WordPiece
    with pytest.raises(DataError, match="padding"):
        _own(padded)


def test_the_package_reads_their_files_and_gives_the_same_numbers_and_text(
    llama: SentencePiece, bert: WordPiece, oracle: Callable[[str], ModuleType]
) -> None:
    package = oracle("tokenizers")
    for tokenizer in (llama, bert):
        theirs = package.Tokenizer.from_str(json.dumps(tokenizer.to_json()))
        for text in (
            SPEECH,
            "Café, 東京! don't \x00\u200d\u2028 ﬁ İ",
            "  two",
            "a" * 200,
            "the world worldl playing",
        ):
            ids = theirs.encode(text, add_special_tokens=False).ids
            assert tokenizer.encode(text).tolist() == ids
            assert tokenizer.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
