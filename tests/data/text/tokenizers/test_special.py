"""Special tokens of the user's own: never split, never learnt from, made out of names only where that is allowed."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.data import load
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import Tokenizer
from tests.data import corpus

NAMES = ["<user>", "<assistant>"]
TURN = "<user>what is it<assistant>it is what it is\n"


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    return corpus.write(tmp_path / "chat.txt", (TURN * 60).encode())


@pytest.fixture(params=tokenizers.KINDS)
def learnt(request: pytest.FixtureRequest) -> Tokenizer:
    vocab = None if request.param == "character" else 300
    return tokenizers.train(request.param, TURN * 20, vocab, alphabet=TURN, special=NAMES)


def test_names_are_one_token_each_where_that_is_allowed_and_text_otherwise(learnt: Tokenizer) -> None:
    numbers = [learnt.vocab[name] for name in NAMES]
    allowed = learnt.encode(TURN, allow_special=True).tolist()
    assert [i for i in allowed if i in numbers] == numbers
    assert learnt.decode(allowed) == TURN
    assert not {*learnt.encode(TURN).tolist()} & {*numbers}
    assert [learnt.pieces([number]) for number in numbers] == [[name] for name in NAMES]


def test_names_are_no_part_of_what_is_learnt_from(learnt: Tokenizer) -> None:
    others = [token for token in learnt.tokens if token not in NAMES]
    assert not any(len(token) > 1 and {*token} & {*"<>"} for token in others if token != "<unk>")


def test_a_learnt_vocabulary_with_names_reads_the_same_from_its_file(
    learnt: Tokenizer, tmp_path: Path, oracle: Callable[[str], ModuleType]
) -> None:
    tokenizers.write(learnt, tmp_path / "own.json")
    again = tokenizers.read(tmp_path / "own.json")
    theirs = oracle("tokenizers").Tokenizer.from_file(str(tmp_path / "own.json"))
    assert again.fingerprint == learnt.fingerprint
    assert again.encode(TURN, allow_special=True).tolist() == theirs.encode(TURN).ids
    assert again.special == tuple(NAMES)


@pytest.mark.parametrize("kind", tokenizers.KINDS)
def test_names_in_a_text_become_tokens_because_they_are_named(chat: Path, kind: str) -> None:
    data = load(chat, tokenizer=kind, vocab=None if kind == "character" else 300, special=NAMES, window=4)
    tokens, vocab = data.train.arrays["tokens"], tokenizers.of(data.schema).vocab
    assert all((tokens == vocab[name]).sum() == 54 for name in NAMES)
    assert load(**data.source).hash == data.hash
    assert not data.notes


def test_a_tokenizer_from_a_file_gets_names_behind_its_own_tokens(chat: Path, tmp_path: Path) -> None:
    base = tokenizers.ByteBPE.train(TURN, vocab=260, special=["<user>"])
    tokenizers.write(base, tmp_path / "bytes.json")
    found = tokenizers.of(load(chat, tokenizer=str(tmp_path / "bytes.json"), special=NAMES, window=4).schema)
    assert found.tokens == (*base.tokens, "<assistant>")
    assert found.special == ("<user>", "<assistant>")


def test_a_tokenizer_of_the_package_gets_names_too(oracle: Callable[[str], ModuleType]) -> None:
    package = oracle("tokenizers")
    model = package.models.Unigram([("a", -1.0), ("b", -2.0), ("?", -9.0)], unk_id=2)
    unigram = tokenizers.from_json(json.loads(package.Tokenizer(model).to_str()))
    larger = tokenizers.extended(unigram, NAMES)
    assert larger.encode("a<user>b", allow_special=True).tolist() == [0, 3, 1]
    assert 3 not in larger.encode("a<user>b").tolist()
    assert larger.special == tuple(NAMES)


def test_an_ordinary_token_that_is_named_becomes_a_special_one() -> None:
    words = tokenizers.Word.train("on\non\noff", vocab=9)
    named = tokenizers.extended(words, ["on"])
    assert len(named) == len(words)
    assert named.encode("on").tolist() == [0]
    assert named.encode("on", allow_special=True).tolist() == [words.vocab["on"]]


def test_a_text_read_in_blocks_has_the_same_tokens(
    chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = {"tokenizer": "byte-bpe", "vocab": 270, "special": NAMES, "window": 4}
    whole, stream = load(chat, **options), load(chat, stream=True, **options)
    found = [np.concatenate([s.arrays["tokens"] for s in (d.train, d.val, d.test)]) for d in (whole, stream)]
    decoded = [tokenizers.of(d.schema).decode(ids) for d, ids in zip((whole, stream), found, strict=True)]
    assert decoded == [TURN * 60] * 2
    user = tokenizers.of(stream.schema).vocab["<user>"]
    assert (found[1] == user).sum() == 60


def test_both_sides_of_pairs_get_them(tmp_path: Path) -> None:
    lines = [f"<to-{'ab'[i % 2]}>word{i}\tthing{i}<end>" for i in range(40)]
    path = corpus.write(tmp_path / "pairs.tsv", "\n".join(lines).encode())
    data = load(path, special=["<to-a>", "<to-b>", "<end>"])
    source, target = tokenizers.of(data.schema), tokenizers.of_target(data.schema)
    first = {source.tokens[row[0]] for row in data.train.arrays["x"]}
    assert first == {"<to-a>", "<to-b>"}
    assert (data.train.arrays["y"] == target.vocab["<end>"]).any(axis=1).all()


def test_a_name_that_never_comes_is_pointed_out(chat: Path) -> None:
    assert load(chat, special=["<system>"], window=4).notes == (("special token without text", 1),)


@pytest.mark.parametrize(
    ("special", "lower", "message"),
    [
        (["<User>"], True, "special='<User>' and lower=true: in small letters the text never holds it"),
        (["a b"], False, "special=.*: special must be names without white space"),
        (["<a>", "<a>"], False, "special=.*each once"),
        ([1], False, "special must be names"),
    ],
)
def test_names_that_cannot_be_found_are_refused(
    chat: Path, special: list[str], lower: bool, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        load(chat, special=special, lower=lower)
