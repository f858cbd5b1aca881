"""The `tokenizers` package as a reference: the same chunks, merges and numbers, and files that go both ways."""

import itertools
import json
import random
import sys
import unicodedata
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from chainrule.data import load
from chainrule.data.previews import excerpt
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import BPE, ByteBPE, Packaged, Tokenizer, Word, from_json, split
from chainrule.data.text.tokenizers.bpe import pre_tokenizer
from chainrule.data.text.tokenizers.tokenizer import bpe_model, document
from tests.data.text.tokenizers.test_files import ONE_OF_EACH, PROSE
from tests.data.text.tokenizers.test_kinds import random_text

Oracle = Callable[[str], ModuleType]
PLAYS = excerpt(load("shakespeare"), 10**9)


@pytest.fixture
def reference(oracle: Oracle) -> Any:
    return oracle("tokenizers")


def opened(reference: Any, tokenizer: Tokenizer) -> Any:
    return reference.Tokenizer.from_str(json.dumps(tokenizer.to_json()))


def learnt(
    reference: Any, text: str, component: Any, alphabet: tuple[str, ...], vocab: int, low: int
) -> dict[str, Any]:
    own = reference.Tokenizer.from_str(json.dumps(document(bpe_model((), ()), component, None)))
    trainer = reference.trainers.BpeTrainer(
        vocab_size=vocab, min_frequency=low, show_progress=False, initial_alphabet=list(alphabet)
    )
    own.train_from_iterator([text], trainer)
    model: dict[str, Any] = json.loads(own.to_str())["model"]
    return model


@pytest.mark.parametrize(("vocab", "low"), [(1000, 2), (8000, 0)])
def test_bytes_merge_as_in_the_package(reference: Any, vocab: int, low: int) -> None:
    ours = ByteBPE.train(PLAYS, vocab, min_frequency=low)
    assert len(ours) == vocab
    component = ours.to_json()["pre_tokenizer"]
    theirs = learnt(reference, PLAYS, component, ours.tokens[:256], vocab, low)
    assert [list(pair) for pair in ours.merges] == theirs["merges"]
    assert dict(ours.vocab) == theirs["vocab"]
    assert opened(reference, ours).encode(PLAYS).ids == ours.encode(PLAYS).tolist()


@pytest.mark.parametrize("rule", ["none", "words", "whitespace", "spaces"])
def test_characters_merge_as_in_the_package(reference: Any, rule: Any) -> None:
    text = PLAYS[:30_000]
    ours = BPE.train(text, 1000, rule=rule)
    theirs = learnt(reference, text, pre_tokenizer(rule), (), 1000, 2)
    assert [list(pair) for pair in ours.merges] == theirs["merges"]
    assert dict(ours.vocab) == theirs["vocab"]
    assert opened(reference, ours).encode(text).ids == ours.encode(text).tolist()


def test_chunks_are_those_of_the_package(reference: Any) -> None:
    source = random.Random(1)
    known = [chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    borders = [
        c
        for _, run in itertools.groupby(known, unicodedata.category)
        for chars in [list(run)]
        for c in (chars[0], chars[-1])
    ]
    drawn = [*borders, *source.sample(known, 5000), *map(chr, range(0x250))]
    text = "".join(f"a{c}1{c}!{c} {c}_" for c in drawn)
    rules: dict[Any, Any] = {
        "words": reference.pre_tokenizers.Split(
            reference.Regex(tokenizers.splitting.WORDS_PATTERN), "isolated"
        ),
        "whitespace": reference.pre_tokenizers.Whitespace(),
        "spaces": reference.pre_tokenizers.WhitespaceSplit(),
    }
    for rule, theirs in rules.items():
        assert split(text, rule) == [chunk for chunk, _ in theirs.pre_tokenize_str(text)]


@pytest.mark.parametrize("tokenizer", ONE_OF_EACH, ids=lambda t: type(t).__name__)
def test_files_written_here_encode_and_decode_alike_there(reference: Any, tokenizer: Tokenizer) -> None:
    theirs = opened(reference, tokenizer)
    text = PROSE if not (isinstance(tokenizer, BPE) and tokenizer.unknown) else "abßab"
    ids = tokenizer.encode(text).tolist()
    assert theirs.encode(text).ids == ids
    assert theirs.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids)
    assert from_json(json.loads(theirs.to_str())) == tokenizer


def test_random_texts_encode_alike(reference: Any) -> None:
    source = random.Random(2)
    tokenizer = ByteBPE.train(PLAYS[:50_000], 600)
    theirs = opened(reference, tokenizer)
    for _ in range(500):
        text = random_text(source)
        if not any(unicodedata.category(c) == "Cn" for c in text):
            assert theirs.encode(text).ids == tokenizer.encode(text).tolist()


def test_words_are_ranked_as_in_the_package(reference: Any) -> None:
    ours = Word.train(PLAYS, 500)
    theirs = reference.Tokenizer(reference.models.WordLevel(unk_token="<unk>"))
    theirs.pre_tokenizer = opened(reference, ours).pre_tokenizer
    trainer = reference.trainers.WordLevelTrainer(
        vocab_size=500, min_frequency=2, special_tokens=["<unk>"], show_progress=False
    )
    theirs.train_from_iterator([PLAYS], trainer)
    assert theirs.get_vocab() == dict(ours.vocab)


def test_a_file_of_a_kind_we_do_not_read_runs_in_the_package(reference: Any) -> None:
    values = ByteBPE.train(PROSE, 300).to_json()
    values["normalizer"] = {"type": "Lowercase"}
    tokenizer = from_json(values)
    assert isinstance(tokenizer, Packaged)
    assert tokenizer.decode(tokenizer.encode("The KING")) == "the king"
    assert tokenizer.to_json() == values
    assert len(tokenizer) == 300
