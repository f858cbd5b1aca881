"""Files of tokenizers: what is written is read again, what only the package does is named, nonsense is refused."""

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.errors import ChainruleError, DataError
from chainrule.data.text import tokenizers
from chainrule.data.text.tokenizers import (
    BPE,
    ByteBPE,
    Character,
    Tokenizer,
    Word,
    from_json,
    package,
    read,
    write,
)

PROSE = "It's the King's; we'll see the kings.\n\nWho's there? 1,606 years, naïve friend 🙂\n" * 3
ONE_OF_EACH = [
    Character.train(PROSE),
    Word.train(PROSE, vocab=20),
    *(BPE.train(PROSE, vocab=60, rule=rule) for rule in ("none", "words", "whitespace", "spaces")),
    BPE.train(PROSE, vocab=60, special=["<end>"]),
    BPE(("<unk>", "a", "b", "ab"), (("a", "b"),), "none", unknown="<unk>"),
    ByteBPE.train(PROSE, vocab=300, special=["<start>", "<end>"]),
]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without the package."""
    monkeypatch.setattr(package, "installed", lambda: False)


@pytest.mark.parametrize("tokenizer", ONE_OF_EACH, ids=lambda t: type(t).__name__)
def test_a_tokenizer_comes_back_from_its_file(tokenizer: Tokenizer, tmp_path: Path, alone: None) -> None:
    write(tokenizer, tmp_path / "tokenizer.json")
    again = read(tmp_path / "tokenizer.json")
    assert again == tokenizer
    assert again.fingerprint == tokenizer.fingerprint


def test_merges_are_read_as_text_and_as_pairs() -> None:
    tokenizer = ByteBPE.train(PROSE, vocab=300)
    values = tokenizer.to_json()
    values["model"]["merges"] = [" ".join(pair) for pair in values["model"]["merges"]]
    assert from_json(values) == tokenizer


def test_special_tokens_may_stand_outside_the_vocabulary_of_the_model() -> None:
    values = ByteBPE.train(PROSE, vocab=300).to_json()
    values["added_tokens"] = [{"id": 300, "content": "<|endoftext|>", "special": True}]
    tokenizer = from_json(values)
    assert isinstance(tokenizer, ByteBPE)
    assert tokenizer.encode("a<|endoftext|>", allow_special=True).tolist()[1:] == [300]


def changed(**parts: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values.update(parts)


def model(**parts: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["model"].update(parts)


UNSUPPORTED = {
    "normalizer NFC": changed(normalizer={"type": "NFC"}),
    "truncation": changed(truncation={"max_length": 5}),
    "padding": changed(padding={"direction": "Left"}),
    "post_processor TemplateProcessing": changed(post_processor={"type": "TemplateProcessing"}),
    "pre_tokenizer Sequence": changed(pre_tokenizer={"type": "Sequence", "pretokenizers": []}),
    "pre_tokenizer ByteLevel with add_prefix_space": changed(
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True}
    ),
    "pre_tokenizer ByteLevel without use_regex": changed(
        pre_tokenizer={"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    ),
    "decoder null after pre_tokenizer ByteLevel": changed(decoder=None),
    "decoder WordPiece": changed(decoder={"type": "WordPiece"}, pre_tokenizer=None),
    "model Unigram": model(type="Unigram", vocab=[["a", -1.5]]),
    "model BPE with dropout": model(dropout=0.1),
    "model BPE with byte_fallback": model(byte_fallback=True),
    "model BPE with ignore_merges": model(ignore_merges=True),
    "model BPE with end_of_word_suffix": model(end_of_word_suffix="</w>"),
    "model BPE with fuse_unk": model(unk_token="a", fuse_unk=True),
    "added token 'x' with lstrip": changed(
        added_tokens=[{"id": 0, "content": "x", "special": True, "lstrip": True}]
    ),
    "added token 'x' with special=false": changed(added_tokens=[{"id": 0, "content": "x", "special": False}]),
}


@pytest.mark.parametrize("part", UNSUPPORTED)
def test_what_only_the_package_does_is_named_with_the_way_to_it(
    part: str, tmp_path: Path, alone: None
) -> None:
    values = copy.deepcopy(ONE_OF_EACH[-1].to_json())
    UNSUPPORTED[part](values)
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(DataError) as raised:
        read(path)
    assert raised.value.message == (
        f"odd.json: the tokenizer needs {part}, which is not read without the tokenizers package"
    )
    assert raised.value.remedy == "install it: pip install 'chainrule[text]'"


BROKEN = {
    "token number 1 is missing": model(vocab={"a": 0, "b": 2}, merges=[]),
    "the number of 'a' is '0'": model(vocab={"a": "0"}),
    "vocab: an object is needed, found list": model(vocab=[["a", 0.5]]),
    "merge 0: 'a b c' is not two tokens": model(merges=["a b c"]),
    "merge 0: ..a., 1. is not two tokens": model(merges=[["a", 1]]),
    "merges: a list is needed": model(merges=None),
    "merge 0 ..q., .u..: 'qu' is not in the vocabulary": model(merges=[["q", "u"]]),
    "model: an object is needed": changed(model=None),
    "added_tokens: a list is needed": changed(added_tokens={"a": 1}),
    "has no content or no number": changed(added_tokens=[{"content": "<end>"}]),
    "'<end>' is number 7 here and 1": changed(added_tokens=[{"id": 7, "content": "<end>", "special": True}]),
    "unk_token=3": model(unk_token=3),
    "holds half of a surrogate pair": model(vocab={"\ud800": 2}, merges=[]),
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_file_is_refused_by_name(message: str, tmp_path: Path) -> None:
    values = copy.deepcopy(ONE_OF_EACH[-1].to_json())
    BROKEN[message](values)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(DataError, match=f"broken.json: .*{message}"):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a JSON file"),
        (b"\xff", "is not a JSON file"),
        (b"[" * 100_000, "is not a JSON file"),
        (b"9" * 5000, "is not a JSON file"),
        (b"[1]", "holds no JSON object"),
        (b"{}", "model: an object is needed"),
    ],
    ids=["empty", "bytes", "deep", "long", "list", "bare"],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(path)
    with pytest.raises(DataError, match="No such file"):
        read(tmp_path / "absent.json")


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.sampled_from(["added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "model"]),
    anything,
)
def test_any_part_replaced_by_anything_is_read_or_refused(part: str, value: Any) -> None:
    values = ONE_OF_EACH[0].to_json()
    for changed in ({**values, part: value}, {**values, "model": {**values["model"], "vocab": value}}):
        with contextlib.suppress(ChainruleError):
            assert isinstance(tokenizers.from_json(changed), Tokenizer)
